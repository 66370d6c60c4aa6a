"""Models on the hub, against a hub that misbehaves."""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest

from llama_magic import sources
from llama_magic.errors import LlamaMagicError, OptionError, SourceError
from llama_magic.sources.disk.shards import quant_of, shard_names, short_name
from llama_magic.sources.http import transfer as _transfer
from llama_magic.sources.hub.quants import choose
from llama_magic.words.progress import Progress

SIZE = 300_000
TOKEN = "hf_badtokenBADTOKEN"


@pytest.fixture
def repo(hub: Any, gguf: Any, fake: Any) -> Any:
    """A repository `o/r` with three quantisations, a projector and a readme."""
    hub.repos["o/r"] = fake.Repo(
        {
            "m-Q4_K_M.gguf": gguf(SIZE, 1),
            "m-Q8_0.gguf": gguf(2 * SIZE, 2),
            "m-F16.gguf": gguf(4 * SIZE, 3),
            "mmproj-F16.gguf": gguf(1000, 4),
            "m-mmproj-Q8_0.gguf": gguf(1000, 5),
            "README.md": b"# hello",
        }
    )
    return hub.repos["o/r"]


def test_a_named_quant_is_fetched_into_the_hub_cache(hub: Any, repo: Any, machine: Path) -> None:
    """The file lies where huggingface-hub looks for it, and the library finds it by itself."""
    from huggingface_hub import try_to_load_from_cache

    found = sources.resolve("hf:o/r:q4_k_m")
    assert found.path.read_bytes() == repo.files["m-Q4_K_M.gguf"]
    assert (found.kind, found.name, found.size, found.notes) == ("hub", "m-Q4_K_M", SIZE, ())
    assert found.origin == "hf:o/r/m-Q4_K_M.gguf@0123456789ab"
    seen = try_to_load_from_cache("o/r", "m-Q4_K_M.gguf", cache_dir=machine / "hf" / "hub")
    assert seen == str(found.path)
    assert sources.cached_repos() == ["o/r"]
    assert ("hf:o/r:m-Q4_K_M.gguf", SIZE, "hub") in [(m.name, m.size, m.kind) for m in sources.on_disk()]
    bodies = len(hub.gets("m-Q4_K_M.gguf"))
    assert sources.resolve("o/r:m-Q4_K_M.gguf@main").path == found.path
    assert sources.resolve(hub.url + "/o/r/blob/main/m-Q4_K_M.gguf?download=true").path == found.path
    assert len(hub.gets("m-Q4_K_M.gguf")) == bodies


def test_several_quants_and_none_named_are_listed_with_sizes_and_what_fits(hub: Any, repo: Any) -> None:
    """The list is complete, leaves the projector out, and proposes the best that fits; nothing is fetched."""
    with pytest.raises(SourceError) as caught:
        sources.resolve("o/r", fits=lambda size: size <= 2 * SIZE)
    lines = str(caught.value).splitlines()
    assert [line.split() for line in lines[1:4]] == [
        ["Q4_K_M", "300", "kB", "fits"],
        ["Q8_0", "600", "kB", "fits"],
        ["F16", "1.2", "MB", "does", "not", "fit"],
    ]
    assert lines[-1] == "Name one, for example hf:o/r:Q8_0. lm.inspect('hf:o/r') compares them."
    assert "mmproj" not in str(caught.value)
    assert hub.gets(".gguf") == []
    with pytest.raises(SourceError, match="has no Q5_K_M"):
        sources.resolve("o/r:Q5_K_M")


def test_sizes_missing_from_the_list_are_asked_for(hub: Any, repo: Any) -> None:
    """A mirror whose list has names alone costs a request without a body for each model."""
    repo.list_lfs = False
    with pytest.raises(SourceError, match=r"Q4_K_M\s+300 kB"):
        sources.locate("o/r")


def test_the_only_model_needs_no_name(hub: Any, gguf: Any, fake: Any) -> None:
    """One GGUF in a repository is meant."""
    hub.repos["o/one"] = fake.Repo({"only.gguf": gguf(5000), "mmproj.gguf": gguf(100)})
    assert sources.resolve("o/one").name == "only"
    hub.repos["o/none"] = fake.Repo({"model.safetensors": b"x", "README.md": b"y"})
    with pytest.raises(SourceError, match="no GGUF model; its weights are safetensors"):
        sources.resolve("o/none")


