"""Prove in a child process that this build of llama.cpp survives a model file.

A native crash cannot be caught: it takes the kernel with it. So before a file is loaded here
for the first time, a child loads it, reads its whole vocabulary and decodes two batches. The
verdict is remembered by file header, build, CPU and options; a bad one only where two children in
a row end alike and in a way that the machine cannot be blamed for (`trial_ends`). Where the child
dies with repacked weights but lives without them (GCC 12 on a CPU with AMX:
ggml-org/llama.cpp#20824), the load goes on without them, and says so.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import functools
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from llama_magic.engine import trial_ends
from llama_magic.errors import BackendError
from llama_magic.sources.disk.cache import write_json

# A child that takes longer than this hangs: seconds to start and to decode (one took 73, where each core had
# 15 threads to run), bytes a second to read the file.
_PATIENCE = 180
_SLOWEST_DISK = 20e6
_NO_PROGRAM = (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR)
_TAIL = 8192  # bytes of the child's errors that are read


@dataclass(frozen=True)
class Trial:
    """What the child is to load, and how."""

    paths: tuple[str, ...]
    gpu_layers: int
    mmap: bool
    use_extra_bufts: bool
    type_k: str
    type_v: str
    flash_attn: str
    positions: int = 0  # that the model knows; 0: any


@dataclass(frozen=True)
class TrialVerdict:
    """`survived` says the file can be used; `stage` is how far the child came, `cause` how it died.

    `files` are the parts that were tried, one a line, `day` when (ISO), `stamp` their sizes and times then,
    `header` the digest of what was known to be sound before they were tried.
    `times` is how many children in a row ended so, `repacking` whether repacked weights were asked for.
    """

    survived: bool
    use_extra_bufts: bool
    stage: str = "decode"
    cause: str = ""
    files: str = field(default="", compare=False)
    day: str = field(default="", compare=False)
    stamp: str = field(default="", compare=False)
    times: int = field(default=1, compare=False)
    repacking: bool = field(default=True, compare=False)
    header: str = field(default="", compare=False)

    @property
    def of_the_file(self) -> bool:
        """Whether this end says something about the file; else the machine may be to blame."""
        return self.survived or trial_ends.is_of_the_file(self.cause)

    @property
    def unchanged(self) -> bool:
        """Whether the file lies there as it was tried; a refused one that has changed is tried again."""
        return self.stamp == stamp(self.files.split("\n"))

    @property
    def fell_back(self) -> bool:
        """Whether the file works only without repacked weights."""
        return self.survived and self.repacking and not self.use_extra_bufts


def check(
    trial: Trial, *, size: int, fingerprint: str, store: Path, run: Runner | None = None
) -> TrialVerdict:
    """Return the verdict on a file, from `store` or from a child process.

    `size` is the file's bytes, `fingerprint` its header's digest. Costs one load of the file
    the first time (the operating system then has it in its page cache), nothing later. A refused
    file that has changed since is tried again: downloaded anew, it may have the very same header.
    """
    key = _key(trial, fingerprint)
    known = _read(store).get(key)
    lies = stamp(trial.paths)
    if known is not None and (known.survived or (known.of_the_file and known.stamp == lies)):
        return known
    verdict = _tried(trial, size, run or run_child)
    if verdict.of_the_file and (verdict.survived or verdict.times > 1):
        day = datetime.date.today().isoformat()
        repacking = trial.use_extra_bufts
        files = "\n".join(trial.paths)
        verdict = replace(verdict, repacking=repacking, files=files, day=day, stamp=lies, header=fingerprint)
        _remember(store, key, verdict)
        return replace(verdict, day="")
    return verdict


def has_survived(paths: Sequence[str], *, fingerprint: str, store: Path) -> bool:
    """Say whether just these files, with this header, have survived before: whatever the options were."""
    lies, files = stamp(paths), "\n".join(paths)
    return any(
        known.survived and known.header == fingerprint and known.stamp == lies and known.files == files
        for known in verdicts(store)
    )


def _tried(trial: Trial, size: int, run: Runner) -> TrialVerdict:
    """Run children until two agree: one that fails is asked again, then without repacked weights."""
    verdict = _twice(trial, size, run)
    if verdict.survived or not trial.use_extra_bufts or verdict.stage != "decode" or not verdict.of_the_file:
        return verdict
    plain = _twice(replace(trial, use_extra_bufts=False), size, run)
    return plain if plain.survived else verdict


def _twice(trial: Trial, size: int, run: Runner) -> TrialVerdict:
    first = run(trial, size)
    if not first.of_the_file or first.survived:
        return first
    second = run(trial, size)
    return replace(second, times=2) if second == first else second


Runner = Callable[[Trial, int], TrialVerdict]


def run_child(trial: Trial, size: int) -> TrialVerdict:
    """Run one trial in a child process and say how it ended."""
    timeout = _PATIENCE + size / _SLOWEST_DISK
    try:
        code, out, said = _ended(json.dumps(asdict(trial)).encode(), timeout)
    except OSError as error:  # no memory for a process, no disk for its words, or no such program
        if error.errno in _NO_PROGRAM:
            raise _no_python(error.strerror or str(error)) from None
        raise BackendError(
            f"The file could not be tried in a process of its own: {error.strerror or error}.",
            remedy="Free some memory and disk space (the folder for temporary files), then load again.",
        ) from None
    lines = [line for line in out.splitlines() if line]
    stage = next((line[6:] for line in reversed(lines) if line.startswith("stage ")), "start")
    if code is None:
        return TrialVerdict(
            False, trial.use_extra_bufts, stage, f"{trial_ends.NO_ANSWER} after {timeout:.0f} s"
        )
    if not lines and trial_ends.is_no_trial(code, said):
        raise _no_python(trial_ends.cause_of(code, said))
    if "survived" in lines:
        return TrialVerdict(True, trial.use_extra_bufts)
    refusal = next((line[8:] for line in lines if line.startswith("refused ")), "")
    return TrialVerdict(False, trial.use_extra_bufts, stage, refusal or trial_ends.cause_of(code, said))


def _no_python(why: str) -> BackendError:
    """Return the error where what should run the child is no Python that has this package."""
    return BackendError(
        f"The file could not be tried in a process of its own: {command()[0]!r} ran no Python with "
        f"llama_magic ({why}).",
        remedy="Set sys.executable to the Python of this environment (programs that embed Python name "
        "themselves there), and see that it starts and imports llama_magic.",
    )


def _ended(request: bytes, timeout: float) -> tuple[int | None, str, str]:
    """Return a child's exit code (None: it hung and was ended), its output and the end of its errors."""
    # Files, not pipes: a pipe would lose how far a child came that hangs.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command(),
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=said,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        hung = False
        try:
            process.communicate(request, timeout=timeout)
        except subprocess.TimeoutExpired:
            hung = True
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        out.seek(0)
        said.seek(max(0, said.seek(0, os.SEEK_END) - _TAIL))
        words = [file.read().decode("utf-8", "replace") for file in (out, said)]
    return None if hung else process.returncode, words[0], words[1]


