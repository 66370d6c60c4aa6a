"""Structured answers to a list of prompts, decoded together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llama_magic.errors import (
    ContextOverflowError,
    GenerationInterrupted,
    LlamaMagicError,
    StructuredOutputError,
    TemplateError,
)
from llama_magic.model.attempts import StructuredStream
from llama_magic.threads import despite_interrupts
from llama_magic.words.counting import counted

_OF_A_ROW = (StructuredOutputError, ContextOverflowError, TemplateError)


class AnswerList:
    """Answers to several prompts: one that fails or is interrupted never costs the others."""

    def __init__(self, begin: Callable[[int], StructuredStream[Any]], count: int) -> None:
        """`begin` asks for the row of a number, of `count` rows."""
        self._begin = begin
        self._count = count
        self._streams: list[StructuredStream[Any] | LlamaMagicError] = []
        self._results: list[Any] = []

    def run(self) -> list[Any]:
        try:
            for row in range(self._count):
                self._streams.append(self._start(row))
            for stream in self._streams:
                self._results.append(self._finish(stream))
        except KeyboardInterrupt:
            raise self._interrupted() from None
        except BaseException:
            self._cancel()
            raise
        return all_or_error(self._results)

    def _start(self, row: int) -> StructuredStream[Any] | LlamaMagicError:
        try:
            return self._begin(row)
        except _OF_A_ROW as error:
            return error

    def _finish(self, stream: StructuredStream[Any] | LlamaMagicError) -> Any:
        if isinstance(stream, LlamaMagicError):
            return stream
        try:
            return stream.run()
        except LlamaMagicError as error:
            return error

    def _cancel(self) -> None:
        going = [stream for stream in self._streams if isinstance(stream, StructuredStream)]
        for stream in going:  # else the engine goes on with some while one is waited for
            stream.halt()
        for stream in going:
            stream.cancel()

    def _interrupted(self) -> GenerationInterrupted:
        """Stop all, whatever an impatient second Ctrl-C says, and keep what there is of each row."""

        def stop() -> list[Any]:
            self._cancel()
            going = self._streams[len(self._results) :]
            return [_kept(result) for result in self._results] + [_so_far(stream) for stream in going]

        try:
            kept = despite_interrupts(stop)
        except KeyboardInterrupt:
            kept = [_kept(result) for result in self._results]
        kept += [None] * (self._count - len(kept))
        finished = sum(getattr(row, "finish_reason", "interrupted") != "interrupted" for row in kept)
        rows = counted(len(kept), "row")
        words = f"{finished:,} of {rows} finished; sys.last_value.completion holds what was written"
        return GenerationInterrupted(kept, words)


def _kept(result: Any) -> Any:
    """Return what there is of a row: its completion, also where it is no instance; None of none."""
    if isinstance(result, LlamaMagicError):
        return list(result.completions) or getattr(result, "completion", None)
    return result


def _so_far(stream: StructuredStream[Any] | LlamaMagicError) -> Any:
    if isinstance(stream, LlamaMagicError):
        return None
    try:
        return stream.completion
    except LlamaMagicError as error:
        return _kept(error)


def all_or_error(results: Sequence[Any]) -> list[Any]:
    """Return the results of all rows; raise the first error, which keeps them all and names its row."""
    failed = [row for row, result in enumerate(results) if isinstance(result, BaseException)]
    if not failed:
        return list(results)
    foreign = (results[row] for row in failed if not isinstance(results[row], LlamaMagicError))
    error = next(foreign, None)
    if error is not None:
        raise error
    raise results[failed[0]].of_row(failed[0], len(failed), [_kept(result) for result in results])
