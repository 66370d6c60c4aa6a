"""Models by URL, against a file host that misbehaves."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

import llama_magic as lm
from llama_magic import sources
from llama_magic.errors import InvalidGGUFError, SourceError
from llama_magic.sources.disk import lock as _lock
from llama_magic.sources.http import client as _http
from llama_magic.sources.http import meter as _meter
from llama_magic.sources.http import transfer as _transfer
from llama_magic.words.progress import Progress

SIZE = 400_000


@pytest.fixture
def model(hub: Any, gguf: Any) -> bytes:
    """A model of 400 kB at `/m.gguf`."""
    data: bytes = gguf(SIZE)
    hub.files["/m.gguf"] = data
    return data


def leftovers(machine: Path) -> list[str]:
    """Return the names of unfinished files in the cache."""
    return sorted(path.name for path in (machine / "cache").rglob("*.partial*"))


def test_a_url_is_fetched_once_and_then_used_from_the_cache(hub: Any, model: bytes) -> None:
    """The second load asks the server nothing, and works when it is gone."""
    first = sources.resolve(hub.url + "/m.gguf")
    assert first.path.read_bytes() == model
    assert (first.kind, first.name, first.size) == ("url", "m", SIZE)
    hub.down = True
    assert sources.resolve(hub.url + "/m.gguf").path == first.path
    assert sources.resolve(hub.url + "/m.gguf", offline=True).path == first.path
    assert len(hub.seen) == 1
    assert sources.locate(hub.url + "/m.gguf").path == first.path
    assert [(m.name, m.kind) for m in sources.on_disk() if m.kind == "url"] == [("m", "url")]


def test_a_dropped_connection_goes_on_by_range(hub: Any, model: bytes, machine: Path) -> None:
    """Every byte travels once: the second request starts where the first broke, under If-Range."""
    hub.faults.drop_after = [100_000, 150_000]
    found = sources.resolve(hub.url + "/m.gguf")
    assert found.path.read_bytes() == model
    ranges = [seen.headers.get("range") for seen in hub.seen]
    assert ranges[0] is None
    assert ranges[1] == "bytes=100000-"
    assert ranges[2] == "bytes=250000-"
    assert hub.seen[1].headers["if-range"] == f'"{hashlib.md5(model).hexdigest()}"'
    assert sum(seen.sent for seen in hub.seen) == SIZE
    assert leftovers(machine) == []


def test_a_broken_fetch_is_resumed_by_the_next_call(
    hub: Any, model: bytes, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After giving up, the `.partial` stays, the message says so, and the next call asks for the rest."""
    monkeypatch.setattr(_transfer, "RETRIES", 0)
    hub.faults.drop_after = [120_000]
    with pytest.raises(SourceError, match="run it again to go on"):
        sources.resolve(hub.url + "/m.gguf")
    assert leftovers(machine) == ["m.gguf.partial", "m.gguf.partial.json"]
    seen: list[Progress] = []
    found = sources.resolve(
        hub.url + "/m.gguf", sha256=hashlib.sha256(model).hexdigest(), progress=seen.append
    )
    assert found.path.read_bytes() == model
    assert hub.seen[-1].headers["range"] == "bytes=120000-"
    downloads = [p for p in seen if p.stage == "download"]
    assert downloads[0].resumed_from == 120_000
    assert (downloads[-1].done, downloads[-1].total) == (SIZE, SIZE)


def test_ctrl_c_leaves_a_partial_that_the_next_call_finishes(hub: Any, model: bytes, machine: Path) -> None:
    """SIGINT in the middle: nothing under the final name, then the rest and the right bytes (hub#1396)."""
    hub.faults.gate = threading.Event()

    def press(progress: Progress) -> None:
        if progress.stage == "download":
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        sources.resolve(hub.url + "/m.gguf", progress=press)
    assert "m.gguf.partial" in leftovers(machine)
    assert not list((machine / "cache").rglob("m.gguf"))
    hub.faults.gate.set()
    assert sources.resolve(hub.url + "/m.gguf").path.read_bytes() == model
    assert hub.seen[-1].status == 206


def test_a_server_without_ranges_starts_again(hub: Any, model: bytes) -> None:
    """A 200 in answer to a Range is the whole file: the old bytes are dropped, not doubled."""
    hub.faults.ignore_range = True
    hub.faults.drop_after = [100_000]
    assert sources.resolve(hub.url + "/m.gguf").path.read_bytes() == model
    assert [seen.status for seen in hub.seen] == [200, 200]


