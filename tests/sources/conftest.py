"""Fixtures: the fake hub, and a machine with nothing cached and nobody logged in."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from llama_magic.sources import meanings as _meanings
from llama_magic.sources.http import transfer as _transfer


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def fake() -> ModuleType:
    """The module of the fake hub."""
    return _load("fake_hub")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Point every cache at an empty folder, drop tokens, proxies and waiting times; return the folder."""
    for name in (
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        "HF_HUB_CACHE",
        "HUGGINGFACE_HUB_CACHE",
        "HF_ENDPOINT",
        *("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"),
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LLAMA_MAGIC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "hf" / "token"))
    monkeypatch.setattr(_transfer, "BACKOFF_S", 0.0)
    monkeypatch.setattr(_transfer, "MAX_WAIT_S", 0.0)
    monkeypatch.setattr(_meanings, "ALIASES", {})
    return tmp_path


@pytest.fixture
def hub(fake: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A running fake hub, named by HF_ENDPOINT."""
    server = fake.FakeHub()
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    yield server
    server.close()


@pytest.fixture
def gguf(fake: ModuleType) -> Any:
    """Make bytes that begin as a GGUF: `gguf(size, seed)`."""
    return fake.gguf_bytes
