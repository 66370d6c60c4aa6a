"""Matchers: masks over real vocabularies, in place; ends, control tokens, forced tokens, budgets."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from structured_support import ToyVocabulary, Vocabulary, closes, smollm2, tokens_that

from llama_magic import structured
from llama_magic.errors import BackendError, SchemaError
from llama_magic.structured.grammar.grammar import machine_of
from llama_magic.structured.mask import vocab as _vocab

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


class Synthetic(ToyVocabulary):
    """262,144 tokens of random words, as large as Gemma's."""

    def __init__(self, size: int = 262_144) -> None:
        super().__init__()
        chance = random.Random(0)
        special = self.pieces[-4:]
        words = {
            bytes(chance.choices(b' etaoinshrdlu",:0123456789\n', k=chance.randint(2, 9)))
            for _ in range(size)
        }
        fresh = sorted(words - set(self.pieces))
        self.pieces = (self.pieces[:-4] + fresh)[: size - 4] + special
        self.n_tokens = len(self.pieces)
        self.eos_id = self.n_tokens - 2
        self.eog_ids = [self.n_tokens - 2, self.n_tokens - 1]
        self.fingerprint = f"synthetic-{size}"


def _by_hand(constraint: Any, vocabulary: Any, written: bytes) -> set[int]:
    """Return the tokens after which a longer text is possible, asked one by one over bytes."""
    found = set()
    for token in range(vocabulary.n_tokens):
        piece = vocabulary.token_bytes(token)
        if vocabulary.is_control(token) or not piece:
            continue
        data = list(written + piece)
        if machine_of(constraint.writing).validate_tokens(data) == len(data):
            found.add(token)
    return found


def test_the_mask_is_exactly_what_may_follow() -> None:
    """At every step the mask holds what keeps the text possible, and the ends when it is complete.

    Where but one text is possible next, it holds the first token of how the tokenizer splits that text.
    """
    vocabulary = ToyVocabulary()
    constraint = structured.compile(PERSON, vocabulary=vocabulary)
    matcher = constraint.start()
    text = b'{"name": "\xc3\xa9", "age": 12}'
    for end, byte in enumerate(text):
        forced = matcher.forced()
        assert set(forced) <= set(text)
        expected = {forced[0]} if forced else _by_hand(constraint, vocabulary, text[:end])
        logits = np.linspace(-1, 1, vocabulary.n_tokens, dtype=np.float32)
        before = logits.copy()
        matcher.apply(logits)
        allowed = set(np.flatnonzero(np.isfinite(logits)))
        assert allowed == expected == set(matcher.allowed())
        assert all(logits[token] == before[token] for token in allowed)
        assert not matcher.can_stop
        matcher.accept(byte)
    assert matcher.can_stop
    assert set(matcher.allowed()) == set(vocabulary.eog_ids)
    matcher.accept(vocabulary.eog_ids[1])
    assert matcher.finished


def test_masks_are_the_same_by_any_way() -> None:
    """Few allowed, few forbidden and half of each: each way of writing the mask gives the same logits."""
    vocabulary = Synthetic(20_011)  # no multiple of 32
    for schema in ({"type": "string"}, PERSON, {"type": "string", "pattern": "^[a-n ]*$"}, {"type": "null"}):
        constraint = structured.compile(schema, vocabulary=vocabulary)
        for written in (b"", b'"'):
            for _ in range(3):  # the third time the forbidden ids are remembered
                matcher = constraint.start()
                for byte in written:
                    matcher.accept(byte)
                logits = np.zeros(vocabulary.n_tokens + 5, dtype=np.float32)  # a model may have more logits
                matcher.apply(logits)
                allowed = matcher.allowed()
                assert np.array_equal(np.flatnonzero(logits == 0), allowed)
                assert np.isneginf(np.delete(logits, allowed)).all()
            if b'"'[0] not in allowed:
                break


def test_control_tokens_are_never_offered() -> None:
    """Control tokens and tokens without text are never offered, ends only after a whole answer."""
    vocabulary = ToyVocabulary()
    hidden = {token for token in range(vocabulary.n_tokens) if vocabulary.is_control(token)}
    for made in (
        structured.compile(grammar='root ::= "{" | .*', vocabulary=vocabulary),
        structured.compile({}, vocabulary=vocabulary),
    ):
        matcher = made.start()
        assert not hidden - set(vocabulary.eog_ids) & set(matcher.allowed())
    smol = smollm2()
    matcher = structured.compile({"type": "string"}, vocabulary=smol).start()
    assert not any(smol.is_control(int(token)) for token in matcher.allowed())


