"""Reading a remote header by byte ranges."""

from __future__ import annotations

import random
from typing import Any

import pytest

from llama_magic import sources
from llama_magic.errors import SourceError


@pytest.mark.parametrize("header", [100_000, 1_700_000, 3_000_000, 5_800_000])
def test_a_header_read_front_to_back_is_cheap(header: int, hub: Any, gguf: Any) -> None:
    """In reads of 8 to 4,000 bytes: at most 6 requests, at most 1 MB more than the header."""
    data = gguf(7_000_000)
    hub.files["/m.gguf"] = data
    rng = random.Random(header)
    with sources.open_parts(hub.url + "/m.gguf")[0] as reader:
        at = 0
        while at < header:
            n = min(rng.choice([8, 8, 12, 200, 4000]), header - at)
            assert reader.read_at(at, n) == data[at : at + n]
            at += n
        assert reader.size == len(data)
        assert reader.requests <= 6
        assert reader.bytes_read - header <= 1_000_000
        asked = [seen.headers["range"].removeprefix("bytes=").split("-") for seen in hub.seen]
        assert sum(int(last) - int(first) + 1 for first, last in asked) == reader.bytes_read
        assert all(seen.status == 206 for seen in hub.seen)


def test_any_place_reads_as_in_the_file(hub: Any, gguf: Any) -> None:
    """Jumps, overlaps, reads over the end and empty reads give what the file holds, nothing twice."""
    data = gguf(900_000)
    hub.files["/m.gguf"] = data
    rng = random.Random(1)
    reader = sources.RangeReader(hub.url + "/m.gguf", block=20_000)
    for _ in range(300):
        at, n = rng.randrange(0, 900_100), rng.choice([0, 1, 24, 5000, 70_000])
        assert reader.read_at(at, n) == data[at : at + n]
    assert reader.bytes_read <= len(data)


def test_a_server_without_ranges_is_named(hub: Any, gguf: Any) -> None:
    """A 200 is refused before its body is read."""
    hub.files["/m.gguf"] = gguf(3_000_000)
    hub.faults.ignore_range = True
    with pytest.raises(SourceError, match="no byte ranges"):
        sources.open_parts(hub.url + "/m.gguf")[0]


def test_a_file_that_changes_under_the_reader_is_named(hub: Any, gguf: Any) -> None:
    """Two versions are never read as one."""
    hub.files["/m.gguf"] = gguf(100_000)
    reader = sources.RangeReader(hub.url + "/m.gguf", block=10_000)
    hub.files["/m.gguf"] = gguf(100_000, seed=2)
    with pytest.raises(SourceError, match="changed"):
        reader.read_at(50_000, 10)


def test_breaks_are_mended(hub: Any, gguf: Any) -> None:
    """A dropped connection and a 503 cost a request each, not the reading."""
    data = gguf(100_000)
    hub.files["/m.gguf"] = data
    hub.faults.drop_after = [500]
    hub.faults.status = [503]
    reader = sources.RangeReader(hub.url + "/m.gguf")
    assert reader.read_at(90_000, 100) == data[90_000:90_100]
    assert reader.requests == 3


def test_a_file_shorter_than_a_block_is_read(hub: Any, gguf: Any) -> None:
    """Small files end inside the first block."""
    hub.files["/m.gguf"] = gguf(24)
    reader = sources.open_parts(hub.url + "/m.gguf")[0]
    assert (reader.size, reader.read_at(0, 100), reader.requests) == (24, gguf(24), 1)


def test_a_hub_file_is_read_through_its_redirect(
    hub: Any, gguf: Any, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token goes to the hub and not to the CDN; the redirect is asked for once, or when it ran out."""
    data = gguf(4_000_000)
    hub.repos["o/r"] = fake.Repo({"m-Q4_0.gguf": data}, private=True)
    monkeypatch.setenv("HF_TOKEN", "hf_goodtoken")
    reader = sources.open_parts("o/r:Q4_0")[0]
    assert reader.read_at(2_500_000, 64) == data[2_500_000:2_500_064]
    at_hub = [seen.method for seen in hub.seen if "/resolve/" in seen.path]
    assert at_hub == ["HEAD", "GET"]
    hub.faults.status = [403]
    assert reader.read_at(3_900_000, 64) == data[3_900_000:3_900_064]
    assert reader.requests == 4
    assert "hf_goodtoken" not in repr(reader)
    for seen in hub.seen:
        if seen.path.startswith("/cdn/"):
            assert "authorization" not in seen.headers


def test_a_local_source_is_not_remote(tmp_path: Any, gguf: Any) -> None:
    """`open_parts` names what it is not for."""
    (tmp_path / "x.gguf").write_bytes(gguf())
    with pytest.raises(SourceError, match="not on a server"):
        sources.open_parts(str(tmp_path / "x.gguf"))[0]
