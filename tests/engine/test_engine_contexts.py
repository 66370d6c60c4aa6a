"""One recipe for the contexts of an engine: what is predicted is what is made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gguf_build import tiny_hybrid
from hypothesis import given
from hypothesis import strategies as st

import llama_magic as lm
from llama_magic import fit, gguf
from llama_magic.engine.contexts import CUT, READING_LOGITS, Contexts
from llama_magic.engine.native import ContextOptions
from llama_magic.loading.options import LoadOptions

BASE = ContextOptions(4096, batch=384, ubatch=192, type_k="q8_0", type_v="q8_0", threads=3)


def test_the_memory_of_the_contexts_that_are_made_is_predicted(scripted_file: Any) -> None:
    """Both lanes have the very options that the estimates before the load were made for."""
    options = {"ctx": 512, "batch": 128, "threads": 1}
    with lm.load(scripted_file.path, **options) as model:
        made = model.backend.call(lambda core: [core.lane(exact=e).context.options for e in (False, True)])
    info = gguf.inspect(scripted_file.path)
    settings = LoadOptions.read(options).settle(info, fit.machine(), gpu=False)
    contexts = Contexts(settings.context())
    assert made == [contexts.shared, contexts.exact]
    asked = settings.estimate(info).options
    assert (asked.cells, asked.n_seq, asked.batch, asked.ubatch, asked.outputs) == (
        made[0].cells, made[0].sequences, made[0].batch, made[0].ubatch, made[0].outputs,
    )  # fmt: skip
    more = settings.estimate(info).replace(
        n_seq=made[1].sequences, batch=made[1].batch, ubatch=made[1].ubatch, outputs=made[1].outputs
    )
    assert settings.seeded_bytes(info) == more.private - more.repacked > 0


@pytest.mark.parametrize("profile", ["balanced", "memory", "batch"])
@pytest.mark.parametrize("ctx", [0, None])
def test_a_window_that_is_chosen_here_fits(tmp_path: Path, ctx: int | None, profile: str) -> None:
    """Of a hybrid, with a recurrent state for each of the sequences that the shared context has."""
    info = gguf.inspect(tiny_hybrid().write(tmp_path / "hybrid.gguf"))
    room = 200 << 20
    machine = fit.Machine(2, 2, 2 << 30, (512 << 20) + room)
    settings = LoadOptions.read({"ctx": ctx, "profile": profile}).settle(info, machine, gpu=False)
    predicted = settings.estimate(info)
    assert predicted.options.n_seq == Contexts(settings.context()).shared.sequences > 2
    assert fit.check(predicted, replace(machine, ram_available=room)) == ()
    longer = replace(settings, window=settings.window + 256, cells=settings.cells + 256)
    assert ctx is None or longer.estimate(info).total > room
    assert (ctx is None) == any("is what fits" not in note for note in settings.notes or [""])


@pytest.mark.parametrize("name", ["shared", "exact"])
def test_a_lane_has_logits_for_each_of_its_sequences(name: str) -> None:
    """It differs from what was asked for in its sequences, and, where it is exact, in its batch."""
    made = getattr(Contexts(BASE), name)
    assert made.outputs == made.sequences > 2
    batch = CUT if name == "exact" else BASE.batch
    ubatch = CUT if name == "exact" else BASE.ubatch
    assert (made.batch, made.ubatch) == (batch, ubatch)
    assert replace(made, sequences=1, outputs=0, batch=384, ubatch=192) == BASE


@given(st.integers(1, 100_000), st.integers(1, 300_000))
def test_a_reading_holds_its_text_and_few_logits(length: int, n_vocab: int) -> None:
    """All tokens have a cell; a chunk is a cut at least, and its logits are bounded but for that."""
    made = Contexts(BASE).reading(length, n_vocab)
    assert made.cells >= max(length, made.batch)
    assert made.cells % 256 == 0
    assert made.batch == made.ubatch >= 2 * CUT - 1
    assert made.outputs == min(made.batch, length)
    chunk = made.batch - CUT + 1
    assert chunk % CUT == 0
    assert chunk == CUT or 4 * n_vocab * chunk <= READING_LOGITS


def test_texts_are_embedded_whole_or_in_pieces() -> None:
    """One that must be read whole has a batch of the window; a file's own pooling is left to it.

    Pieces have the logits of as few tokens as those of a reading.
    """
    contexts = Contexts(BASE)
    pieces, whole = (contexts.embedding(49_152, at_once=once, pooled=False) for once in (False, True))
    assert (pieces.batch, whole.batch) == (191, 4096)
    assert contexts.embedding(262_144, at_once=False, pooled=True).batch == 127
    assert pieces.pooling == whole.pooling == "mean"
    assert contexts.embedding(49_152, at_once=True, pooled=True).pooling is None
    assert all(o.embeddings and o.sequences == 1 and o.outputs == o.batch for o in (pieces, whole))
