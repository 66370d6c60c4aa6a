"""The models of a hub repository compared, against a hub that misbehaves: one header for all."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import llama_magic as lm
from llama_magic import sources
from llama_magic.errors import OptionError, SourceError
from llama_magic.fit import Machine
from llama_magic.fit import _speed as measuring
from llama_magic.gguf import inspect
from llama_magic.loading.compare import Comparison, compare
from llama_magic.sources.disk import helpers as _helpers

sys.path.insert(0, str(Path(__file__).parents[1] / "gguf"))
from gguf_build import File, tiny_llama, tokens

sys.path.pop(0)
MIB = 1 << 20
BIG = Machine(2, 2, 1 << 36, 1 << 35)
QUANTS = {"Q4_0": (2, 2), "Q8_0": (8, 7), "F16": (1, 1)}  # tensor type, general.file_type
FIELDS = ["files", "size", "bits", "memory", "largest_window", "fits", "tokens_per_second", "load_line"]


def model(quant: str, n: int = 20_000, trained: int = 65_536) -> File:
    """A llama with `n` tokens, so that the header is large, all its matrices of one type."""
    kind, file_type = QUANTS[quant]
    file = tiny_llama([*tokens(), *(b"piece %d" % i for i in range(n - 260))])
    tensors = [replace(t, type_id=kind) if len(t.shape) > 1 else t for t in file.tensors]
    file = replace(file, tensors=tensors).with_kv("general.file_type", "u32", file_type)
    return file.with_kv("llama.context_length", "u32", trained)


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return {f"m-{quant}.gguf": model(quant).bytes() for quant in QUANTS}


@pytest.fixture(autouse=True)
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "rates", lambda threads: measuring.Rates(1e9, 1e9))


@pytest.fixture
def repo(hub: Any, fake: Any, files: dict[str, bytes]) -> Any:
    """A repository `o/r` of three quants, a projector and a readme."""
    hub.repos["o/r"] = fake.Repo({**files, "mmproj-F16.gguf": b"GGUF", "README.md": b"# m"})
    return hub.repos["o/r"]


def test_a_window_that_is_too_long_is_said(repo: Any) -> None:
    """The words say what was asked for and what is planned instead; nothing is said where it fits."""
    found = compare("o/r", ctx=10_000_000, machine=BIG)
    assert "A window of 10,000,000 tokens was asked for." in str(found)
    assert "is 65,536 tokens; that is planned." in str(found)
    assert "asked for" not in str(compare("o/r", ctx=1024, machine=BIG))


def sent(hub: Any) -> int:
    return sum(seen.sent for seen in hub.seen if seen.path.endswith(".gguf"))


def named(found: Comparison) -> dict[str, Any]:
    return {row.quantisation: row for row in found.rows}


def test_one_header_tells_of_all_quants(hub: Any, repo: Any, files: dict[str, bytes]) -> None:
    """One file list, one look at the smallest file and its first bytes: at most 1 MB for 14 MB of models."""
    found = compare("hf:o/r", machine=BIG)
    assert [row.quantisation for row in found.rows] == ["Q4_0", "Q8_0", "F16"]
    assert [(seen.method, seen.path.split("/")[1]) for seen in hub.seen] == [
        ("GET", "api"),
        ("HEAD", "o"),
        ("GET", "o"),
        ("GET", "cdn"),
    ]
    assert {seen.path.rpartition("/")[2] for seen in hub.seen[1:]} == {"m-Q4_0.gguf"}
    assert sent(hub) <= 983_040
    assert not list(sources.hub_cache().rglob("*.gguf"))
    for row in found.rows:
        assert row.size == len(files[row.files[0]])
        assert row.load_line == f"lm.load('hf:o/r:{row.quantisation}', ctx=8192)"


@pytest.mark.parametrize("quant", QUANTS)
def test_what_is_said_of_a_quant_is_what_its_own_header_says(
    hub: Any, repo: Any, files: dict[str, bytes], tmp_path: Path, quant: str
) -> None:
    """Memory, window, bits a weight, told by the smallest file's header, are within 1 % of the file's own."""
    from llama_magic.loading.plan import plan

    (tmp_path / "own.gguf").write_bytes(files[f"m-{quant}.gguf"])
    info = inspect(tmp_path / "own.gguf")
    own = plan(info, f"hf:o/r:{quant}", machine=BIG)
    row = named(compare("o/r", machine=BIG))[quant]
    assert row.memory == pytest.approx(own.memory, rel=0.01)
    assert row.bits == pytest.approx(8 * info.tensor_bytes / info.n_params, rel=0.01)
    assert own.speed is not None
    assert row.tokens_per_second == pytest.approx(own.speed.tokens_per_second, rel=0.01)
    assert (row.window, row.largest_window, row.load_line) == (own.window, own.largest_window, own.load_line)


def test_the_most_precise_that_fits_is_recommended(hub: Any, repo: Any) -> None:
    """With memory for all: Q8_0, F16 gains nothing. With less, the window shrinks; with none, none fits."""
    found = compare("o/r", machine=BIG)
    assert found.recommended is not None
    assert found.recommendation.startswith("Take Q8_0: the most precise that fits")
    assert "F16 fits too, and answers no better." in found.recommendation
    tight = compare("o/r", machine=Machine(2, 2, 1 << 36, 512 * MIB + 8 * MIB))
    rows = named(tight)
    assert 0 < rows["Q4_0"].window < 8192
    assert rows["Q4_0"].load_line.endswith(f"ctx={rows['Q4_0'].window}, kv_type='q8_0')")
    none = compare("o/r", machine=Machine(2, 2, MIB, MIB // 2))
    assert [row.fits for row in none.rows] == [False, False, False]
    assert none.recommended is None
    assert none.recommendation.startswith("None fits: the smallest, Q4_0, needs ")


def test_a_window_can_be_asked_for(hub: Any, repo: Any) -> None:
    """`ctx` is planned for, and memory grows with it."""
    short, long = (compare("o/r", ctx=ctx, machine=BIG).rows[0] for ctx in (512, 32_768))
    assert (short.window, long.window) == (512, 32_768)
    assert long.memory > short.memory
    for bad in (0, -1, "8192", True):
        with pytest.raises(OptionError, match="ctx is"):
            compare("o/r", ctx=bad)  # type: ignore[arg-type]


def test_it_goes_to_pandas_one_row_a_quant(hub: Any, repo: Any) -> None:
    """Columns are the fields, numbers stay numbers."""
    frame = lm.compare("hf:o/r", machine=BIG).to_pandas()
    assert set(FIELDS) < set(frame.columns)
    assert list(frame["quantisation"]) == ["Q4_0", "Q8_0", "F16"]
    assert frame["size"].is_monotonic_increasing
    assert frame["fits"].all()


def test_what_is_cached_costs_nothing_and_is_compared_offline(
    hub: Any, repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A header on this disk is read there; offline only cached quants are listed, and a note says so."""
    sources.resolve("o/r:Q8_0")
    hub.seen.clear()
    found = compare("o/r", machine=BIG)
    assert [row.cached for row in found.rows] == [False, True, False]
    assert [(seen.method, seen.path) for seen in hub.seen] == [("GET", "/api/models/o/r/revision/main")]
    hub.down = True
    for how in ({}, {"offline": True}):
        away = compare("o/r", machine=BIG, **how)
        assert [row.quantisation for row in away.rows] == ["Q8_0"]
        assert away.notes[0].startswith("Only what is in the cache is listed: ")
        assert away.rows[0].memory == named(found)["Q8_0"].memory
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.seen.clear()
    compare("o/r", machine=BIG)
    assert hub.seen == []
    with pytest.raises(SourceError, match=r"Nothing of o/other is in the cache, and offline mode is on"):
        compare("o/other")