def test_a_refused_token_is_an_error() -> None:
    """A token that the grammar refuses is never taken: an exception, and the process lives."""
    matcher = structured.compile(grammar='root ::= "Hello"', vocabulary=ToyVocabulary()).start()
    matcher.accept(ord("H"))
    with pytest.raises(BackendError, match="refuses"):
        matcher.accept(ord("H"))
    matcher = structured.compile({"type": "null"}, vocabulary=ToyVocabulary()).start()
    with pytest.raises(BackendError):
        matcher.accept(ToyVocabulary().eos_id)


def test_forced_tokens() -> None:
    """Text without a choice is given as forced tokens, which spell it and are accepted in turn."""
    vocabulary = smollm2()
    matcher = structured.compile(choices=["the one and only answer"], vocabulary=vocabulary).start()
    forced = matcher.forced()
    written = b""
    while not matcher.finished and forced:
        for token in forced:
            matcher.accept(token)
            written += vocabulary.token_bytes(token)
        forced = matcher.forced()
    assert written == b"the one and only answer"
    assert structured.compile({}, vocabulary=vocabulary).start().forced() == []


def test_prepare_in_another_thread() -> None:
    """A mask prepared by a worker is the mask."""
    constraint = structured.compile(PERSON, vocabulary=smollm2())
    here, there = constraint.start(), constraint.start()
    worker = threading.Thread(target=there.prepare)
    worker.start()
    worker.join()
    assert np.array_equal(here.allowed(), there.allowed())


def test_mass_outside() -> None:
    """The mass outside the grammar is the softmax over the forbidden tokens."""
    vocabulary = ToyVocabulary()
    matcher = structured.compile(choices=["a", "b"], vocabulary=vocabulary).start()
    logits = np.full(vocabulary.n_tokens, -np.inf, dtype=np.float32)
    logits[[ord("a"), ord("c")]] = np.log([0.25, 0.75])
    assert matcher.outside_mass(logits) == pytest.approx(0.75)


@pytest.mark.parametrize(
    "spec",
    [
        PERSON,
        {"type": "array", "items": {"type": "integer"}, "minItems": 3},
        {"enum": ["alpha", "be"]},
        {},
        {"anyOf": [{"type": "object", "required": ["a"]}, {"type": "array", "minItems": 1}]},
    ],
)
def test_min_tokens_is_a_lower_bound(spec: Any) -> None:
    """No answer that the masks let a model write has fewer tokens; the shortest is not far off."""
    vocabulary = smollm2()
    constraint = structured.compile(spec, vocabulary=vocabulary)
    least = constraint.min_tokens()
    shortest = _shortest_written(constraint, vocabulary)
    assert 1 <= least <= shortest <= 2 * least + 3


def _shortest_written(constraint: Any, vocabulary: Vocabulary) -> int:
    """Return the fewest tokens over some answers that end as soon as they can."""
    best = 10_000
    for seed in range(12):
        chance, matcher = random.Random(seed), constraint.start()
        for count in range(40):
            if matcher.can_stop:
                best = min(best, count)
                break
            allowed = matcher.allowed()
            closing = allowed[tokens_that(closes)[allowed]]
            matcher.accept(int(chance.choice(closing if closing.size else allowed)))
    return best


def test_masks_need_a_vocabulary() -> None:
    """A constraint without a vocabulary answers questions and starts nothing."""
    constraint = structured.compile(PERSON)
    assert constraint.min_tokens() == len('{"name": "", "age": 0}')
    with pytest.raises(SchemaError, match="vocabulary"):
        constraint.start()


def test_the_trie_goes_with_its_vocabulary() -> None:
    """What was built for a model's vocabulary is freed with it; two calls build it once."""

    class Pointed(ToyVocabulary):
        vocab_ptr = None
        tokenize_fptr = None

    vocabulary = Pointed()
    vocabulary.fingerprint = "goes"
    assert structured.compile(PERSON, vocabulary=vocabulary) is structured.compile(
        PERSON, vocabulary=vocabulary
    )
    trie = weakref.ref(_vocab.trie_for(vocabulary))
    del vocabulary
    for number in range(4):  # as many as are kept
        other = Pointed()
        other.fingerprint = f"comes {number}"
        _vocab.trie_for(other)
    gc.collect()
    assert trie() is None
