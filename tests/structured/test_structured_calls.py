"""Tool calls by grammar: what a family writes is what its mask allows and its reader reads."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from llama_magic import formatters
from llama_magic.errors import BackendError
from llama_magic.formatters import Formatter
from llama_magic.model.tools.offer import Offer
from llama_magic.structured.callmasks import NoCalls
from llama_magic.testing import WordTokenizer

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "templates"
FAMILIES = [formatters.get(name) for name in formatters.FAMILIES]
TEMPLATES = [
    formatters.from_jinja(path.read_text("utf-8"))
    for path in sorted(DATA.glob("*.jinja") if DATA.is_dir() else ())
]
CALLS = [("weather", {"city": 'Ly"on', "days": 2}), ("clock", {})]


def weather(city: str, days: int = 1) -> None: ...


def clock() -> None: ...


def offer(choice: str = "required", parallel: bool | None = None) -> Offer:
    return Offer.read([weather, clock], choice, parallel, as_text=True)


def tokenizer_of(formatter: Formatter) -> WordTokenizer:
    """Return a tokenizer to which the family's marks are tokens of their own."""
    form = formatter.call_form
    assert form is not None
    inner = [text for text in (form.opened, form.one, form.closed) for text in _marks(text)]
    return WordTokenizer([*formatter.stop, *(mark.text for mark in formatter.spec.marks), *inner])


def _marks(text: str) -> Iterator[str]:
    for start, opening in enumerate(text):
        end = text.find(">" if opening == "<" else "]", start)
        if opening in "<[" and end > start + 1 and not set(text[start + 1 : end]) & set(' <[{"\n'):
            yield text[start : end + 1]


def prompt_of(formatter: Formatter) -> str:
    """Return the end of a prompt, from which a reader knows what the answer begins in."""
    prompt = formatter.render([{"role": "user", "content": "Hi"}]).text
    return prompt if formatter.spec.header is not None else ""