def test_all_shards_are_fetched_and_each_is_verified(hub: Any, gguf: Any, fake: Any) -> None:
    """A split quant comes whole, in order, with one progress over all bytes (llama-cpp-python#1341)."""
    names = [f"Q6_K/big-Q6_K-{i:05d}-of-00003.gguf" for i in (1, 2, 3)]
    files = {name: gguf(100_000 + i, seed=i) for i, name in enumerate(names)}
    hub.repos["o/big"] = fake.Repo({**files, "big-Q4_0.gguf": gguf(50)})
    seen: list[Progress] = []
    found = sources.resolve("o/big:Q6_K", progress=seen.append)
    assert [part.read_bytes() for part in found.parts] == list(files.values())
    assert len({part.parent for part in found.parts}) == 1
    assert (found.size, found.name) == (300_003, "big-Q6_K")
    downloads = [p for p in seen if p.stage == "download"]
    assert {p.total for p in downloads} == {300_003}
    assert downloads[-1].done == 300_003
    assert sources.resolve(f"o/big:{names[1]}").parts == found.parts
    del hub.repos["o/big"].files[names[2]]
    with pytest.raises(SourceError, match="lacks 1 of the 3 parts"):
        sources.resolve("o/big:Q6_K")


def test_wrong_bytes_are_refused_by_the_lfs_digest(hub: Any, repo: Any, machine: Path) -> None:
    """Right size, one flipped byte: refused and removed, then fetched anew (hub#4060)."""
    hub.faults.flip_byte = 150_000
    with pytest.raises(SourceError, match="wrong bytes"):
        sources.resolve("o/r:Q4_K_M")
    blobs = list((machine / "hf" / "hub").rglob("blobs/*"))
    assert blobs == []
    hub.faults.flip_byte = None
    assert sources.resolve("o/r:Q4_K_M").path.read_bytes() == repo.files["m-Q4_K_M.gguf"]


def test_the_digest_in_the_list_serves_where_the_etag_is_none(hub: Any, repo: Any) -> None:
    """A mirror with ETags of its own still has its LFS digests in the file list."""
    repo.plain_etag = True
    hub.faults.flip_byte = 150_000
    with pytest.raises(SourceError, match="wrong bytes"):
        sources.resolve("o/r:m-Q4_K_M.gguf")


def test_a_damaged_copy_in_the_cache_is_noticed_and_replaced(hub: Any, repo: Any) -> None:
    """A byte that flipped on this disk does not load; offline it is named."""
    found = sources.resolve("o/r:Q4_K_M")
    blob = found.path.resolve()
    data = bytearray(blob.read_bytes())
    data[1000] ^= 1
    blob.write_bytes(data)
    with pytest.raises(SourceError, match="wrong bytes"):
        sources.resolve("o/r:Q4_K_M", offline=True)
    again = sources.resolve("o/r:Q4_K_M")
    assert again.path.read_bytes() == repo.files["m-Q4_K_M.gguf"]
    assert "damaged" in again.notes[0]


def test_a_verified_file_is_not_hashed_again(hub: Any, repo: Any) -> None:
    """The verdict is kept, so a load of a large cached file costs no second read."""
    sources.resolve("o/r:Q4_K_M")
    stages: list[str] = []
    sources.resolve("o/r:Q4_K_M", progress=lambda p: stages.append(p.stage))
    assert stages == ["resolve"]


def test_a_given_digest_is_compared_before_anything_is_fetched(hub: Any, repo: Any) -> None:
    """The hub's own digest settles it."""
    with pytest.raises(SourceError, match="Nothing was downloaded"):
        sources.resolve("o/r:Q4_K_M", sha256="0" * 64)
    assert hub.gets(".gguf") == []
    digest = hashlib.sha256(repo.files["m-Q4_K_M.gguf"]).hexdigest()
    assert sources.resolve("o/r:Q4_K_M", sha256=digest).size == SIZE


def test_a_mirror_that_reports_size_zero_is_no_obstacle(hub: Any, repo: Any) -> None:
    """X-Linked-Size 0 means unknown, not an empty file (hub#3307)."""
    hub.faults.zero_size = True
    assert sources.resolve("o/r:m-Q4_K_M.gguf").path.read_bytes() == repo.files["m-Q4_K_M.gguf"]


