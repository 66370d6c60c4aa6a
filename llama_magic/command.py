"""`llama-magic COMMAND …`: what can be asked for from a shell, where there is no notebook."""

from __future__ import annotations

import errno
import os
import pkgutil
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import NamedTuple

from llama_magic.doors import Door, through
from llama_magic.errors import LlamaMagicError
from llama_magic.words.names import hint


class Command(NamedTuple):
    """What a command does, and where: the function `module:name` takes its words and returns the status."""

    help: str
    where: str


# A new command is a line here. What it needs is imported when it is called.
COMMANDS = {
    "verify": Command(
        "write the seeded answers of a notebook or record again", "llama_magic.magics.verify:command"
    ),
    "serve": Command("serve a model to other programs", "llama_magic.magics.serve:command"),
    "doctor": Command("what is wrong here, and what to do", "llama_magic.magics.doctor:command"),
}
# What is asked for in a notebook, and by a script in Python.
_IN_PYTHON = {
    **{name: f"lm.load(…).{name}(…)" for name in ("chat", "complete", "structured", "embed")},
    **{name: f"lm.{name}(rows, prompt, …)" for name in ("map", "sweep", "decide")},
    **{name: f"lm.{name}(…)" for name in ("load", "inspect", "bench", "rerun", "diff")},
    "ask": "lm.load(…).chat(…)",
    "run": "lm.load(…).chat(…)",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0, or 2 where it could not be understood or done."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = _run(words)
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python says the same once more as it ends
        if error.errno == errno.EPIPE:
            return 141  # who read it has gone (`| head`): as a shell says of SIGPIPE
        print(f"llama-magic: what it says cannot be written: {error.strerror}.", file=sys.stderr)
        return 2
    return status


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0
    if words[0] == "--version":
        print(f"llama-magic {metadata.version('llama-magic')}")
        return 0
    command = COMMANDS.get(words[0])
    if command is None:
        here = _IN_PYTHON.get(words[0])
        meant = (
            f" In a script it is {here}, after import llama_magic as lm."
            if here
            else hint(words[0], COMMANDS)
        )
        print(f"llama-magic: there is no command {words[0]!r}.{meant}\n\n{_help()}", file=sys.stderr)
        return 2
    try:
        with through(Door.SHELL):
            return int(pkgutil.resolve_name(command.where)(words[1:]))
    except LlamaMagicError as error:
        print(f"llama-magic {words[0]}: {error.at(Door.SHELL)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("llama-magic: interrupted.", file=sys.stderr)
        return 130


def _help() -> str:
    width = max(map(len, COMMANDS))
    rows = (f"  {name:<{width}}  {command.help}" for name, command in COMMANDS.items())
    return "usage: llama-magic COMMAND [options]\n\n" + "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