def command() -> list[str]:
    """Return the command line of the child."""
    return [sys.executable, "-m", "llama_magic.engine.trial_child"]


# --- the memory of verdicts ---------------------------------------------------------------------


def _key(trial: Trial, fingerprint: str) -> str:
    facts = {**asdict(trial), "paths": None, "file": fingerprint, "build": loaded_build(), "cpu": cpu()}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def stamp(paths: Iterable[str]) -> str:
    """Return sizes and times of files, a dash for one that is not there."""
    stamps = []
    for path in paths:
        try:
            facts = os.stat(path)
        except OSError:
            stamps.append("-")
        else:
            stamps.append(f"{facts.st_size}:{facts.st_mtime_ns}")
    return " ".join(stamps)


def build_id() -> str:
    """Name the build of llama.cpp without loading it: size and date of its libraries and of the bindings."""
    import importlib.util

    spec = importlib.util.find_spec("llama_cpp")
    places = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
    files = [place / "llama_cpp.py" for place in places]  # structures and signatures
    chosen = os.environ.get("LLAMA_CPP_LIB_PATH")  # llama_cpp loads from there instead
    for folder in [Path(chosen)] if chosen else [place / "lib" for place in places]:
        files += sorted(path for path in folder.glob("*") if path.is_file())
    return hashlib.sha256(stamp(map(str, files)).encode()).hexdigest()[:12]


@functools.cache
def loaded_build() -> str:
    """Name the build that this process runs: what lies there later may be another."""
    return build_id()


@functools.cache
def cpu() -> str:
    """Name the CPU and its features, which decide what code llama.cpp runs."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = [line for line in text.splitlines() if line.startswith(("model name", "flags", "Features"))]
    return hashlib.sha256("\n".join(wanted[:2]).encode()).hexdigest()[:16]


def verdicts(store: Path) -> list[TrialVerdict]:
    """Return every remembered verdict, oldest first."""
    return list(_read(store).values())


def _read(store: Path) -> dict[str, TrialVerdict]:
    try:
        data = json.loads(store.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    entries = data.items() if isinstance(data, dict) else ()
    shape = {f.name: f.type for f in fields(TrialVerdict)}
    # Another version may have written other fields: such a verdict is asked for again.
    return {
        key: TrialVerdict(**entry)
        for key, entry in entries
        if isinstance(entry, dict) and {n: type(v).__name__ for n, v in entry.items()} == shape
    }


def _remember(store: Path, key: str, verdict: TrialVerdict) -> None:
    known = {k: asdict(v) for k, v in {**_read(store), key: verdict}.items()}
    # A full or read-only disk costs the child again at the next load, nothing more. Another process may
    # write at the same time: the last one wins, whole.
    with contextlib.suppress(OSError):
        store.parent.mkdir(parents=True, exist_ok=True)
        write_json(store, known)