def test_shards_are_one_row_and_each_header_is_read(
    hub: Any, fake: Any, files: dict[str, bytes], tmp_path: Path
) -> None:
    """A model in two parts counts whole; where it is the only one, both headers make its sum of weights."""
    whole = model("Q8_0")
    half = len(whole.tensors) // 2
    parts = []
    for number, tensors in enumerate((whole.tensors[:half], whole.tensors[half:])):
        kv = whole.kv if number == 0 else []
        split = [("split.no", "u16", number), ("split.count", "u16", 2)]
        split.append(("split.tensors.count", "i32", len(whole.tensors)))
        parts.append(File([*kv, *split], tensors).bytes())
    names = [f"m-Q8_0-0000{i}-of-00002.gguf" for i in (1, 2)]
    hub.repos["o/split"] = fake.Repo(dict(zip(names, parts, strict=True)))
    row = compare("o/split", machine=BIG).rows[0]
    assert (row.files, row.size) == (tuple(names), sum(map(len, parts)))
    info = lm.inspect("hf:o/split")
    assert len(info.tensors) == len(whole.tensors)
    assert row.bits == pytest.approx(8 * info.tensor_bytes / info.n_params)
    hub.repos["o/split"].files["m-Q4_0.gguf"] = files["m-Q4_0.gguf"]
    hub.seen.clear()
    both = compare("o/split", machine=BIG)
    assert [r.quantisation for r in both.rows] == ["Q4_0", "Q8_0"]
    assert not [seen for seen in hub.seen if "of-00002" in seen.path]
    del hub.repos["o/split"].files[names[1]]
    assert [r.quantisation for r in compare("o/split", machine=BIG).rows] == ["Q4_0"]


