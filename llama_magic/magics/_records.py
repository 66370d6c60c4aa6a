"""The verbs of records: what was generated, kept in a file, listed."""

from __future__ import annotations

from typing import Any

from llama_magic import display
from llama_magic.errors import OptionError
from llama_magic.experiments import difference
from llama_magic.experiments.finding import made_by
from llama_magic.experiments.results import Results
from llama_magic.magics._call import CellRun
from llama_magic.magics._kernel import Kernel
from llama_magic.magics._modes import finish
from llama_magic.magics._options import LIMITS, SAMPLING
from llama_magic.magics._parse import CellCommand, LineCommand
from llama_magic.magics._readers import READERS, whole_number
from llama_magic.model.results import Completion
from llama_magic.session.history import HistoryEntry
from llama_magic.words.names import hint, likeliest


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


def replay(kernel: Kernel, command: LineCommand) -> Any:
    """Begin or end to answer from a record, or say which one."""
    session, only = kernel.session, bool(command.options.get("only"))
    if not command.words:
        if session.replay is None or only:
            raise OptionError("Nothing is replayed.", remedy="%llama replay PATH answers from a record.")
        print(session.replay)
        return None
    (path,) = command.words
    if path == "off":
        if only:
            raise OptionError("--only goes with the path of a record, not with off.")
        was = session.replay
        session.replay_from(None)
        print(f"No longer answered from {was.record.path}." if was else "Nothing was replayed.")
        return None
    made = session.replay_from(path, only=only)
    assert made is not None
    others = "nothing else is answered" if only else "everything else is asked of the model"
    print(f"Answered from {made.record.path}:\nwhat equals a request of it; {others}.")
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
    if not words[1].lower().endswith((".jsonl", ".json")):
        raise OptionError(
            f"Receipts are lines of JSON, and {words[1]!r} is to be another kind of file.",
            remedy="Name it x.jsonl. IPython's own %history -f x.py writes this kernel's cells as a script.",
        )
    print(f"Saved {len(some):,} to {some.save(words[1])}.")
    return None


def rerun(kernel: Kernel, command: LineCommand) -> Any:
    """Ask again what a generation was asked, show the answer, and say where it parts from the old one."""
    number, *words = command.words
    old = _entry(kernel, number).completion
    changes = {k: v for k, v in command.options.items() if k not in ("model", "out", "format", "quiet")}
    changes |= dict(map(_change, words))
    name = command.options.get("model")
    model = kernel.get_model(name) if name else made_by(old.receipt, kernel.session.models.values())
    if model is None:
        raise OptionError(
            f"The model that wrote generation {number}, {old.model}, is not loaded.",
            remedy="Load it, or name the one to ask: -m NAME.",
        )
    call = CellRun(kernel, CellCommand(old.mode, command.options), "")
    call.model = model
    shown = finish(call, model.rerun(old, stream=True, **changes), f"{old.mode} · {number} again")
    new = kernel.session.history[-1].completion if shown is None else shown
    if not call.quiet and isinstance(new, Completion):
        step = difference.diff(old, new).step
        if step is None:
            print(f"Equal to generation {number}.")
        else:
            print(f"It differs from generation {number} from token {step + 1:,} on.")
    return shown


def _change(word: str) -> tuple[str, Any]:
    """Read `name=value` as the option of that name."""
    name, equals, text = word.partition("=")
    name = name.replace("-", "_")
    known = {option.key: option for option in (*LIMITS, *SAMPLING)}
    option = known.get(name)
    if not equals or option is None:
        near = likeliest(name, known)
        hint = f" Did you mean {near}=…?" if near else ""
        raise OptionError(
            f"%llama rerun does not take {word!r}; expected name=value, or an option.{hint}",
            remedy="For example: %llama rerun 3 seed=8 temperature=0.2.",
        )
    if not option.takes_value:
        return name, option.value
    value = READERS[option.kind](name, text, option)
    return name, (value,) if option.repeat else value


def diff(kernel: Kernel, command: LineCommand) -> Any:
    """Compare two generations by their numbers, or two variables that hold answers, or runs."""
    one, other = (_answer(kernel, word, Results) for word in command.words)
    return difference.diff(one, other, names=(command.words[0], command.words[1]))


def pen(kernel: Kernel, command: LineCommand) -> Any:
    """Return the pen over an answer: that of a name or number, else the last one that was written."""
    if not command.words:
        written = (entry.completion for entry in reversed(list(kernel.session.history)) if entry.ended)
        answer = next(written, None)
        if answer is None:
            raise OptionError("Nothing was written in this kernel yet.", remedy="Ask a model first.")
        return display.live_view(answer)
    (word,) = command.words
    held = kernel.namespace.get(word)
    if isinstance(held, list) and held and all(isinstance(one, Completion) for one in held):
        return display.live_view(held, word)
    return display.live_view(answer_of(kernel, word), word if word in kernel.namespace else "answer")


def answer_of(kernel: Kernel, word: str) -> Completion[Any]:
    """Return the answer that a variable holds, or that has a number in the history."""
    found = _answer(kernel, word)
    if isinstance(found, HistoryEntry):
        found = found.completion
    if not isinstance(found, Completion):
        raise OptionError(
            f"{word} is a receipt, not an answer.", remedy=f"lm.rerun({word}).live() writes it here."
        )
    return found


def _answer(kernel: Kernel, word: str, *others: type) -> Any:
    """Return what a name holds, an answer or one of some `others`; or the generation of a number."""
    held = kernel.namespace.get(word)
    if isinstance(held, (Completion, HistoryEntry, dict, *others)):
        return held
    if word.isidentifier():
        what = f"{word} is a {type(held).__name__}" if word in kernel.namespace else f"There is no {word!r}"
        answers = [name for name, value in kernel.namespace.items() if isinstance(value, Completion)]
        raise OptionError(
            f"{what}; expected an answer (-o NAME binds one) or a number of %llama history."
            + hint(word, [name for name in answers if not name.startswith("_")])
        )
    return _entry(kernel, word).completion


def _entry(kernel: Kernel, word: str) -> HistoryEntry:
    return kernel.session.history.numbered(whole_number("The number of a generation", word, 1))
