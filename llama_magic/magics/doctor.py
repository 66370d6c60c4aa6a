"""`%llama doctor`: what is installed, what the machine offers, what is wrong, and what to do about it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from llama_magic import engine, environment, fit, sources
from llama_magic.display import view
from llama_magic.display.static.doc import Code, Fold, Grid, Head, Line, Node
from llama_magic.engine import build, crash_check
from llama_magic.engine.crash_check import TrialVerdict
from llama_magic.errors import LlamaMagicError, OptionError
from llama_magic.fit import Machine
from llama_magic.magics._kernel import Kernel
from llama_magic.words import amounts
from llama_magic.words.counting import counted
from llama_magic.words.shown import Shown
from llama_magic.words.tables import Table

_PACKAGES = (
    "llama-magic", "llama-cpp-python", "ipython", "ipykernel", "ipywidgets", "anywidget", "jupyterlab",
    "huggingface-hub", "llguidance", "pydantic", "numpy", "jinja2",
)  # fmt: skip
_OPTIONAL = {"ipykernel", "jupyterlab"}
_LOW_DISK = 2 * 10**9  # bytes: less than this and the next model does not fit


@dataclass(frozen=True)
class Check:
    """One line of the report. `advice` is one sentence where something is wrong, else empty.

    `command` is a line of a shell that the advice ends on, to be copied whole.
    """

    name: str
    value: str
    advice: str = ""
    command: str = ""

    @property
    def ok(self) -> bool:
        return not self.advice


@dataclass(frozen=True)
class DoctorReport(Shown):
    """What `%llama doctor` found; `problems` are the checks that came with advice."""

    checks: tuple[Check, ...]

    @property
    def problems(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.ok)

    def __str__(self) -> str:
        lines = [f"{check.name}: {check.value}" for check in self.checks]
        lines += [f"! {check.name}: {check.advice} {check.command}".rstrip() for check in self.problems]
        return "\n".join(lines)


@view.register(DoctorReport)
def doctor(report: DoctorReport) -> list[Node]:
    """Show what is wrong and what to do about it, then what is well, folded."""
    well = tuple((check.name, check.value) for check in report.checks if check.ok)
    number, verb = counted(len(well), "check"), "is" if len(well) == 1 else "are"
    wrong = report.problems
    out: list[Node] = [Head("doctor", f"{counted(len(wrong), 'problem')}, {number} {verb} well")]
    for i, check in enumerate(wrong):
        out.append(Head(check.name, f"{check.value}. {check.advice}", sentence=True))
        later = any(other.command == check.command for other in wrong[i + 1 :])
        if check.command and not later:  # one that mends several stands behind the last of them
            names = [other.name for other in wrong if other.command == check.command]
            out += [Line(f"{' and '.join(names)}, for a shell:")] * (len(names) > 1)
            out.append(Code(check.command))
    return [*out, Fold(f"the {number} that {verb} well", (Grid(Table(("check", "found"), well)),))]


def examine(kernel: Kernel, machine: Machine | None = None) -> DoctorReport:
    """Look at everything; a part that cannot be examined is itself a line with advice.

    `machine` is what this machine has, looked up where it is not given.
    """
    parts: tuple[tuple[str, Callable[[], Iterable[Check]]], ...] = (
        ("Python", _python),
        ("packages", _packages),
        ("engine", _engine),
        ("machine", lambda: _machine(kernel, machine)),
        ("crash check", _crash_check),
        ("caches", _caches),
        ("environment", _environment),
        ("kernel", lambda: _kernel(kernel)),
    )
    checks: list[Check] = []
    for name, look in parts:
        try:
            checks.extend(look())
        except (LlamaMagicError, OSError, ImportError) as error:
            # A doctor that fails on the illness it should name is of no use.
            checks.append(Check(name, f"not examined: {type(error).__name__}", f"{error}"))
    return DoctorReport(tuple(checks))


def command(arguments: Sequence[str]) -> int:
    """Run `llama-magic doctor`; the exit status is 1 where something is wrong."""
    if arguments:
        raise OptionError(f"llama-magic doctor takes nothing, and got {arguments[0]!r}.")
    report = examine(Kernel(None, None))
    print(report)
    return 1 if report.problems else 0


def _python() -> Iterable[Check]:
    old = sys.version_info < (3, 11)
    version = f"{platform.python_version()} on {platform.platform(terse=True)}, {platform.machine()}"
    yield Check("Python", version, "Install Python 3.11 or newer." if old else "")
    yield Check("processor", _cpu_name())


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux: platform knows
    return platform.processor() or platform.machine()


def _packages() -> Iterable[Check]:
    for name in _PACKAGES:
        try:
            yield Check(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            advice = "" if name in _OPTIONAL else f"Install it: pip install {name}."
            yield Check(name, "not installed", advice)


def _engine() -> Iterable[Check]:
    report: Mapping[str, Any] = engine.system_report()
    for key, value in report.items():
        yield Check(
            f"llama.cpp {key.replace('_', ' ')}" if key != "llama_cpp" else "llama.cpp", _words(value)
        )
    name, idle_threads_slow = engine.pools()
    advice = ""
    if idle_threads_slow:
        # Measured on 2 cores: 208 tokens a second alone, 124 beside the idle threads of a loop.
        advice = (
            "This version keeps the threads of every loop that has run, and while there are more threads "
            "than cores, none may spin: after one OpenMP loop in this kernel a model writes at 0.6 of its "
            "speed. Install libgomp of GCC 9 or newer."
        )
    yield Check("OpenMP", f"{name}; the models of a kernel compute in turn, on one thread", advice)
    yield instructions(report)


def instructions(report: Mapping[str, Any]) -> Check:
    """Say what the build leaves unused of this processor, and the line that mends it."""
    flags = build.processor_flags()
    if not flags:
        return Check("instruction sets", "what this processor has is not known on this system")
    idle = build.unused(report["features"], flags)
    value = f"of {_words(build.offered(flags))} the build leaves unused: {_words(idle)}"
    if not idle or report["gpu"]:  # a line for the processor alone would take the GPU away
        return Check("instruction sets", value)
    advice = "Build llama.cpp for this processor:"
    advice = f"{build.AVX512_GAIN} {advice}" if "AVX512" in idle else advice
    return Check("instruction sets", value, advice, build.rebuild(flags))


def _machine(kernel: Kernel, machine: Machine | None) -> Iterable[Check]:
    machine = machine or fit.machine()
    yield Check("machine", str(machine))
    if fit.HUGE_PAGES.exists():
        yield Check(
            "huge pages",
            "for who asks" if machine.huge_pages else "for nobody",
            "" if machine.huge_pages else "Let who asks have some: models write a fifth faster from them.",
            "" if machine.huge_pages else f"echo madvise | sudo tee {fit.HUGE_PAGES}",
        )
    if machine.load_average is None:
        return
    cores = counted(machine.all_cores, "core")
    models = kernel.session.models.items()
    names = {name: int(model.options["threads"]) for name, model in models if "threads" in model.options}
    most = max(names.values(), default=machine.physical_cores)
    advice = ""
    if machine.busy and most > 1:
        # Tokens a second on 2 cores (bench_pools): 112 alone, 44 beside one busy program, 21 beside two;
        # each of two kernels 45, with one thread 75 (10 where threads spin: `engine.native.spinning`).
        with_threads = ", ".join(f"{name} has {count} threads" for name, count in names.items() if count > 1)
        advice = (
            "Other work, such as a second kernel with a model, keeps the cores busy. llama.cpp's threads "
            "wait for each other at every step, so one that gets no core holds up all: two on busy cores "
            "can be half as fast as one. "
            f"{with_threads or f'A load takes {most} threads'}; load with --threads {max(1, most // 2)}, or "
            "end the other work."
        )
    yield Check("load average", f"{machine.load_average:.1f} on {cores}", advice)


def _crash_check() -> Iterable[Check]:
    """Sum up what the trial runs in child processes found; see `engine.crash_check`."""
    verdicts = crash_check.verdicts(sources.cache_dir() / "crash_checks.json")
    sound = sum(verdict.survived and not verdict.fell_back for verdict in verdicts)
    fell_back = sum(verdict.fell_back for verdict in verdicts)
    died = [verdict for verdict in verdicts if not verdict.survived]
    words = f"{counted(len(verdicts), 'file')} tried: {sound} sound, {fell_back} with a fall-back, "
    words += f"{len(died)} refused"
    advice = command = ""
    if fell_back:
        advice = "This build of llama.cpp crashes with repacked weights on this CPU; they are switched off."
        advice, command = f"{advice} To mend it, build it anew:", build.rebuild(build.processor_flags())
    yield Check("crash check", words if verdicts else "no file tried yet", advice, command)
    for verdict in died:
        yield _refused(verdict)


def _refused(verdict: TrialVerdict) -> Check:
    file = verdict.files.partition("\n")[0]
    said = f"{file} on {verdict.day}: {verdict.cause} at the stage {verdict.stage}"
    if not verdict.unchanged:
        there = os.path.exists(file)
        return Check(
            "refused file", f"{said}; {'changed since, tried anew when loaded' if there else 'gone'}"
        )
    again = "Download it again, or delete it; a file that has changed is tried anew."
    return Check("refused file", said, again)


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_words(item)}" for key, item in value.items()) or "none"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(_words(item) for item in value) or "none"
    return (
        {True: "yes", False: "no", None: "unknown"}[value] if isinstance(value, bool | None) else str(value)
    )


def _caches() -> Iterable[Check]:
    for name, folder in (("download cache", sources.cache_dir()), ("hub cache", sources.hub_cache())):
        there = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(there).free
        advice = ""
        if not os.access(there, os.W_OK):
            advice = f"{there} cannot be written; set LLAMA_MAGIC_CACHE or HF_HOME to a folder that can."
        elif free < _LOW_DISK:
            advice = "The disk is nearly full; delete models that you no longer use."
        yield Check(name, f"{folder}, {amounts.size(free)} free", advice)
    demo = any(found.kind == "demo" for found in sources.on_disk())
    advice = "" if demo else 'Without a source %llama load needs it: pip install "llama-magic[demo]".'
    yield Check("demo model", "installed" if demo else "not installed", advice)


def _environment() -> Iterable[Check]:
    """List the variables of ours that are set, and near misses."""
    found = list(environment.listed())
    if not found:
        yield Check("environment", "no variable LLAMA_MAGIC_… is set")
    for variable, value, advice in found:
        yield Check(variable, value, advice)


def _kernel(kernel: Kernel) -> Iterable[Check]:
    session = kernel.session
    names = [f"{name} (current)" if name == session.current_name else name for name in session.models]
    yield Check("loaded models", ", ".join(names) or "none")
    yield Check("generations", str(len(session.history)))