def test_two_models_in_one_repository_have_a_header_each(
    hub: Any, fake: Any, files: dict[str, bytes]
) -> None:
    """What one header says of layers is not said of another model's files."""
    small = model("Q8_0", n=400, trained=1024).bytes()
    hub.repos["o/two"] = fake.Repo({**files, "tiny-Q8_0.gguf": small})
    rows = {row.files[0]: row for row in compare("o/two", machine=BIG).rows}
    assert rows["tiny-Q8_0.gguf"].window == 1024
    assert rows["m-Q8_0.gguf"].window == 8192
    assert rows["tiny-Q8_0.gguf"].load_line == "lm.load('hf:o/two:tiny-Q8_0.gguf', ctx=1024)"


@pytest.mark.parametrize("fault", ["ranges", "page", "damaged"])
def test_without_a_header_sizes_are_still_compared(hub: Any, repo: Any, fault: str) -> None:
    """No byte ranges, a web page, a damaged file: sizes are listed, and a note says what was not read."""
    if fault == "ranges":
        hub.faults.ignore_range = True
    elif fault == "page":
        hub.faults.body = b"<html>busy</html>"
    else:
        repo.files["m-Q4_0.gguf"] = b"GGUF" + bytes(4_000)
    found = compare("o/r", machine=BIG)
    assert len(found.rows) == 3
    assert found.notes[-1].startswith("No header of m-Q4_0.gguf: ")
    assert {row.fits for row in found.rows} == {None}
    assert found.recommendation == "What fits cannot be told without a header."


def test_busy_servers_and_lists_without_sizes_are_no_obstacle(hub: Any, repo: Any) -> None:
    """503 is passing; a list of names alone costs one request without a body a file."""
    hub.faults.status = [503, 500]
    repo.list_lfs = False
    found = compare("o/r", machine=BIG)
    assert [row.size for row in found.rows] == sorted(len(d) for n, d in repo.files.items() if n[:2] == "m-")
    assert all(row.fits for row in found.rows)


def test_a_revision_stands_in_every_line(hub: Any, repo: Any) -> None:
    """What was compared is what the line loads."""
    row = compare("o/r", revision="v1", machine=BIG).rows[0]
    assert row.load_line == "lm.load('hf:o/r:Q4_0@v1', ctx=8192)"
    assert all("v1" in seen.path or "/cdn/" in seen.path for seen in hub.seen[:2])


def test_only_repositories_are_compared(hub: Any, tmp_path: Path) -> None:
    """A file, a URL, a repository without a model, one that is not there: each is said for what it is."""
    (tmp_path / "x.gguf").write_bytes(model("Q4_0", 400).bytes())
    for source in (str(tmp_path / "x.gguf"), f"{hub.url}/x.gguf"):
        with pytest.raises(SourceError, match="is no hub repository"):
            compare(source)
    with pytest.raises(SourceError, match="is not on "):
        compare("o/none")


# --- files that help a model ----------------------------------------------------------------------

_MAIN = {"Qwen3.5-Q4_K_M.gguf": 5000, "Qwen3.5-Q8_0.gguf": 9000}