@pytest.mark.parametrize("weak", [False, True])
def test_a_file_that_changed_on_the_server_starts_again(
    hub: Any, model: bytes, gguf: Any, weak: bool
) -> None:
    """Old and new bytes are never mixed, with a strong ETag (If-Range) and with a weak one (compared)."""
    hub.faults.weak_etag = weak
    new = gguf(SIZE, seed=5)

    def swap() -> None:
        hub.files["/m.gguf"] = new

    hub.faults.on_body = swap
    hub.faults.drop_after = [200_000]
    assert sources.resolve(hub.url + "/m.gguf").path.read_bytes() == new


def test_a_partial_longer_than_the_file_starts_again(hub: Any, model: bytes, gguf: Any) -> None:
    """416 for a range beyond the end means that the partial is of another file."""
    short = gguf(50_000, seed=7)
    hub.faults.no_validators = True
    hub.faults.drop_after = [200_000]

    def swap() -> None:
        hub.files["/m.gguf"] = short

    hub.faults.on_body = swap
    assert sources.resolve(hub.url + "/m.gguf").path.read_bytes() == short
    assert 416 in [seen.status for seen in hub.seen]


def test_a_complete_partial_needs_only_its_name(hub: Any, model: bytes, machine: Path) -> None:
    """Killed between the last byte and the rename: 416 with the right length ends it, checked by digest."""

    def stop(progress: Progress) -> None:
        if progress.done == SIZE:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sources.resolve(hub.url + "/m.gguf", progress=stop)
    found = sources.resolve(hub.url + "/m.gguf", sha256=hashlib.sha256(model).hexdigest())
    assert found.path.read_bytes() == model
    assert hub.seen[-1].status == 416


def test_passing_failures_are_tried_again(hub: Any, model: bytes) -> None:
    """500, 503 and 429 are passing; five tries that bring nothing are the end, and the status is named."""
    hub.faults.status = [500, 503, 429]
    assert sources.resolve(hub.url + "/m.gguf").path.read_bytes() == model
    hub.files["/n.gguf"] = model
    hub.faults.status = [500] * 50
    before = len(hub.seen)
    with pytest.raises(SourceError, match="500"):
        sources.resolve(hub.url + "/n.gguf")
    assert len(hub.seen) - before == 1 + _transfer.RETRIES


@pytest.mark.parametrize(
    ("status", "words"), [(404, "does not exist"), (403, "refuses access"), (401, "login")]
)
def test_lasting_failures_are_named_at_once(status: int, words: str, hub: Any, model: bytes) -> None:
    """One request, and a sentence for the status."""
    hub.faults.status = [status]
    with pytest.raises(SourceError, match=words) as caught:
        sources.resolve(hub.url + "/m.gguf")
    assert type(caught.value) is SourceError  # its name is what the notebook shows
    assert len(hub.seen) == 1


def test_wrong_bytes_are_refused_and_removed(hub: Any, model: bytes, machine: Path) -> None:
    """One flipped byte of the right length fails the digest; nothing is kept (hub#4060)."""
    hub.faults.flip_byte = 200_000
    digest = hashlib.sha256(model).hexdigest()
    with pytest.raises(SourceError, match=digest):
        sources.resolve(hub.url + "/m.gguf", sha256=digest)
    assert leftovers(machine) == []
    assert not list((machine / "cache").rglob("m.gguf"))
    hub.faults.flip_byte = None
    assert sources.resolve(hub.url + "/m.gguf", sha256=digest).path.read_bytes() == model


