"""A draft model: what it guesses, what that costs, who is refused, and that it changes no answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_gguf import EOS, build, chain

import llama_magic as lm
from llama_magic.errors import InputTypeError, OptionError, SourceError
from llama_magic.loading.hooks import loaded
from llama_magic.loading.weights import in_memory

LETTERS = [chr(0x4E00 + i) for i in range(30)]
TEXT = "".join(LETTERS)
OTHER = {LETTERS[9]: LETTERS[4]}  # where the other draft model is wrong


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three models: one says 30 letters and ends, one errs at one of them, one has other tokens."""
    folder = tmp_path_factory.mktemp("drafts")
    right = chain(*LETTERS, EOS)
    return {
        "right": build(folder / "right.gguf", right).path,
        "wrong": build(folder / "wrong.gguf", {**right, **OTHER}).path,
        "other": build(folder / "other.gguf", {"x": "y", **right}).path,
        "more": build(folder / "more.gguf", {chr(0x5E00 + i): EOS for i in range(300)}).path,
    }


def _load(files: dict[str, Path], draft: str, **options: Any) -> Any:
    return lm.load(files["right"], ctx=256, threads=1, draft=files[draft], **options)


@pytest.fixture
def sure(files: dict[str, Path]) -> Iterator[Any]:
    """A model that drafts for itself, as if that cost nothing."""
    with _load(files, "right") as model:
        model.backend.call(lambda core: core.draft_model).price = 0.0
        yield model


def test_a_model_that_drafts_for_itself_is_always_right(sure: Any) -> None:
    """Every guess is accepted, to the end, which is drawn; counted, marked, and named in the receipt."""
    plain = sure.complete(LETTERS[0], max_tokens=60, temperature=0, speculate="off")
    answer = sure.complete(LETTERS[0], max_tokens=60, temperature=0)
    assert answer.text == plain.text == TEXT[1:]
    assert answer.token_ids == plain.token_ids
    # 3, 7 and 11 guesses, each with a token drawn behind them; then 5 are left, and no end is guessed.
    assert answer.usage.drafted_tokens == answer.usage.accepted_tokens == 3 + 7 + 11 + 4
    assert plain.usage.drafted_tokens == 0
    assert answer.drafts.text == answer.text
    assert answer.receipt["engine"]["draft"]["name"] == "right.gguf"
    assert answer.receipt["engine"]["draft"]["fingerprint"]


@pytest.mark.parametrize(
    "options", [{"temperature": 0}, {"seed": 4}, {"regex": "[\u4e00-\u4e40]*", "seed": 4}]
)
def test_what_is_guessed_wrongly_changes_nothing(files: dict[str, Path], options: Any) -> None:
    """In greedy, seeded and constrained answers, in samples, and in the answers behind it."""
    with _load(files, "wrong") as model:
        model.backend.call(lambda core: core.draft_model).price = 0.0
        for start in (0, 3, 8):
            answer = model.complete(LETTERS[start], max_tokens=60, **options)
            assert answer.text == TEXT[start + 1 :]
            assert answer.usage.drafted_tokens > answer.usage.accepted_tokens > 3
            assert LETTERS[4] in "".join(text for text, kind in answer.drafts.parts if kind == "struck")
        texts = [one.text for one in model.complete(LETTERS[0], max_tokens=60, n=3, **options)]
        assert texts == [TEXT[1:]] * 3
        for chunk in model.complete(LETTERS[0], max_tokens=60, stream=True, **options):
            if len(chunk.text) > 4:
                break
        assert model.complete(LETTERS[5], max_tokens=9, **options).text == TEXT[6:15]


@pytest.mark.parametrize("options", [{"temperature": 0}, {"seed": 3, "temperature": 0.3}])
def test_a_model_drafts_for_itself(path_of: Any, options: Any) -> None:
    """Greedy guesses are all what it writes at temperature 0, and most of what it draws; tokens are equal."""
    path = path_of("short")
    with lm.load(path, ctx=1024, threads=1, draft=path) as model:
        model.backend.call(lambda core: setattr(core.draft_model, "price", 0.0))
        asked = [{"role": "user", "content": "List five fruits and their colours."}]
        plain, answer = (
            model.chat(asked, max_tokens=24, speculate=how, **options) for how in ("off", "auto")
        )
        assert answer.token_ids == plain.token_ids
        usage = answer.usage
        if not answer.drafts.reason:  # where rows are alike
            assert usage.drafted_tokens >= usage.accepted_tokens > 3
            assert "seed" in options or usage.drafted_tokens == usage.accepted_tokens


def test_it_is_silent_where_it_does_not_pay(files: dict[str, Path]) -> None:
    """A model as large as its own costs more than it wins: after three guesses it is not asked again."""
    with _load(files, "right") as model:
        assert model.backend.call(lambda core: core.draft_model).price == 1.0
        answer = model.complete(LETTERS[0], max_tokens=60, temperature=0)
        assert answer.text == TEXT[1:]
        assert (answer.usage.drafted_tokens, answer.usage.accepted_tokens) == (3, 3)


def test_its_memory_is_foretold_and_given_back(files: dict[str, Path]) -> None:
    """The estimate has a row of it; closing the model closes it, and a model without it is another one."""
    with lm.load(files["right"], ctx=256, threads=1) as plain, _load(files, "wrong") as model:
        assert plain is not model
        assert _load(files, "wrong") is model
        weights, drafting = model.backend.weights, model.backend.call(lambda core: core.draft_model)
        more = model.memory["predicted_total"] - plain.memory["predicted_total"]
        assert more == model.memory["predicted_draft model"] > files["wrong"].stat().st_size // 2
        assert "draft model" in str(lm.load(files["right"], ctx=256, draft=files["wrong"], dry_run=True))
        assert model.memory["predicted_seeded"] == plain.memory["predicted_seeded"]
    with pytest.raises(lm.LlamaMagicError):
        _ = drafting.context.pointer
    with pytest.raises(lm.LlamaMagicError):
        _ = weights.pointer
    assert files["wrong"] not in [path for one in in_memory() for path in one.paths]


def test_a_model_of_other_tokens_is_refused(files: dict[str, Path]) -> None:
    """By the first that differs, or by their numbers; nothing of it stays in memory, and no model."""
    with pytest.raises(OptionError, match=r"draft is other.*other tokens than right.gguf: token \d+ is b'"):
        _load(files, "other")
    with pytest.raises(OptionError, match=r"draft is more.*other tokens.* of them, and .* in the model"):
        _load(files, "more")
    with pytest.raises(SourceError):
        lm.load(files["right"], draft="/nowhere/draft.gguf")
    with pytest.raises(InputTypeError, match="draft is a int"):
        lm.load(files["right"], draft=3)
    assert [one for one in loaded() if one.path == files["right"]] == []
