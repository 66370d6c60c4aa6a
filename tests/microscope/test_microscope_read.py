"""`read` against a log-softmax over `llama_get_logits`; strips and tokenizers side by side."""

from __future__ import annotations

import ctypes
import math
import threading
import warnings
from typing import Any

import llama_cpp
import numpy as np
import pytest
from as_ipython import traceback_of
from settled import joined

from llama_magic.engine.lanes.logits import LogitRow
from llama_magic.engine.native import Context
from llama_magic.errors import (
    BackendError,
    ContextOverflowError,
    GenerationInterrupted,
    InputTypeError,
    OptionError,
)
from llama_magic.microscope import compare_tokens, reading
from llama_magic.microscope import tokens as strips
from llama_magic.microscope.reading import measure

TEXT = (
    "The lighthouse stood at the end of the point, and every evening the keeper climbed its ninety-nine "
    "steps to light the lamp. Die Straßenbahn fährt, naïvely 🦕: f(x) = {1, 2}. "
)


def reference(model: Any, ids: list[int]) -> np.ndarray:
    """Return the logits (n, n_vocab) of a text read in one batch, through llama.cpp's own calls."""
    weights = model.backend.weights
    params = llama_cpp.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = 1024, len(ids), len(ids)
    params.n_outputs_max, params.swa_full = len(ids), True
    params.n_threads = params.n_threads_batch = 1
    context = llama_cpp.llama_init_from_model(weights.pointer, params)
    batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
        batch.seq_id[i][0] = 0
    batch.n_tokens = len(ids)
    assert llama_cpp.llama_decode(context, batch) == 0
    shape = (len(ids), weights.vocab.n_tokens)
    logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(context), shape=shape).copy()
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    return logits


def log_softmax(row: np.ndarray) -> np.ndarray:
    shifted = row - row.max()  # in single precision: of 262,144 doubles exp takes eight times as long
    return shifted - np.float32(math.log(np.exp(shifted).sum(dtype=np.float64)))


@pytest.mark.parametrize("name", ["short", "gemma"])
def test_read_is_the_log_softmax_of_the_logits(
    name: str, loaded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log-probability, rank, entropy and the five expected are those of llama_get_logits, to 1e-4, also
    behind the first chunk. Of 262,144 tokens' logits those of 127 tokens are held at once, not of a text."""
    text, model = TEXT * 3, loaded(name)
    ids = model.tokenize(text)
    logits = reference(model, ids)
    total = 0.0
    seen: list[int] = []
    decode = Context.decode

    def watch(self: Context, tokens: Any, positions: Any, sequences: Any, outputs: Any) -> Any:
        if self.weights is model.backend.weights:  # another test's answer may still be ending elsewhere
            seen.append(len(outputs))
        return decode(self, tokens, positions, sequences, outputs)

    monkeypatch.setattr(Context, "decode", watch)
    read = model.read(text)
    assert sum(seen) == len(ids)
    if logits.shape[1] > 200_000:
        assert len(seen) >= 2
        assert 64 <= min(seen) <= max(seen) <= 127
    assert [token.id for token in read.tokens] == ids
    assert read.tokens[0].logprob is None
    assert read.tokens[0].expected == ()
    for i, token in enumerate(read.tokens[1:], 1):
        row = log_softmax(logits[i - 1])
        likely = np.exp(row)
        total += row[ids[i]]
        assert token.logprob == pytest.approx(row[ids[i]], abs=1e-4)
        assert token.rank == (row > row[ids[i]] + 1e-9).sum() + 1
        assert token.entropy == pytest.approx(-(likely @ row) / math.log(2), abs=1e-3)
        best = np.sort(np.partition(likely, -5)[-5:])[::-1]
        np.testing.assert_allclose([p for _, p in token.expected], best, atol=1e-4)
    assert read.perplexity == pytest.approx(math.exp(-total / (len(ids) - 1)), rel=1e-4)


def test_measure_is_exact_on_known_logits() -> None:
    """A uniform row has log2(n) bits, a sure one 0; ranks count from 1 and ties share the better rank."""
    logits = np.zeros((3, 8), np.float32)
    logits[1, 3] = 1000.0
    logits[2] = -np.inf
    logits[2, [1, 2]] = [0.0, math.log(3)]
    got = measure(logits, np.array([0, 3, 1]))
    np.testing.assert_allclose(got.logprob, [-math.log(8), 0.0, math.log(1 / 4)], atol=1e-6)
    np.testing.assert_array_equal(got.rank, [1, 1, 2])
    np.testing.assert_allclose(got.entropy_bits, [3.0, 0.0, 2 - 0.75 * math.log2(3)], atol=1e-6)
    np.testing.assert_array_equal(got.best[2, :2], [2, 1])


def test_a_text_over_the_window_is_refused_before_it_is_read(short: Any) -> None:
    """The error has the counts; an empty text and a wrong type are refused too."""
    with pytest.raises(ContextOverflowError, match="the window holds 2,048") as caught:
        short.read("one two " * 1600)
    assert caught.value.prompt_tokens == short.count_tokens("one two " * 1600)
    with pytest.raises(OptionError, match="empty"):
        short.read("")
    with pytest.raises(InputTypeError, match="list"):
        short.read(["a"])


def test_one_token_and_odd_bytes_are_read(short: Any) -> None:
    """A text of one token has nothing to score; tokens that are no whole character show their bytes."""
    one = short.read("a")
    assert len(one.tokens) == 1
    assert math.isnan(one.perplexity)
    dino = short.read("a 🦕")
    assert any(token.text.startswith("<0x") for token in dino.tokens)
    assert dino.bits_per_byte == pytest.approx(sum(t.bits for t in dino.known) / 6)


def test_an_interrupt_stops_the_reading_and_leaves_the_model_usable(short: Any) -> None:
    """Ctrl-C in the middle ends it, frees the context, and nothing is left behind."""
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    caught: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(1000):
                short.read(TEXT * 10)
        except KeyboardInterrupt as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while not any(name.startswith("reading") for name in short.backend.side_contexts):
        assert thread.is_alive()
    raise_in(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt))
    joined(thread)
    assert caught
    left = short.backend.call(lambda _core: short.backend.side_contexts)
    assert not any(name.startswith("reading") for name in left)
    assert len(short.read("The sky is blue.").tokens) == 5


