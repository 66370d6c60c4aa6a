"""The help texts and README's reference, all made from the table of verbs, modes and options."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

from llama_magic.magics._options import (
    CONSTRAINTS,
    FORMAT,
    LIMITS,
    MODES,
    OUT,
    QUIET,
    RAW,
    SAMPLING,
    SCHEMA,
    SYSTEM,
    VERBS,
)
from llama_magic.magics._rows import Mode, Option, Verb

_BODY_RULES = """\
The body
  {{ expression }} is filled from your variables, once (Jinja, sandboxed; --raw switches it off).
  One line break at the end of the cell is not part of the prompt.
  chat and structured: a body whose first line starts with system:, user: or assistant: is a list of \
such blocks; indent that line by one blank to mean it literally.
  A chat cell goes on with the conversation of the chat cells run before it; --new begins it afresh, \
--session NAME is another one. Run again, a cell replaces its turn, and what came after is kept as a branch.
  %%llama must be the first line of its cell: no comment above it. IPython refuses a cell without a body.
  A long line of options ends in a blank and \\, and goes on in the next."""

_LINE = 70  # characters of a cell's output at 1,000 pixels, where longer lines are broken within words
_LEFT = 26  # of them for what is written; a longer one has a line of its own
_WRITING = tuple(
    mode.name for mode in MODES.values() if LIMITS[0] in mode.options
)  # modes that write answers


def line_help() -> str:
    """Return the text of `%llama?`."""
    rows = [(f"{verb.name} {verb.arguments}".rstrip(), verb.help) for verb in VERBS.values()]
    return _fitting(
        "%llama VERB [options]: load, inspect and manage local language models.\n\n"
        + _columns(rows)
        + "\n\n%llama VERB --help explains one verb. %%llama? explains the cell magic, which generates.\n"
        "Values with blanks go in quotes; backslashes are ordinary characters; -- ends the options."
    )


def cell_help() -> str:
    """Return the text of `%%llama?`."""
    rows = [(mode.usage, f"{mode.body} → {mode.result}") for mode in MODES.values()]
    return _fitting(
        "%%llama [MODE] [options]: the cell's body goes to the model. Without a mode it is chat.\n\n"
        + _columns(rows)
        + "\n\n"
        + _options(_every_option())
        + "\n\n"
        + _BODY_RULES
        + "\n%%llama MODE --help, with any text below it, lists the options of one mode."
    )


def verb_help(verb: Verb) -> str:
    """Return the text of `%llama VERB --help`."""
    head = f"%llama {verb.name} {verb.arguments}".rstrip() + f"\n{verb.help}; gives back: {verb.gives}"
    rows = [(action.usage, action.help) for action in verb.actions]
    actions = f"\n\n{_columns(rows)}" if rows else ""
    return _fitting(head + actions + (f"\n\n{_options(verb.options)}" if verb.options else ""))


def mode_help(mode: Mode) -> str:
    """Return the text of `%%llama MODE --help`."""
    head = f"%%llama {mode.usage} [options]\nThe body is {mode.body}; gives back: {mode.result}"
    return _fitting(f"{head}\n\n{_options(mode.options)}\n\n{_BODY_RULES}")


def reference_markdown() -> str:
    """Return the tables of verbs, modes and options as Markdown, as README shows them."""
    lines = ["| `%llama` verb | does | gives back |", "| --- | --- | --- |"]
    for verb in VERBS.values():
        usage = _code(f"{verb.name} {verb.arguments}".rstrip())
        lines.append(f"| {usage} | {_cell(verb.help)} | {_cell(verb.gives)} |")
    lines += ["", "| `%%llama` mode | the cell body is | result |", "| --- | --- | --- |"]
    lines += [f"| {_code(m.usage)} | {_cell(m.body)} | {_cell(m.result)} |" for m in MODES.values()]
    cells = _every_option()
    writing = ", ".join(_WRITING)
    lines += ["", f"| option of `%%llama` | does | in (*writing*: {writing}) |", "| --- | --- | --- |"]
    lines += [f"| {_code(o.usage)} | {_cell(o.help)} | {_modes_with(o)} |" for o in cells]
    lines += ["", "| option of verbs alone | does | in |", "| --- | --- | --- |"]
    own = dict.fromkeys(option for verb in VERBS.values() for option in verb.options)
    for option in own:
        if option not in cells:
            lines.append(f"| {_code(option.usage)} | {_cell(option.help)} | {_verbs_with(option)} |")
    return "\n".join(lines) + "\n"


def _every_option() -> list[Option]:
    first = (*MODES["chat"].options[:1], *LIMITS, *SAMPLING, *CONSTRAINTS, SCHEMA, SYSTEM)
    rest = [option for mode in MODES.values() for option in mode.options]
    return list(dict.fromkeys((*first, *rest, OUT, FORMAT, QUIET, RAW)))


def _modes_with(option: Option) -> str:
    """Name the modes that take an option, and the verbs that take it, too."""
    owners = [mode.name for mode in MODES.values() if option in mode.options]
    if len(owners) == len(MODES):
        owners = ["every mode"]
    elif set(_WRITING) <= set(owners):
        owners = ["*writing*", *(name for name in owners if name not in _WRITING)]
    modes = ", ".join(owners)
    if option == OUT:
        return f"{modes}, and every verb that gives something back"
    verbs = _verbs_with(option)
    return f"{modes}; %llama {verbs}" if verbs else modes


def _verbs_with(option: Option) -> str:
    return ", ".join(verb.name for verb in VERBS.values() if option in verb.options)


def _options(options: Iterable[Option]) -> str:
    rows = []
    for option in options:
        choices = f" ({', '.join(option.choices)})" if option.choices and option.metavar else ""
        rows.append((option.usage, option.help + choices + (" (repeatable)" if option.repeat else "")))
    return "Options\n" + _columns(rows)


def _columns(rows: list[tuple[str, str]]) -> str:
    """Return two columns that fit a line."""
    width = min(_LEFT, max(len(left) for left, _ in rows))
    return "\n".join(line for left, right in rows for line in _row(left, right, width))


def _row(left: str, right: str, width: int) -> list[str]:
    words = textwrap.wrap(right, _LINE - width - 4, break_long_words=False, break_on_hyphens=False)
    first, *more = words if len(left) <= width else ["", *words]
    return [f"  {left:<{width}}  {first}".rstrip(), *(f"  {'':<{width}}  {line}" for line in more)]


def _fitting(text: str) -> str:
    """Return a help text without lines that are too long."""
    return "\n".join(
        part
        for line in text.splitlines()
        for part in ([line] if len(line) <= _LINE else _broken(line, len(line) - len(line.lstrip())))
    )


def _broken(line: str, indent: int) -> list[str]:
    return textwrap.wrap(
        line, _LINE, subsequent_indent=" " * (indent + 2), break_long_words=False, break_on_hyphens=False
    )


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def _cell(text: str) -> str:
    return re.sub(r"\{\{ ?\w* \}\}", r"`\g<0>`", text.replace("|", "\\|"))