def test_a_digest_given_later_is_held_against_the_cached_file(hub: Any, model: bytes, gguf: Any) -> None:
    """The digest is kept from the download; another one fetches again instead of trusting the name."""
    sources.resolve(hub.url + "/m.gguf")
    sources.resolve(hub.url + "/m.gguf", sha256=hashlib.sha256(model).hexdigest())
    assert len(hub.seen) == 1
    new = gguf(SIZE, seed=3)
    hub.files["/m.gguf"] = new
    found = sources.resolve(hub.url + "/m.gguf", sha256=hashlib.sha256(new).hexdigest())
    assert found.path.read_bytes() == new


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<!doctype html><title>Please log in</title>", "HTML page titled 'Please log in'"),
        (b"<html>" + b"x" * 5000, "HTML page"),
        (b'{"error":"nope"}', "JSON"),
        (b"", "empty"),
        (b"GGUF\x03\0\0\0", "only 8 bytes"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"\x7fELF" + b"\0" * 2000, "a program"),
    ],
)
def test_what_is_no_model_is_refused_by_what_it_is(body: bytes, words: str, hub: Any, model: bytes) -> None:
    """Not by its size: a long page is refused and a small model (5 kB) is taken."""
    hub.faults.body = body
    with pytest.raises(SourceError, match=words):
        sources.resolve(hub.url + "/m.gguf")
    with pytest.raises(SourceError, match=words):
        sources.locate(hub.url + "/m.gguf")
    hub.faults.body = None
    hub.files["/m.gguf"] = model[:24]
    assert sources.resolve(hub.url + "/m.gguf").size == 24