@pytest.mark.parametrize("formatter", [*FAMILIES, *TEMPLATES], ids=lambda f: f.name)
def test_a_call_as_written_is_allowed_and_read(formatter: Formatter) -> None:
    """For every family: the form passes its own mask to the end, and the reader finds name and arguments."""
    formatter = offer().formatter(formatter)
    form, tokenizer = formatter.call_form, tokenizer_of(formatter)
    assert form is not None
    prompt = prompt_of(formatter)
    for count in (1, 1 if form.addressed else 2):
        text = form.write(CALLS[:count])
        constraint = offer(parallel=count > 1).constraint(formatter, prompt, tokenizer)
        assert constraint is not None
        matcher = constraint.start()
        for token in tokenizer.encode_held(text):
            bits = matcher.allowed_bits()
            assert bits is not None
            assert bits[token // 8] >> (token % 8) & 1, (text, tokenizer.piece(token))
            matcher.accept(token)
        assert matcher.can_stop  # type: ignore[attr-defined]
        found = formatter.parse(text, prompt).tool_calls
        assert [(made["name"], made["arguments"]) for made in found] == CALLS[:count]


@pytest.mark.parametrize("formatter", [*FAMILIES, *TEMPLATES], ids=lambda f: f.name)
def test_a_call_begun_freely_is_held_to_its_form(formatter: Formatter) -> None:
    """With "auto" words are free; after the mark of a family's own form only its arguments may follow."""
    formatter = offer().formatter(formatter)
    form, tokenizer = formatter.call_form, tokenizer_of(formatter)
    assert form is not None
    marks = form.begins(formatter.spec, ())
    constraint = offer("auto").constraint(formatter, "", tokenizer)
    if not form.own or len(marks) != 1:
        assert constraint is None
        return
    assert constraint is not None
    matcher = constraint.start()
    for token in tokenizer.encode_held("Let me see. "):
        assert matcher.allowed_bits() is None
        matcher.accept(token)
    tokens = tokenizer.encode_held(form.write(CALLS))
    begun = tokenizer.encode_held(marks[0])
    for token in begun:
        matcher.accept(token)
    assert matcher.allowed_bits() is not None
    with pytest.raises(BackendError, match="refuses"):
        constraint.start().accept(0) or [matcher.accept(token) for token in b"no"]  # type: ignore[func-returns-value]
    matcher = constraint.start()
    for token in tokens:
        matcher.accept(token)
    assert not matcher.finished


def test_one_call_ends_an_answer_that_may_hold_one() -> None:
    """With parallel calls off, an answer ends with its first call, freely begun or forced."""
    formatter = formatters.get("chatml")
    tokenizer = tokenizer_of(formatter)
    for choice in ("auto", "required", "clock"):
        constraint = offer(choice, False).constraint(formatter, "", tokenizer)
        assert constraint is not None
        matcher = constraint.start()
        for token in tokenizer.encode_held(formatter.call_form.write(CALLS[1:])):  # type: ignore[union-attr]
            assert not matcher.finished
            matcher.accept(token)
        assert matcher.finished


def test_a_named_choice_forces_that_name() -> None:
    """All up to the arguments is forced, and another tool's name cannot be written."""
    formatter = formatters.get("chatml")
    tokenizer = tokenizer_of(formatter)
    constraint = offer("clock").constraint(formatter, "", tokenizer)
    assert constraint is not None
    forced = tokenizer.decode(constraint.start().forced())
    assert forced == '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>'


def test_thinking_comes_before_a_forced_call() -> None:
    """Where the prompt has opened a thinking part, that is written freely first."""
    formatter = formatters.get("chatml")
    tokenizer = tokenizer_of(formatter)
    constraint = offer("clock").constraint(formatter, "<|im_start|>assistant\n<think>\n", tokenizer)
    assert constraint is not None
    matcher = constraint.start()
    for token in tokenizer.encode_held("Hm."):
        matcher.accept(token)
    assert matcher.forced() == []
    for token in tokenizer.encode_held("</think>"):
        matcher.accept(token)
    assert tokenizer.decode(matcher.forced()).startswith('<tool_call>\n{"name": "clock"')


class Pieces(WordTokenizer):
    """A tokenizer with some texts as tokens, as a real vocabulary has."""

    def __init__(self, pieces: list[str]) -> None:
        super().__init__(n_tokens=1024)
        self._pieces = {600 + place: piece.encode() for place, piece in enumerate(pieces)}
        self.fingerprint = f"pieces:{pieces}"

    def piece(self, token: int) -> bytes:
        return self._pieces.get(token) or super().piece(token)

    def token_bytes(self, token: int) -> bytes:
        return self._pieces.get(token) or super().token_bytes(token)

    def is_control(self, token: int) -> bool:
        return token not in self._pieces and super().is_control(token)


def test_no_cut_into_tokens_writes_a_forbidden_mark() -> None:
    """With "none" the mark cannot be completed, however it is cut into tokens; other texts can be written."""
    mark, pieces = "<call>", ["<ca", "ll>", "x<", "call>y", "a<call>b", "ll", ">", "<<c", "all"]
    tokenizer = Pieces(pieces)
    ids = {piece: 600 + place for place, piece in enumerate(pieces)} | {c: ord(c) for c in "<cal>x"}
    none = NoCalls((mark,), tokenizer)
    for cut in itertools.product(ids, repeat=3):
        matcher, text = none.start(), ""
        for piece in cut:
            logits = np.zeros(tokenizer.n_tokens, np.float32)
            matcher.apply(logits)
            bits = np.unpackbits(matcher.allowed_bits(), bitorder="little")
            allowed = bool(np.isfinite(logits[ids[piece]]))
            assert allowed == bool(bits[ids[piece]])
            assert allowed == (mark not in text + piece), (text, piece)
            if not allowed:
                break
            text += piece
            matcher.accept(ids[piece])


def test_bare_json_of_a_known_tool_is_a_call() -> None:
    """Llama 3 may write a call without a mark; the JSON of anything else stays text, in one piece or many."""
    template = next((t for t in TEMPLATES if "python_tag" in t.template.source), None)  # type: ignore[attr-defined]
    formatter = template or formatters.from_jinja("{{ tools }}{# <|python_tag|>\n #}")
    for text, expected in (
        (json.dumps({"name": "clock", "parameters": {}}), ["clock"]),
        (json.dumps({"name": "other", "parameters": {}}), []),
        ("  {not json", []),
        ('<|python_tag|>{"name": "clock", "parameters": {}}', ["clock"]),
        ("Well. {}", []),
    ):
        for size in (1, len(text)):
            reader = offer("auto").reader(formatter, "")
            pieces = [p for at in range(0, len(text), size) for p in reader.feed(text[at : at + size])]
            pieces += reader.flush()
            called = "".join(p.text for p in pieces if p.kind == "tool_call")
            names = [made["name"] for made in formatters.parse_tool_calls(called)] if called else []
            assert names == expected
            if not expected:
                assert "".join(p.text for p in pieces if p.kind == "text") == text