def test_a_mirror_that_knows_branches_alone_serves(hub: Any, repo: Any) -> None:
    """No address by commit, no file list, no digest: the file comes, and a note says what was not checked."""
    repo.revisions, repo.plain_etag, repo.unlisted = ("main",), True, True
    found = sources.resolve("o/r:m-Q4_K_M.gguf")
    assert found.path.read_bytes() == repo.files["m-Q4_K_M.gguf"]
    assert "no SHA-256" in found.notes[0]
    assert sources.open_parts("o/r:m-Q4_K_M.gguf")[0].size == SIZE


def test_a_break_resumes_within_and_across_calls(
    hub: Any, repo: Any, monkeypatch: pytest.MonkeyPatch, machine: Path
) -> None:
    """huggingface-hub 2.4 starts again after Ctrl-C; here the rest is asked for."""
    hub.faults.drop_after = [100_000]
    sources.resolve("o/r:Q4_K_M")
    assert hub.gets("/cdn/o/r/m-Q4_K_M.gguf")[-1].headers["range"] == "bytes=100000-"
    monkeypatch.setattr(_transfer, "RETRIES", 0)
    hub.faults.drop_after = [250_000]
    with pytest.raises(SourceError, match="run it again"):
        sources.resolve("o/r:Q8_0")
    found = sources.resolve("o/r:Q8_0")
    assert found.path.read_bytes() == repo.files["m-Q8_0.gguf"]
    assert hub.gets("/cdn/o/r/m-Q8_0.gguf")[-1].headers["range"] == "bytes=250000-"
    assert not list((machine / "hf").rglob("*.partial*"))


def test_busy_answers_are_tried_again(hub: Any, repo: Any) -> None:
    """500 and 503 from the API and the file's metadata are passing."""
    hub.faults.status = [500, 503]
    assert sources.resolve("o/r:Q4_K_M").size == SIZE