@pytest.mark.parametrize(
    ("name", "size", "kind"),
    [
        ("mtp-Qwen3.5-Q4_K_M.gguf", 300, "draft head"),
        ("dflash-Qwen3.5-Q8_0.gguf", 300, "draft head"),
        ("draft-Qwen3.5-0.6B-Q4_K_M.gguf", 900, "draft head"),
        ("eagle3-Qwen3.5-Q4_K_M.gguf", 300, "draft head"),
        ("Qwen3.5-eagle3-Q4_K_M.gguf", 300, "draft head"),
        ("heads/Qwen3.5-MTP-Q8_0.gguf", 300, "draft head"),
        ("MTP/Qwen3.5-Q4_K_M.gguf", 300, "draft head"),
        ("drafts/Qwen3.5-0.6B-Q8_0.gguf", 300, "draft head"),
        ("Qwen3.5-nextn-Q4_K_M.gguf", 300, "draft head"),
        ("MTP/Qwen3.5-Q5_K_M.gguf", 6000, ""),
        ("mmproj-F16.gguf", 900, "projector"),
        ("Qwen3.5.mmproj-Q8_0.gguf", 900, "projector"),
        ("Qwen3.5.imatrix.gguf", 10, "importance matrix"),
        ("Qwen3.5-MTP-Q5_K_M.gguf", 6000, ""),  # a whole model with its head built in
        ("Eagle-7B-Q4_K_M.gguf", 300, ""),  # a family of that name
        ("Qwen3.5-Q6_K.gguf", 7000, ""),
        ("draftsman-Q4_K_M.gguf", 300, ""),
    ],
)
def test_helper_files_are_told_by_name(name: str, size: int, kind: str) -> None:
    """Heads, projectors and matrices beside a model are none; models of similar names are models."""
    sizes = {**_MAIN, name: size}
    assert _helpers.helpers_in(sizes).get(name, "") == kind
    assert (name in _helpers.models_in(sizes)) == (kind == "")
    assert set(_MAIN) <= set(_helpers.models_in(sizes))


def test_a_repository_of_heads_alone_holds_them_as_models() -> None:
    """Where nothing else is there a draft head is what is meant."""
    sizes = {"mtp-m-Q4_K_M.gguf": 5, "mtp-m-Q8_0.gguf": 9}
    assert _helpers.models_in(sizes) == list(sizes)


def test_a_quant_beside_its_head_is_one_model(hub: Any, fake: Any) -> None:
    """`:Q4_K_M` means the model, whatever small file carries the same quantisation."""
    main, head = fake.gguf_bytes(5000, 1), fake.gguf_bytes(900, 2)
    hub.repos["o/r"] = fake.Repo({"m-Q4_K_M.gguf": main, "mtp-m-Q4_K_M.gguf": head, "mmproj-F16.gguf": head})
    assert sources.resolve("hf:o/r:Q4_K_M").path.read_bytes() == main
    assert sources.resolve("hf:o/r").path.read_bytes() == main
    listing = sources.hub_models("hf:o/r")
    assert [(model.label, model.projector) for model in listing.models] == [("Q4_K_M", "mmproj-F16.gguf")]
    assert "draft head: mtp-m-Q4_K_M.gguf." in listing.notes[-1]
    assert sources.resolve("hf:o/r:mtp-m-Q4_K_M.gguf").path.read_bytes() == head
    kinds = {found.name: found.helps_as for found in sources.on_disk() if found.kind == "hub"}
    assert kinds == {"hf:o/r:m-Q4_K_M.gguf": "", "hf:o/r:mtp-m-Q4_K_M.gguf": "draft head"}


def test_the_projector_of_a_quant_is_the_nearest() -> None:
    """Of its folder and name first, then of its quantisation, else F16."""
    sizes: dict[str, int | None] = {
        "a-Q4_K_M.gguf": 9,
        "b-Q8_0.gguf": 9,
        "c/a-Q8_0.gguf": 9,
        "mmproj-a-F32.gguf": 1,
        "mmproj-b-F16.gguf": 1,
        "mmproj-b-Q8_0.gguf": 1,
        "c/mmproj-BF16.gguf": 1,
        "c/mmproj-F16.gguf": 1,
    }
    found = [
        _helpers.projector_of([name], sizes) for name in ("a-Q4_K_M.gguf", "b-Q8_0.gguf", "c/a-Q8_0.gguf")
    ]
    assert found == ["mmproj-a-F32.gguf", "mmproj-b-Q8_0.gguf", "c/mmproj-F16.gguf"]