def test_a_blob_page_leads_to_its_file(hub: Any, gguf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/owner/repo/blob/main/x.gguf` on a hub-like host fetches `/resolve/` (llama.cpp#3358)."""
    monkeypatch.delenv("HF_ENDPOINT")
    data = gguf(9000)
    hub.files["/o/r/blob/main/x.gguf"] = b"<!doctype html><title>x.gguf</title>"
    hub.files["/o/r/resolve-copy"] = data
    hub.repos["o/r"] = sys.modules["fake_hub"].Repo({"x.gguf": data})
    found = sources.resolve(hub.url + "/o/r/blob/main/x.gguf")
    assert found.path.read_bytes() == data


def test_an_unknown_length_is_no_error(hub: Any, model: bytes) -> None:
    """Without Content-Length the end of the body is the end; magic and digest still count (hub#3307)."""
    hub.faults.no_length = True
    seen: list[Progress] = []
    found = sources.resolve(
        hub.url + "/m.gguf", sha256=hashlib.sha256(model).hexdigest(), progress=seen.append
    )
    assert found.path.read_bytes() == model
    assert all(p.total is None for p in seen)
    hub.files["/n.gguf"] = model
    assert sources.locate(hub.url + "/n.gguf").size == SIZE


def test_a_full_disk_is_told_before_anything_is_fetched(
    hub: Any, model: bytes, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Needed and free bytes are in the message; the cache is usable afterwards (hub#2742)."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 1000, 1000))
    with pytest.raises(SourceError, match=r"needs 400 kB more.*1 kB free"):
        sources.resolve(hub.url + "/m.gguf")
    assert not list((machine / "cache").rglob("*.gguf.partial"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, 0))  # a network volume that knows nothing
    assert sources.resolve(hub.url + "/m.gguf").path.read_bytes() == model


def test_a_disk_that_fills_up_is_freed_again(hub: Any, model: bytes, machine: Path) -> None:
    """A real limit (RLIMIT_FSIZE) in the middle of the file: a named error, no partial, then success."""
    url = hub.url + "/m.gguf"
    code = (
        "import resource, signal, sys; from llama_magic import errors, sources\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))\n"
        "try: sources.resolve(sys.argv[1])\n"
        "except errors.SourceError as e: print(e)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "print(sources.resolve(sys.argv[1]).size)"
    )
    out = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, timeout=600)
    assert "cannot be written" in out.stdout, out.stderr
    assert out.stdout.strip().endswith(str(SIZE))
    assert leftovers(machine) == []


@pytest.mark.parametrize(
    ("path", "disposition", "name"),
    [
        ("/x/..%2f..%2fetc%2fcron.d%2fa.gguf", None, "a.gguf"),
        ("/download", 'attachment; filename="../../../a.gguf"', "a.gguf"),
        ("/download", "attachment; filename*=UTF-8''..%2F..%2Fb.gguf", "b.gguf"),
        ("/download", 'attachment; filename="..\\\\..\\\\c.gguf"', "c.gguf"),
        ("/download", 'attachment; filename="/etc/passwd"', "download"),
        ("/..%252f..%252fd.gguf", None, "d.gguf"),
    ],
)
def test_no_name_from_a_server_leaves_the_cache(
    path: str, disposition: str | None, name: str, hub: Any, gguf: Any, machine: Path
) -> None:
    """Addresses and Content-Disposition lose all but their last part (llmfit#127)."""
    from urllib.parse import unquote

    hub.files[unquote(path)] = gguf()
    if disposition:
        hub.faults.headers["Content-Disposition"] = disposition
    found = sources.resolve(hub.url + path)
    assert found.path.name == name
    assert found.path.resolve().is_relative_to((machine / "cache" / "urls").resolve())


@pytest.mark.parametrize("name", ["", ".", "..", "///", "\\", "CON", "con.gguf", "\x00", "a/..", "%2e%2e"])
def test_names_with_nothing_left_are_none(name: str) -> None:
    """What is no file name on some system is not used on any."""
    assert _http.safe_name(name) is None


def test_long_names_are_cut_and_keep_their_ending() -> None:
    """255 bytes is what file systems take, and `.partial.json` comes on top."""
    name = _http.safe_name("ä" * 300 + ".gguf")
    assert name is not None
    assert len(name.encode()) <= 150
    assert name.endswith(".gguf")


def test_redirects_are_followed_and_counted(hub: Any, model: bytes) -> None:
    """A redirect from a local server to another local port is fine; circles and file: are not."""
    hub.files["/moved.gguf"] = b""
    hub.faults.redirect = hub.url + "/m.gguf"
    assert sources.resolve(hub.url + "/moved.gguf").path.read_bytes() == model
    hub.files["/moved2.gguf"] = b""
    for target, words in (
        ("/moved2.gguf", "circle"),
        ("file:///etc/passwd", "file:"),
        ("ftp://h/x", "ftp:"),
        ("gopher://127.0.0.1/", "gopher:"),
        ("http://169.254.169.254/latest/meta-data", "link-local"),
    ):
        hub.faults.redirect = target
        with pytest.raises(SourceError, match=words):
            sources.resolve(hub.url + "/moved2.gguf")


@pytest.mark.parametrize(
    ("chain", "target", "allowed"),
    [
        (["https://a.example/x"], "http://a.example/x", False),
        (["http://a.example/x"], "https://b.example/x", True),
        (["https://a.example/x"], "https://127.0.0.1/x", False),
        (["https://a.example/x"], "https://localhost/x", False),
        (["https://a.example/x"], "https://10.1.2.3/x", False),
        (["https://a.example/x"], "https://[::1]/x", False),
        (["https://a.example/x"], "https://[::ffff:127.0.0.1]/x", False),
        (["https://a.example/x"], "https://0.0.0.0/x", False),
        (["https://a.example/x"], "https://2130706433/x", False),
        (["https://a.example/x", "https://b.example/y"], "https://192.168.1.1/x", False),
        (["http://192.168.1.5/x"], "http://192.168.1.6/x", True),
        (["http://192.168.1.5/x"], "http://127.0.0.1/x", False),
        (["http://127.0.0.1:1/x"], "http://127.0.0.1:2/x", True),
        (["http://127.0.0.1:1/x"], "http://169.254.169.254/x", False),
        (["http://127.0.0.1:1/x"], "https://a.example/x", True),
        (["https://a.example/x"], "https:///x", False),
    ],
)
def test_a_redirect_may_lead_outward_never_inward(
    chain: list[str], target: str, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a public host no redirect reaches this machine or network, in any spelling, nor plain http."""
    import socket

    real = socket.getaddrinfo

    def names(host: str, *args: Any, **kwargs: Any) -> Any:
        return real("93.184.215.14" if host.endswith(".example") else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", names)
    hops = [_http.urlsplit(hop) for hop in chain]
    if allowed:
        _http.check_redirect(hops, target)
    else:
        with pytest.raises(SourceError, match="redirects to"):
            _http.check_redirect(hops, target)


def test_a_host_whose_name_has_an_inner_address_is_inner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all addresses that a name has, the nearest counts."""
    import socket

    answer = [(2, 1, 6, "", ("93.184.215.14", 0)), (2, 1, 6, "", ("127.0.0.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: answer)
    assert _http.host_reach("rebind.example") == "loopback"


def test_secrets_show_up_nowhere(
    hub: Any, model: bytes, caplog: pytest.LogCaptureFixture, machine: Path
) -> None:
    """A signed address is used whole and shown without its signature: results, errors, logs, the cache."""
    caplog.set_level(logging.DEBUG)
    url = hub.url.replace("http://", "http://user:pa55word@") + "/m.gguf?sig=s3cr3tvalue"
    found = sources.resolve(url)
    assert found.path.read_bytes() == model
    hub.faults.status = [404]
    with pytest.raises(SourceError) as caught:
        sources.resolve(url.replace("m.gguf", "n.gguf"))
    stored = "".join(p.read_text("utf-8", "ignore") for p in (machine / "cache").rglob("*.json"))
    for text in (repr(found), str(caught.value), repr(caught.value), caplog.text, stored, str(found.path)):
        assert "s3cr3tvalue" not in text
        assert "pa55word" not in text
    assert hub.seen[0].headers["authorization"].startswith("Basic ")


def test_shards_by_url_are_all_fetched(hub: Any, gguf: Any) -> None:
    """Any part's address brings all parts, into one folder, where llama.cpp looks for them."""
    parts = {f"/m-{i:05d}-of-00003.gguf": gguf(3000 + i, seed=i) for i in (1, 2, 3)}
    hub.files.update(parts)
    seen: list[Progress] = []
    found = sources.resolve(hub.url + "/m-00002-of-00003.gguf", progress=seen.append)
    assert [part.read_bytes() for part in found.parts] == list(parts.values())
    assert len({part.parent for part in found.parts}) == 1
    assert (found.name, found.size) == ("m", 9006)
    assert seen[-1].done == 9006
    assert len(hub.seen) == 3
    assert [m.size for m in sources.on_disk() if m.kind == "url"] == [9006]
    assert sources.locate(hub.url + "/m-00001-of-00003.gguf").parts == found.parts


def test_progress_tells_speed_and_time_left(hub: Any, model: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes only grow, and in the middle there is a speed and a time that fit together."""
    monkeypatch.setattr(_meter, "_REPORT_EVERY_S", 0.0)
    seen: list[Progress] = []
    sources.resolve(hub.url + "/m.gguf", progress=seen.append)
    downloads = [p for p in seen if p.stage == "download"]
    assert [p.done for p in downloads] == sorted(p.done for p in downloads)
    middle = downloads[1]
    assert middle.speed is not None
    assert middle.eta_s == pytest.approx((SIZE - middle.done) / middle.speed)


def test_a_connection_that_drips_is_cut_and_named(
    hub: Any, model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every read is in time and the file never comes: the watch ends it, also a server that goes silent."""
    monkeypatch.setattr(_transfer, "RETRIES", 1)
    monkeypatch.setattr(_transfer, "STALL_S", 0.0)
    monkeypatch.setattr(_transfer, "STALL_BYTES", 10**9)
    with pytest.raises(SourceError, match="sent only"):
        sources.resolve(hub.url + "/m.gguf")


def test_a_silent_server_does_not_hang_the_caller(
    hub: Any, model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that stops in the middle ends by the read timeout."""
    monkeypatch.setattr(_http, "READ_TIMEOUT_S", 0.2)
    monkeypatch.setattr(_transfer, "RETRIES", 0)
    hub.faults.gate = threading.Event()
    with pytest.raises(SourceError, match="sent nothing"):
        sources.resolve(hub.url + "/m.gguf")


def test_offline_asks_nobody(hub: Any, model: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch is read at call time (hub#3394), by argument too."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(SourceError, match="offline"):
        sources.resolve(hub.url + "/m.gguf")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    with pytest.raises(SourceError, match="offline"):
        sources.resolve(hub.url + "/m.gguf", offline=True)
    assert hub.seen == []
    assert sources.resolve(hub.url + "/m.gguf").size == SIZE


def test_nobody_listening_is_named_quickly(hub: Any) -> None:
    """A refused connection is tried once more, not five times."""
    hub.close()
    with pytest.raises(SourceError, match="cannot be reached"):
        sources.resolve(hub.url + "/m.gguf")


FETCH = "import sys; from llama_magic import sources; print(sources.resolve(sys.argv[1]).path)"


def test_four_processes_share_one_transfer(hub: Any, model: bytes) -> None:
    """Four processes, one cold URL: one GET, four equal paths to the complete file (transformers#31019)."""
    hub.faults.gate = threading.Event()
    procs = [
        subprocess.Popen(
            [sys.executable, "-c", FETCH, hub.url + "/m.gguf"], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    threading.Timer(1.0, hub.faults.gate.set).start()
    paths = {proc.communicate(timeout=600)[0].strip() for proc in procs}
    assert len(paths) == 1
    assert Path(paths.pop()).read_bytes() == model
    assert len(hub.seen) == 1


def test_fifty_threads_share_one_transfer(hub: Any, model: bytes) -> None:
    """Fifty threads, one cold URL: one GET, fifty equal paths, no FileExistsError (hub#1133)."""
    paths: list[Path] = []
    start = threading.Barrier(50)

    def fetch() -> None:
        start.wait()
        paths.append(sources.resolve(hub.url + "/m.gguf").path)

    threads = [threading.Thread(target=fetch) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert len(paths) == 50
    assert len(set(paths)) == 1
    assert len(hub.seen) == 1


def test_a_lock_dies_with_its_owner(hub: Any, model: bytes, machine: Path) -> None:
    """kill -9 in the middle of a transfer: the next call goes on from the partial at once (hub#2543)."""
    hub.faults.gate = threading.Event()
    reached = threading.Event()
    hub.faults.on_body = reached.set
    proc = subprocess.Popen([sys.executable, "-c", FETCH, hub.url + "/m.gguf"])
    assert reached.wait(600)
    while not leftovers(machine):
        pass
    proc.kill()
    proc.wait()
    hub.faults.gate.set()
    assert sources.resolve(hub.url + "/m.gguf").path.read_bytes() == model


def test_an_owner_that_does_nothing_is_named(
    hub: Any, model: bytes, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting ends where the owner shows no progress, with its process number."""
    hub.faults.gate = threading.Event()
    reached = threading.Event()
    hub.faults.on_body = reached.set
    proc = subprocess.Popen([sys.executable, "-c", FETCH, hub.url + "/m.gguf"])
    try:
        assert reached.wait(600)
        monkeypatch.setattr(_lock, "STALLED_S", 0.2)
        with pytest.raises(SourceError, match=f"process {proc.pid} "):
            sources.resolve(hub.url + "/m.gguf")
    finally:
        proc.kill()
        proc.wait()


# --- copies in doubt ------------------------------------------------------------------------------


def test_a_short_download_is_mended_by_the_next_load(hub: Any, model: bytes) -> None:
    """A cut file whose length agreed is fetched anew once it is in doubt and the server has another one."""
    hub.files["/m.gguf"] = model[:200_000]
    short = sources.resolve(hub.url + "/m.gguf")
    assert short.size == 200_000
    assert sources.doubt(short) == "The next load asks the server for it again."
    hub.files["/m.gguf"] = model
    assert sources.resolve(hub.url + "/m.gguf").path.read_bytes() == model
    asked = len(hub.seen)
    assert sources.resolve(hub.url + "/m.gguf").size == SIZE
    assert len(hub.seen) == asked  # no doubt is left


@pytest.mark.parametrize("change", ["no_validators", "same_length"])
def test_a_copy_in_doubt_is_fetched_anew_unless_the_server_vouches(
    hub: Any, model: bytes, gguf: Any, change: str
) -> None:
    """Of another ETag, or of no ETag at all, a copy in doubt of the very same length is fetched again."""
    hub.files["/m.gguf"] = gguf(SIZE, 7)
    hub.faults.no_validators = change == "no_validators"
    sources.doubt(sources.resolve(hub.url + "/m.gguf"))
    hub.files["/m.gguf"] = model
    assert sources.resolve(hub.url + "/m.gguf").path.read_bytes() == model


def test_a_copy_that_the_server_still_has_is_not_fetched_again(hub: Any, model: bytes) -> None:
    """The same ETag and length: one request for the first kilobyte, and the copy stays; offline none."""
    found = sources.resolve(hub.url + "/m.gguf")
    sources.doubt(found)
    sent = sum(seen.sent for seen in hub.seen)
    assert sources.resolve(hub.url + "/m.gguf").path == found.path
    assert sum(seen.sent for seen in hub.seen) - sent <= 1024
    asked = len(hub.seen)
    assert sources.resolve(hub.url + "/m.gguf", offline=True).path == found.path
    assert len(hub.seen) == asked


def test_only_downloads_by_url_are_put_in_doubt(tmp_path: Path, gguf: Any) -> None:
    """A file of the user's own gets no entry and no promise."""
    (tmp_path / "x.gguf").write_bytes(gguf(500))
    assert sources.doubt(sources.resolve("x.gguf", base=tmp_path)) == ""
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["x.gguf"]


def test_a_digest_is_held_against_the_file_not_its_entry(hub: Any, model: bytes) -> None:
    """A copy that was changed on this disk, its length kept, is fetched again under `sha256`."""
    digest = hashlib.sha256(model).hexdigest()
    path = sources.resolve(hub.url + "/m.gguf", sha256=digest).path
    path.write_bytes(model[:-1] + bytes([model[-1] ^ 1]))
    os.utime(path, ns=(1, 1))
    assert sources.resolve(hub.url + "/m.gguf", sha256=digest).path.read_bytes() == model


@pytest.mark.parametrize(
    "target", ["http://[::1", "http://[::1]:x/m.gguf", "http://a:99999999/m", "//[", "\x1b[2J"]
)
def test_a_redirect_to_no_address_is_named(hub: Any, model: bytes, target: str) -> None:
    """A `Location` that no rule of addresses allows is a SourceError without a control character."""
    hub.files["/moved.gguf"] = model
    hub.faults.redirect = target
    with pytest.raises(SourceError) as caught:
        sources.resolve(hub.url + "/moved.gguf")
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("name", ["x" * 5000, "../../out.gguf", "a\0b", "", 5, None, "..", ["m.gguf"]])
def test_an_entry_with_an_odd_name_is_no_entry(hub: Any, model: bytes, name: object) -> None:
    """What a cache entry calls its file is looked at like foreign input: the file is fetched again."""
    path = sources.resolve(hub.url + "/m.gguf").path
    entry = path.with_name("m.gguf.entry.json")
    entry.write_text(json.dumps({"name": name, "size": SIZE}))
    assert [found for found in sources.on_disk() if found.kind == "url"] == []
    assert sources.resolve(hub.url + "/m.gguf").path.read_bytes() == model
    assert len(hub.gets()) == 2


def test_load_mends_a_short_download(hub: Any, scripted_file: Any) -> None:
    """A cut model is refused with what comes next; the second load asks the server and answers."""
    data = scripted_file.path.read_bytes()
    hub.files["/m.gguf"] = data[: len(data) - 5000]
    for asked in (1, 2):  # the first kilobyte again, and the same ETag
        with pytest.raises(InvalidGGUFError, match="The next load asks the server for it again"):
            lm.load(hub.url + "/m.gguf", ctx=512, threads=1)
        assert len(hub.seen) == asked
    hub.files["/m.gguf"] = data
    with lm.load(hub.url + "/m.gguf", ctx=512, threads=1) as model:
        assert model.path.read_bytes() == data


def test_the_file_that_is_not_sound_is_the_one_in_doubt(hub: Any, scripted_file: Any, tmp_path: Path) -> None:
    """A cut draft is fetched anew by the next load; an adapter that is none puts no model in doubt."""
    data = scripted_file.path.read_bytes()
    hub.files |= {"/m.gguf": data, "/d.gguf": data[:-5000]}
    names: dict[str, Any] = {"draft": hub.url + "/d.gguf", "ctx": 512, "threads": 1}
    with pytest.raises(InvalidGGUFError, match="The next load asks the server for it again"):
        lm.load(hub.url + "/m.gguf", **names)
    hub.files["/d.gguf"] = data
    lm.load(hub.url + "/m.gguf", **names).close()
    (tmp_path / "a.gguf").write_bytes(data)
    with pytest.raises(InvalidGGUFError, match="not a LoRA adapter") as caught:
        lm.load(hub.url + "/m.gguf", ctx=512, threads=1, lora=tmp_path / "a.gguf")
    assert "server" not in str(caught.value)


def test_a_short_file_of_a_mirror_without_digests_is_named(hub: Any, fake: Any, scripted_file: Any) -> None:
    """The hub's cache is not ours: the error says which file to remove."""
    data = scripted_file.path.read_bytes()
    hub.repos["a/b"] = fake.Repo({"m.gguf": data[:-5000]}, list_lfs=False, plain_etag=True)
    with pytest.raises(InvalidGGUFError, match=r"Remove .*m\.gguf, and the next load fetches it"):
        lm.load("a/b", ctx=512, threads=1)
    sources.resolve("a/b").path.unlink()
    hub.repos["a/b"].files["m.gguf"] = data
    lm.load("a/b", ctx=512, threads=1).close()
