"""Whatever is given as a source, a path, a revision or a digest: the error is one of the tree, in UTF-8."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import llama_magic as lm
from llama_magic import gguf, sources

ODD: list[Any] = [
    *(
        "a\0b.gguf",
        "\udcff.gguf",
        "x" * 5000,
        "x" * 300 + ".gguf",
        "~nobody_here/x.gguf",
        "$",
        "${",
        "~",
        "/",
        "./",
    ),
    *(
        "http://[::1",
        "http://[::1]:99999/x",
        "http://a:b/x.gguf",
        "http://127.0.0.1:9/\udcff.gguf",
        "http:///x",
    ),
    *("http://127.0.0.1:9/" + "y" * 3000 + ".gguf", "http://127.0.0.1:9/a-00001-of-99999.gguf", "file:///x"),
    *("http://u:p%ff@127.0.0.1:9/x", "hf:a/b:\udcff", "hf:\udcff/b", "hf:a/b@\0", "a/b:\x1b", "hf:-a/b--c"),
    *(
        "hf:" + "o" * 200 + "/" + "r" * 200,
        "a-00000-of-00000.gguf",
        "/dev/zero",
        "/proc/self/mem",
        "",
        "\ud800",
    ),
    *(b"x", 5, 1.5, [], {}, Path("a\0b"), Path("\udcff"), Path("x" * 5000), Path("/dev/zero")),
]

ENTRIES: dict[str, Callable[[Any], object]] = {
    "resolve": sources.resolve,
    "resolve, offline": lambda odd: sources.resolve(odd, offline=True),
    "locate": sources.locate,
    "open_parts": sources.open_parts,
    "hub_models": lambda odd: sources.hub_models(odd, offline=True),
    "parse": sources.parse,
    "gguf.inspect": gguf.inspect,
    "load": lm.load,
    "a revision": lambda odd: sources.resolve("hf:a/b", revision=odd, offline=True),
    "a digest": lambda odd: sources.resolve("hf:a/b", sha256=odd),
    "an alias": lambda odd: sources.add_alias(odd, "x"),
    "an alias's source": lambda odd: sources.add_alias("q", odd),
    "a record": lm.open_record,
    "verify": lambda odd: lm.verify(odd) if odd != [] else None,  # of no answers it asks for the demo model
    "a path": lambda odd: sources.read_whole(sources.user_path(odd), "The file"),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_no_public_entry_raises_anything_foreign(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names no file has, addresses no rule allows, devices, wrong types: an answer, or one of our errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for odd in ODD:
        said = ""
        try:
            ENTRIES[name](odd)
        except lm.LlamaMagicError as error:
            said = str(error)
        assert said.encode("utf-8") is not None, repr(odd)  # encodes, or raises
    assert [path.name for path in tmp_path.rglob("*.gguf*") if not path.name.endswith(".lock")] == []
