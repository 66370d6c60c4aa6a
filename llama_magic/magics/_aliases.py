"""`%llama alias`: task names for models and their options."""

from __future__ import annotations

from typing import Any

from llama_magic.errors import OptionError
from llama_magic.loading.alias import alias, aliases
from llama_magic.magics._kernel import Kernel
from llama_magic.magics._parse import LineCommand
from llama_magic.words.names import hint
from llama_magic.words.tables import Table


def alias_verb(kernel: Kernel, command: LineCommand) -> Any:
    """Make an alias, take one away, show one, or list them all."""
    options = dict(command.options)
    remove = options.pop("remove", False)
    name, source = (*command.words, None, None)[:2]
    if name is not None and source is not None and not remove:
        return alias(name, source, **options)
    if options or (remove and (name is None or source is not None)):
        raise OptionError(
            "%llama alias takes "
            + ("one name and --remove." if remove else "a name and a source with options."),
            remedy="Write %llama alias NAME SOURCE [options], or %llama alias NAME --remove.",
        )
    if name is None:
        return _table(kernel)
    if remove:
        alias(name, None)
        print(f"{name} is no alias any more.")
        return None
    made = {one.name: one for one in aliases()}
    if name not in made:
        raise OptionError(
            f"There is no alias {name!r}.{hint(name, made)}",
            remedy="%llama alias NAME SOURCE [options] makes one.",
        )
    return made[name]


def _table(kernel: Kernel) -> Table:
    kernel.session.refresh()
    rows = tuple(
        (
            one.name,
            one.source,
            one.words or None,
            "loaded" if one.name in kernel.session.models else "not yet",
        )
        for one in aliases()
    )
    return Table(
        ("name", "stands for", "options", "loaded"),
        rows,
        empty="No alias yet. %llama alias NAME SOURCE [options] makes one.",
    )
