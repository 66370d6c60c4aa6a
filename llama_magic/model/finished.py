"""What becomes of a constrained answer at its end: an instance, or an error that says what ended it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llama_magic.doors import here, option
from llama_magic.errors import StructuredOutputError
from llama_magic.model.results import Completion
from llama_magic.words.counting import counted

if TYPE_CHECKING:
    from llama_magic.structured import Constraint


def finished(completion: Completion, constraint: Constraint | None) -> Completion:
    """Give a structured answer its instance; raise `StructuredOutputError` where it is none.

    A free answer that was cut before its text, or within a call of a tool, says so in a note.
    """
    if constraint is None:
        return _told(completion)
    completion = replace(completion, _constraint=constraint)
    if completion.finish_reason == "interrupted":
        return completion
    cut = is_cut(completion)
    if cut and constraint.may_go_on(completion.text):
        raise _cut(completion, constraint.partial(completion.text))
    try:
        parsed = constraint.parse(completion.text)
    except StructuredOutputError as error:
        if cut:
            raise _cut(completion, constraint.partial(completion.text)) from None
        error.completion = completion
        raise
    limited = cut and completion.finish_reason != "stop"  # a stop text was meant to end it
    if limited and constraint.kind in ("regex", "gbnf") and constraint.lets_go_on(completion.text):
        what = "regular expression" if constraint.kind == "regex" else "grammar"
        message = _reason(completion)[0].removesuffix(", before it was complete.")
        note = f"{message}; the {what} lets it go on."
        if note not in completion.notes:  # one of a record has it
            completion = replace(completion, notes=(*completion.notes, note))
    return replace(completion, parsed=parsed)


def _told(completion: Completion) -> Completion:
    if completion.finish_reason not in ("length", "timeout"):
        return completion
    if completion.tool_calls and not completion.tool_calls[-1]["name"]:
        note = "the answer was cut within a call of a tool, which was not run"
    elif completion.thinking and not completion.text:
        note = f"thinking took all {counted(len(completion.token_ids), 'token')}"
    else:
        return completion
    timed_out = completion.finish_reason == "timeout"
    more = f"seconds ({option('timeout')})" if timed_out else f"tokens ({option('max_tokens')})"
    if completion.finish_reason == "length" and _is_full(completion):
        more = f"window ({option('ctx')})"
    return replace(completion, notes=(*completion.notes, here(f"{note}; it needs more {more}")))


def is_cut(completion: Completion) -> bool:
    """Say whether an answer did not end by itself, and nobody interrupted it."""
    return completion.finish_reason in ("length", "timeout") or is_stopped(completion)


def is_stopped(completion: Completion) -> bool:
    """Say whether a stop text that was asked for ended the answer, which might have gone on."""
    return completion.stop is not None and completion.stop in completion.stops


def _cut(completion: Completion, partial: Any) -> StructuredOutputError:
    message, remedy = _reason(completion)
    return StructuredOutputError(
        message, text=completion.text, partial=partial, completion=completion, remedy=remedy
    )


def _reason(completion: Completion) -> tuple[str, str]:
    """Return what cut an answer, and what to do."""
    tokens = counted(len(completion.token_ids), "token")
    all_thought = not completion.text and bool(completion.thinking or completion.raw_text)
    began = f"began: thinking took all {tokens}" if all_thought else "was complete"
    less = (
        f"leave thinking out ({option('thinking', False)}) where that can be"
        if all_thought
        else "ask for less"
    )
    if completion.finish_reason == "timeout":
        message = f"The time was up after {tokens}, before the answer {began}."
    elif completion.finish_reason == "stop":
        stop = json.dumps(completion.stop, ensure_ascii=False)
        message = f"The stop text {stop} ended the answer after {tokens}, before it was complete."
        return message, f"Leave out {option('stop')}: a structured answer ends by itself."
    else:
        message = f"The answer was cut after {tokens}, before it {began}."
    more = _more(completion)
    return message, f"{more[0].upper()}{more[1:]}, or {less}."


def _more(completion: Completion) -> str:
    """Say what would have let an answer go on."""
    if completion.finish_reason == "timeout":
        return f"allow more seconds ({option('timeout')})"
    if _is_full(completion):
        return f"the window is full: load the model with a larger {option('ctx')}"
    return f"allow more tokens ({option('max_tokens')})"


def _is_full(completion: Completion) -> bool:
    return completion.usage.prompt_tokens + completion.usage.completion_tokens >= completion.budget.window
