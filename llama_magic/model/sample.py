"""What one sample of a call has written so far, read as it grows: answer, thinking, tool calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from llama_magic.formatters import parse_tool_calls
from llama_magic.model.drafts import Drafts
from llama_magic.model.logprobs import TokenLogprob
from llama_magic.structured import field_report

Read = tuple[str, str, tuple[dict[str, Any], ...]]


@dataclass
class Sample:
    """One answer on its way. `reader` takes thinking and calls out of the text, None where there are none.

    `prompt` and `seed` make the ids of its calls. `unsent` is what was given, for the first chunk.
    """

    reader: Any
    prompt: str
    seed: int
    text: str = ""
    thinking: str = ""
    raw: str = ""
    ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    scores: list[tuple[int, int, float, float]] = field(default_factory=list)
    reason: Any = None
    stop: str | None = None
    forced: int = 0
    guesses: dict[int, tuple[bool, tuple[int, ...]]] = field(default_factory=dict)  # see `drafts_of`
    drafts: Drafts | None = None  # at the end, where there were guesses
    drafted: int = 0  # tokens guessed ahead, and how many of them came
    accepted: int = 0
    calls: list[str] = field(default_factory=list)  # tool calls as they were written
    through: int = 0  # how many of them are
    called: list[dict[str, Any]] = field(default_factory=list)  # these, as data
    unsent: tuple[str, str, tuple[int, ...]] | None = None

    def begin(self, ids: tuple[int, ...], text: str) -> None:
        """Take in what the answer is given to begin with."""
        self.ids += ids
        delta, thinking, _ = self.read(text)
        self.unsent = delta, thinking, ids

    def guess(self, struck: tuple[int, ...], *, guessed: bool = False) -> None:
        """Take in what was guessed of the next token."""
        if guessed or struck:
            self.guesses[len(self.ids)] = guessed, struck
            self.accepted += guessed
            self.drafted += guessed + len(struck)

    def read(self, text: str, *, final: bool = False) -> Read:
        """Add text; return what is new of answer and thinking, and the calls that are whole now."""
        self.raw += text
        if self.reader is None:
            self.text += text
            return text, "", ()
        pieces = self.reader.feed(text) if text else []
        if final:
            pieces = [*pieces, *self.reader.flush()]
        delta = "".join(p.text for p in pieces if p.kind == "text")
        thinking = "".join(p.text for p in pieces if p.kind == "thinking")
        self.text += delta
        self.thinking += thinking
        for piece in pieces:
            if piece.kind == "tool_call":
                self.calls += [""] if not piece.text else []
                self.calls[-1] += piece.text
        return delta, thinking, self._called(final=final) if self.calls else ()

    def _called(self, *, final: bool) -> tuple[dict[str, Any], ...]:
        """Return the tool calls that are through now."""
        through = len(self.calls) - (not final and self.reader.state == "tool_call")
        made: list[dict[str, Any]] = []
        for raw in self.calls[self.through : through]:
            made += parse_tool_calls(raw) if raw.strip() else []
        self.through = through
        numbered = enumerate(made, len(self.called))
        new = tuple({"id": self._call_id(number), **call} for number, call in numbered)
        self.called += new
        return new

    def _call_id(self, number: int) -> str:
        """Return a call's id: nine letters and digits, as Mistral's templates want it; the same by seed."""
        text = f"{number} {self.seed} {self.prompt}"
        return sha256(text.encode("utf-8", "replace")).hexdigest()[:9]

    def reports(self) -> dict[str, Any]:
        """Return the report of each field of a structured answer, by JSON pointer; none if not measured."""
        if not self.scores:
            return {}
        shift = max(0, self.raw.find(self.text))  # a thinking part stands before the answer
        begins, ends, outside, logprobs = zip(*self.scores, strict=True)
        offsets = [(begin - shift, end - shift) for begin, end in zip(begins, ends, strict=True)]
        return dict(field_report(self.text, offsets, outside, logprobs))