@pytest.mark.parametrize("how", ["down", "busy", "switch", "argument", "transformers"])
def test_a_cached_file_is_used_when_the_hub_is_out_of_reach(
    how: str, hub: Any, repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cable pulled, hub broken, switch set in a cell: cached file and a notice (hub#4487, hub#3394)."""
    first = sources.resolve("o/r:Q4_K_M")
    requests = len(hub.seen)
    if how == "down":
        hub.down = True
    elif how == "busy":
        hub.faults.status = [503] * 100
    elif how != "argument":
        monkeypatch.setenv("HF_HUB_OFFLINE" if how == "switch" else "TRANSFORMERS_OFFLINE", "1")
    for text in ("o/r:Q4_K_M", "hf:o/r:m-Q4_K_M.gguf", "o/r"):
        found = sources.resolve(text, offline=True if how == "argument" else None)
        assert found.path == first.path
        assert len(found.notes) == 1
        assert "cached copy is used" in found.notes[0]
    if how not in ("down", "busy"):
        assert len(hub.seen) == requests
    with pytest.raises(SourceError, match="not in the cache"):
        sources.resolve("o/r:m-Q8_0.gguf", offline=how == "argument")


def test_the_switch_can_be_turned_off_again(hub: Any, repo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """huggingface-hub reads its switch at import; the environment of the moment decides here."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert sources.resolve("o/r:Q4_K_M").size == SIZE


def test_gated_and_missing_things_are_named_for_what_they_are(
    hub: Any, repo: Any, gguf: Any, fake: Any
) -> None:
    """Gated, private or missing repository, missing revision, missing file: five different sentences."""
    hub.repos["o/gated"] = fake.Repo({"g-Q4_0.gguf": gguf()}, gated=True)
    hub.repos["o/private"] = fake.Repo({"p.gguf": gguf()}, private=True)
    cases = {
        "o/gated:Q4_0": "is gated.*not logged in",
        "o/gated:g-Q4_0.gguf": "is gated.*Ask for access at",
        "o/private": "is not on .* or it is private; you are not logged in",
        "no/such": "is not on .* or it is private",
        "o/r:Q4_K_M@nope": "no revision 'nope'",
        "o/r:m-Q4_K_S.gguf": r"has no file m-Q4_K_S\.gguf.*\n.*m-Q4_K_M\.gguf",
    }
    for text, words in cases.items():
        with pytest.raises(SourceError, match="(?s)" + words):
            sources.resolve(text)


def test_a_good_token_opens_private_and_gated(
    hub: Any, gguf: Any, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token goes to the hub, never to the CDN that it redirects to."""
    monkeypatch.setenv("HF_TOKEN", "hf_goodtoken")
    hub.repos["o/private"] = fake.Repo({"p.gguf": gguf()}, private=True, gated=True)
    assert sources.resolve("o/private").size == 5000
    at_cdn = [seen for seen in hub.seen if seen.path.startswith("/cdn/")]
    assert at_cdn
    assert all("authorization" not in seen.headers for seen in at_cdn)


def test_an_expired_token_does_not_hide_a_public_file(
    hub: Any, repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """401 for the token: asked again without it, and the note says that it was rejected (hub#1124)."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    found = sources.resolve("o/r:Q4_K_M")
    assert found.size == SIZE
    assert len(found.notes) == 1
    assert "token was rejected" in found.notes[0]
    with pytest.raises(SourceError, match="token was rejected"):
        sources.resolve("no/such")


def test_a_token_is_shown_nowhere(
    hub: Any,
    gguf: Any,
    fake: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: Any,
) -> None:
    """Errors, their tracebacks, reprs, logs at DEBUG and the terminal stay without it (datasets#6412)."""
    caplog.set_level(logging.DEBUG)
    hub.repos["o/gated"] = fake.Repo({"g-Q4_0.gguf": gguf()}, gated=True)
    hub.repos["o/ok"] = fake.Repo({"g.gguf": gguf()})
    texts = []
    for token in (TOKEN, "hf_goodtoken"):
        monkeypatch.setenv("HF_TOKEN", token)
        texts.append(repr(sources.resolve("o/ok")))
        for source in (
            "o/gated:Q4_0",
            "no/such",
            "o/ok:x.gguf",
            f"o/ok:{token}",
            f"{hub.url}/x?token={token}",
        ):
            try:
                texts.append(repr(sources.resolve(source)))
            except LlamaMagicError as err:
                texts += [str(err), repr(err), "".join(traceback.format_exception(err))]
    out = capfd.readouterr()
    for text in (*texts, caplog.text, out.out, out.err):
        assert TOKEN not in text
        assert "hf_goodtoken" not in text
        assert "s3cr3t" not in text


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Linked-Etag": '"../../../../evil"'},
        {"X-Linked-Etag": '"/etc/evil"'},
        {"X-Repo-Commit": "../../../evil"},
        {"X-Repo-Commit": "/evil"},
        {"X-Repo-Commit": ""},
    ],
)
def test_headers_of_a_hostile_hub_cannot_name_files(
    headers: dict[str, str], hub: Any, repo: Any, machine: Path
) -> None:
    """ETag and commit become file names in the cache, so they must be plain."""
    hub.faults.headers = headers
    with pytest.raises(SourceError, match="no hub does"):
        sources.resolve("o/r:m-Q4_K_M.gguf")
    assert not list(machine.rglob("*evil*"))


def test_a_file_list_that_leads_outside_is_refused(hub: Any, repo: Any, gguf: Any, machine: Path) -> None:
    """A name with ../ in the list stops it before any file is asked for (hub#4086)."""
    repo.listed = {"../../../evil.gguf": gguf()}
    with pytest.raises(SourceError, match="leads outside"):
        sources.resolve("o/r")
    assert not [seen for seen in hub.seen if seen.method == "HEAD"]
    assert not list(machine.rglob("evil*"))


def test_the_hubs_redirects_are_checked(hub: Any, repo: Any) -> None:
    """A hub that redirects to file: or to a metadata service is refused."""
    for target, words in (("file:///etc/passwd", "file:"), ("http://169.254.169.254/x.gguf", "link-local")):
        hub.faults.redirect = target
        with pytest.raises(SourceError, match=words):
            sources.resolve("o/r:m-Q4_K_M.gguf")


def test_a_page_in_the_files_place_is_refused(hub: Any, repo: Any, machine: Path) -> None:
    """A captive portal that answers for the CDN puts no HTML into the cache."""
    hub.faults.body = b"<html><title>Welcome to the hotel</title></html>"
    with pytest.raises(SourceError, match="Welcome to the hotel"):
        sources.resolve("o/r:m-Q4_K_M.gguf")
    assert list((machine / "hf" / "hub").rglob("blobs/*")) == []


def test_locate_asks_for_no_body(hub: Any, repo: Any) -> None:
    """Sizes, digests and the file's name for `--dry-run`, without a byte of the model."""
    found = sources.locate("o/r:Q8_0")
    assert (found.size, found.path, found.name) == (2 * SIZE, None, "m-Q8_0")
    assert found.files[0].sha256 == hashlib.sha256(repo.files["m-Q8_0.gguf"]).hexdigest()
    assert hub.gets(".gguf") == []
    path = sources.resolve("o/r:Q8_0").path
    assert sources.locate("o/r:Q8_0").path == path


def test_revisions_come_from_the_source_or_the_option(hub: Any, repo: Any, tmp_path: Path, gguf: Any) -> None:
    """`@v1` and `--revision v1` are the same; two that differ, and one for a file, are refused."""
    one = sources.resolve("o/r:Q4_K_M@v1")
    two = sources.resolve("o/r:Q4_K_M", revision="v1")
    assert one == two
    with pytest.raises(OptionError, match="Two revisions"):
        sources.resolve("o/r:Q4_K_M@v1", revision="main")
    (tmp_path / "x.gguf").write_bytes(gguf())
    with pytest.raises(OptionError, match="no hub repository"):
        sources.resolve(tmp_path / "x.gguf", revision="v1")


def test_an_alias_of_a_hub_model_keeps_its_name(hub: Any, repo: Any) -> None:
    """`--as` has a sensible start: the alias."""
    sources.add_alias("tiny", "hf:o/r:Q4_K_M")
    found = sources.resolve("tiny")
    assert (found.kind, found.name, found.size) == ("alias", "tiny", SIZE)


def test_threads_and_processes_share_one_transfer(hub: Any, repo: Any) -> None:
    """Ten threads and two processes on a cold cache: one body travels."""
    hub.faults.gate = threading.Event()
    code = "import sys; from llama_magic import sources; print(sources.resolve('o/r:Q4_K_M').path)"
    procs = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    paths: list[str] = []
    threads = [
        threading.Thread(target=lambda: paths.append(str(sources.resolve("o/r:Q4_K_M").path)))
        for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    threading.Timer(1.0, hub.faults.gate.set).start()
    paths += [proc.communicate(timeout=600)[0].strip() for proc in procs]
    for thread in threads:
        thread.join(600)
    assert len(paths) == 12
    assert len(set(paths)) == 1
    assert len(hub.gets("/cdn/o/r/m-Q4_K_M.gguf")) == 1


@pytest.mark.parametrize(
    ("name", "quant"),
    [
        ("Llama-3.2-1B-Instruct-Q4_K_M.gguf", "Q4_K_M"),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("gemma-3-270m-it-UD-IQ2_XXS.gguf", "UD-IQ2_XXS"),
        ("Qwen2.5-7B-f16.gguf", "F16"),
        ("BF16/m-BF16-00001-of-00002.gguf", "BF16"),
        ("Q8_0/model-00001-of-00002.gguf", "Q8_0"),
        ("ggml-model-q4_0.gguf", "Q4_0"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("m-TQ1_0.gguf", "TQ1_0"),
        ("m-Q4_0_4_4.gguf", "Q4_0_4_4"),
        ("m.Q2_K_S.gguf", "Q2_K_S"),
        ("model.gguf", None),
        ("Q1-report-16-32.gguf", None),
    ],
)
def test_quants_are_read_from_names(name: str, quant: str | None) -> None:
    """File name first, folder second; the spelling people use on the hub."""
    assert quant_of(name) == quant


def test_choice_is_exact_before_it_is_anything_else() -> None:
    """`Q4_K_M` is not `UD-Q4_K_M`; two models of one quant must be told apart by file."""
    sizes = {"m-Q4_K_M.gguf": 10, "m-UD-Q4_K_M.gguf": 20, "n-Q8_0.gguf": 5, "m-Q8_0.gguf": 6}
    assert choose("o/r", sizes, "Q4_K_M") == ["m-Q4_K_M.gguf"]
    assert choose("o/r", sizes, "ud-q4_k_m") == ["m-UD-Q4_K_M.gguf"]
    with pytest.raises(SourceError, match=r"Q8_0 names 2 models(?s:.*)n-Q8_0\.gguf(?s:.*)m-Q8_0\.gguf"):
        choose("o/r", sizes, "Q8_0")


def test_shard_names_are_llama_cpps() -> None:
    """Five digits, counted from one."""
    assert shard_names("a-00002-of-00002.gguf") == ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"]
    assert shard_names("a.gguf") == ["a.gguf"]
    assert short_name("x/a-00002-of-00002.gguf") == "a"


def test_the_cache_follows_the_environment(
    hub: Any, repo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HF_HUB_CACHE set in a cell counts for the next load."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "elsewhere"))
    assert sources.resolve("o/r:Q4_K_M").path.is_relative_to(tmp_path / "elsewhere")
    assert os.environ["HF_HUB_CACHE"] == str(sources.hub_cache())