def test_an_interrupted_reading_keeps_what_was_read(short: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the tokens of the whole chunks, their text, and says how many of how many; numbers are those
    of a whole reading. Before a chunk is through, that is the first token, which is not measured.
    """
    text = TEXT * 4
    whole = short.read(text)
    measure = reading.measure
    rounds: list[int] = []

    def stop_in(chunk: int) -> None:
        def stop(*given: Any) -> Any:
            rounds.append(1)
            if len(rounds) == chunk:
                raise KeyboardInterrupt
            return measure(*given)

        rounds.clear()
        monkeypatch.setattr(reading, "measure", stop)

    stop_in(2)
    with pytest.raises(GenerationInterrupted) as caught:
        short.read(text)
    part = caught.value.completion
    assert part.interrupted
    assert 64 < len(part.tokens) < len(whole.tokens)
    assert part.tokens == whole.tokens[: len(part.tokens)]
    assert part.text == short.detokenize([token.id for token in part.tokens])
    assert text.startswith(part.text)
    words = f"{len(part.tokens)} of {len(whole.tokens)} tokens were read, and are kept"
    assert traceback_of(caught.value) == [f"Interrupted: {words}."]
    assert "stopped here" in str(part)
    stop_in(1)
    with pytest.raises(GenerationInterrupted, match=r"none of .* tokens was measured yet") as caught:
        short.read(text)
    assert caught.value.completion.tokens == whole.tokens[:1]
    assert caught.value.completion.interrupted


def test_a_conversation_and_an_answer_are_read_as_their_prompt(short: Any) -> None:
    """What a chat is sent needs no writing by hand: messages, and an answer behind its own prompt."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    answer = short.chat(messages, max_tokens=4, seed=1)
    assert short.read(messages).text == answer.prompt
    whole = short.read(answer)
    assert [token.id for token in whole.tokens] == [*answer.prompt_token_ids, *answer.token_ids]
    assert short.xray(messages, seed=1).drawn.id == answer.token_ids[0]
    with pytest.raises(InputTypeError, match=r"answer\.xray\(0\)"):
        short.xray(answer)


def test_an_interrupted_xray_says_that_nothing_is_kept(short: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no trace before the draw, and no answer whose words could be kept."""
    from llama_magic.model.stream import Stream

    def stop(self: Stream) -> Any:
        self.cancel()
        raise GenerationInterrupted(self.completion)

    monkeypatch.setattr(Stream, "run", stop)
    with pytest.raises(GenerationInterrupted, match="no trace; nothing is kept") as caught:
        short.xray("The sky is", seed=1)
    assert caught.value.completion is None


def test_reading_leaves_the_cache_as_it_was(short: Any) -> None:
    """A read-through has a context of its own: no cell of the caches changes."""
    short.complete("Hello there", max_tokens=2)
    before = short.kv.sequences
    short.read(TEXT)
    assert short.kv.sequences == before


def test_a_conversation_strip_has_a_role_for_each_token(short: Any) -> None:
    """Words are their role's, what the template writes is the template's, and forged tokens are text."""
    turns = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi <|im_end|> there"}]
    strip = short.token_strip(turns)
    assert strip.ids == tuple(short.chat(turns, max_tokens=1).prompt_token_ids)
    by_role: dict[str, str] = {}
    for piece in strip.tokens:
        by_role[piece.role] = by_role.get(piece.role, "") + piece.text
    assert by_role["system"] == "Be kind."
    assert by_role["user"] == "Hi <|im_end|> there"
    assert {piece.role for piece in strip.tokens if piece.special} == {"template"}


def test_tokenizers_are_compared_where_both_cut(short: Any, gemma: Any) -> None:
    """The stretches of each model join to the text; each stretch ends where both have a boundary."""
    text = "Straßenbahn und naïve 🦕 tokens"
    both = compare_tokens(text, short, gemma)
    assert both.names == (short.name, gemma.name)
    assert "".join("".join(row[1]) for row in both.rows) == text
    assert (("Stra",), ("Stra",)) in both.rows
    assert len(both.to_pandas()) == len(both.rows)
    with pytest.raises(OptionError):
        compare_tokens(text)


def test_a_strip_has_a_bound(short: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of more tokens than a strip may have is refused, in a message too."""
    text = "word " * 40_000
    monkeypatch.setattr(strips, "_MOST", 1000)
    for asked in (text, [{"role": "user", "content": text}]):
        with pytest.raises(OptionError, match="more than 1,000 tokens"):
            short.token_strip(asked)
    assert short.token_strip("word " * 500).count == short.count_tokens("word " * 500)


def test_a_text_far_too_long_for_a_strip_is_not_tokenized(
    short: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred megabytes are refused by their length, alone or in a conversation; they can be counted."""
    text = "word " * 20_000_000
    monkeypatch.setattr(short.backend.tokenizer.native, "tokenize", None)
    for given in (text, [{"role": "user", "content": text}]):
        with pytest.raises(OptionError, match=r"100,000,000 characters; .* 4,000,000 at most"):
            short.token_strip(given)


def test_equal_tokens_of_a_strip_are_one_piece(short: Any) -> None:
    """A long strip is as small as its tokens are few; a token that two roles have is two pieces."""
    strip = short.token_strip("a a a a")
    assert strip.count == 4
    assert strip.tokens[1] is strip.tokens[3]
    turns = short.token_strip(
        [{"role": "user", "content": "yes yes yes"}, {"role": "assistant", "content": "yes"}]
    )
    words = [piece for piece in turns.tokens if piece.text.strip() == "yes"]
    assert {piece.role for piece in words} == {"user", "assistant"}


@pytest.mark.parametrize("row", [[0.0, math.nan, 1.0], [0.0, math.inf, 1.0], [-math.inf] * 3])
def test_logits_that_are_no_numbers_are_refused_by_name(row: list[float]) -> None:
    """A damaged file's NaN and infinities are a BackendError; they were measured as NaN, and under `-W error`
    raised NumPy's RuntimeWarning. Numbers so far apart that their difference is none are measured.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        far = np.array([[3e38, -3e38, 0.0]], np.float32)
        assert measure(far, np.array([0])).logprob.tolist() == [0.0]
        assert LogitRow(far[0]).normaliser == far[0, 0]
        with pytest.raises(BackendError, match="gave no usable logits"):
            measure(np.array([[0.0] * 3, row], np.float32), np.array([0, 2]))
