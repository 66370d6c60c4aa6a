"""What a verb takes behind it, and each of its actions (`kv save PATH`)."""

from __future__ import annotations

import os

from llama_magic.errors import OptionError
from llama_magic.magics._options import MODES, VERBS
from llama_magic.magics._rows import Verb
from llama_magic.words.names import hint


def check_action(verb: str, action: str, rest: list[str]) -> None:
    """Refuse an action that the verb has not, and words that it does not take."""
    row = VERBS[verb.split(maxsplit=1)[0]]
    wants = {known.name: known.wants for known in row.actions}
    usage = f"Write %llama {verb} {row.arguments.removeprefix('NAME ')}."
    if action not in wants and row.name in MODES:
        usage += f" A text is answered by %%llama {row.name}, with two %, and stands in the lines below."
    if action not in wants:
        raise OptionError(f"%llama {verb} has no action {action!r}.{hint(action, wants)}", remedy=usage)
    least = sum(not word.startswith("[") for word in wants[action])
    if not least <= len(rest) <= len(wants[action]):
        needs = " ".join(wants[action]) or "nothing more"
        raise OptionError(
            f"%llama {verb} {action} takes {needs}, and got {' '.join(rest) or 'nothing'}.", remedy=usage
        )


def check_count(verb: Verb, free: list[str], door: str = "%llama") -> None:
    """Refuse fewer words, or more, than a verb takes."""
    where = f"{door} {verb.name}"
    usage = f"Write {where} {verb.arguments}".rstrip() + "."
    if len(free) < verb.least:
        wanted = " and ".join(verb.arguments.partition("[")[0].split())
        if verb.name == "chat":
            usage += " %llama chats lists those there are."
        raise OptionError(f"{where} needs {wanted or verb.arguments}.", remedy=usage)
    if len(free) > verb.most:
        is_path = any("/" in word or "\\" in word or word.endswith(".gguf") for word in free)
        if is_path and not all(map(os.path.exists, free)):
            path = " ".join(free).replace("\\ ", " ")
            usage = f'A path with blanks stands in quotes: {where} "{path}".'
        raise OptionError(f"{where} does not take {free[verb.most]!r}.", remedy=usage)
