"""The verbs of records: what was generated, kept in a file, listed."""

from __future__ import annotations

from typing import Any

from llama_magic.errors import OptionError
from llama_magic.magics._kernel import Kernel
from llama_magic.magics._parse import LineCommand
from llama_magic.magics._readers import whole_number


def record(kernel: Kernel, command: LineCommand) -> Any:
    """Begin or end a record, or show the one that is kept."""
    session, tag = kernel.session, command.options.get("tag")
    if not command.words:
        if session.recording is None:
            raise OptionError("No record is kept.", remedy="%llama record PATH begins one.")
        if tag is None:
            return session.recording.record
        session.recording.tag = tag
        print(f"Answers are tagged {tag!r} from now on.")
        return None
    (path,) = command.words
    if path == "off":
        if tag is not None:
            raise OptionError("--tag goes with a record that is kept, not with off.")
        was = session.recording
        session.keep_record(None)
        print(f"Nothing more goes into {was.record.path}." if was else "No record was kept.")
        return None
    made = session.keep_record(path, tag)
    assert made is not None
    held = f", which holds {len(made):,} already" if len(made) else ""
    print(f"Every answer from now on goes into {made.path}{held}.")
    return None


def history(kernel: Kernel, command: LineCommand) -> Any:
    """List what was generated, all or some of it, or save that."""
    words = list(command.words)
    last = (
        whole_number("The number of generations", words.pop(0), 1) if words and words[0] != "save" else None
    )
    some = kernel.session.history.select(last, **command.options)
    if not words:
        return some
    if words[0] != "save" or len(words) != 2:
        raise OptionError(
            f"%llama history does not take {' '.join(words)!r}.",
            remedy="Write %llama history [N] [--grep RE] [--tag T] [save PATH].",
        )
    print(f"Saved {len(some):,} to {some.save(words[1])}.")
    return None
