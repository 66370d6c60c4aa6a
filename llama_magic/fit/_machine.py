"""What this machine has: cores and memory, limits of a container respected."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from llama_magic.words import amounts
from llama_magic.words.counting import counted

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")  # who has some, on Linux
_HEAPS, _AT_LEAST = 128 << 20, 640 << 20


@dataclass(frozen=True)
class Gpu:
    """A graphics device that llama.cpp sees. Bytes."""

    name: str
    total: int
    free: int


@dataclass(frozen=True)
class Machine:
    """Cores and memory that this process may use. Bytes; `ram_available` counts reclaimable page cache.

    `load_average` counts the threads that ran or waited to run in the last minute, on all `all_cores` of
    the machine, a container's neighbours included; None on Windows. `address_space` is what `ulimit -v`
    allows, None without such a limit. `huge_pages`: a process that asks for them has some (Linux).
    """

    physical_cores: int
    logical_cores: int
    ram_total: int
    ram_available: int
    gpus: tuple[Gpu, ...] = ()
    load_average: float | None = None
    all_cores: int = 1
    address_space: int | None = None
    huge_pages: bool = False

    @property
    def busy(self) -> bool:
        """Whether there is work for every core already."""
        return self.load_average is not None and self.load_average >= self.all_cores

    @property
    def vram_free(self) -> int:
        return sum(gpu.free for gpu in self.gpus)

    def __str__(self) -> str:
        cores = f"{counted(self.physical_cores, 'core')} ({counted(self.logical_cores, 'thread')})"
        return ", ".join(
            [
                cores,
                f"{amounts.size(self.ram_available)} of {amounts.size(self.ram_total)} RAM free",
                *(f"{g.name} ({amounts.size(g.free)} of {amounts.size(g.total)} free)" for g in self.gpus),
            ]
        )


def machine(gpus: Iterable[Gpu] = ()) -> Machine:
    """Look at this machine now (under 1 ms on Linux). `gpus` come from the engine, which asks llama.cpp."""
    allowed = _affinity()
    physical = _physical_cores(allowed)
    quota = _cpu_quota()
    logical = max(1, min(len(allowed), quota or len(allowed)))
    total, available = _memory()
    limit, used = _memory_limit()
    if limit is not None and limit < total:
        total, available = limit, min(available, max(0, limit - used))
    addresses, mapped = _address_space()
    if addresses is not None:  # pages of a file that is mapped count, too
        room = max(0, addresses - mapped)
        total, available = min(total, room), min(available, room)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return Machine(
        max(1, min(physical, logical)),
        logical,
        total,
        available,
        tuple(gpus),
        load,
        os.cpu_count() or logical,
        addresses,
        _huge_pages(),
    )


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _huge_pages() -> bool:
    setting = _read(HUGE_PAGES)
    return "[always]" in setting or "[madvise]" in setting


def _affinity() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _physical_cores(allowed: set[int]) -> int:
    """Count cores, not their hyper-threads: llama.cpp's matrix kernels gain nothing from the latter."""
    if sys.platform == "darwin":
        return _sysctl("hw.perflevel0.physicalcpu") or _sysctl("hw.physicalcpu") or len(allowed)
    base = Path("/sys/devices/system/cpu")
    siblings = {_read(base / f"cpu{cpu}/topology/thread_siblings_list").strip() for cpu in allowed}
    siblings.discard("")
    if siblings:
        return len(siblings)
    return len(allowed)


def _sysctl(name: str) -> int:
    try:
        out = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=True)
        return int(out.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


def _memory() -> tuple[int, int]:
    """Return total and available bytes."""
    table = dict(line.split(":", 1) for line in _read("/proc/meminfo").splitlines() if ":" in line)
    if "MemTotal" in table:
        total = int(table["MemTotal"].split()[0]) * 1024
        free = table.get("MemAvailable") or table.get("MemFree", table["MemTotal"])
        return total, int(free.split()[0]) * 1024
    if sys.platform == "win32":
        return _windows_memory()
    total = _sysctl("hw.memsize")
    if total:  # macOS says how much is free in percent
        percent = _sysctl("kern.memorystatus_level") or 50
        return total, total * percent // 100
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return total, total // 2


def _windows_memory() -> tuple[int, int]:
    import ctypes

    class Status(ctypes.Structure):
        _fields_ = (
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            *((name, ctypes.c_ulonglong) for name in ("total", "free", "a", "b", "c", "d", "e")),
        )

    status = Status(length=ctypes.sizeof(Status))
    getattr(ctypes, "windll").kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # noqa: B009 - Windows alone has it
    return int(status.total), int(status.free)


def _cgroups(controller: str) -> list[Path]:
    """Return the folders of this process's cgroup and its parents, for cgroup v2 or one v1 controller."""
    found: list[Path] = []
    for line in _read("/proc/self/cgroup").splitlines():
        number, names, path = [*line.split(":", 2), "", ""][:3]
        if number == "0":
            root = Path("/sys/fs/cgroup")
        elif controller in names.split(","):
            root = Path("/sys/fs/cgroup") / controller
        else:
            continue
        here = root / path.lstrip("/")
        found += [here, *(p for p in here.parents if root in (p, *p.parents))]
        found.append(root)  # in a container the path may be the host's
    return list(dict.fromkeys(found))


def _cpu_quota() -> int | None:
    """Return how many cores' worth of time the container may use, rounded up."""
    quotas = []
    for folder in _cgroups("cpu"):
        quota, _, period = _read(folder / "cpu.max").strip().partition(" ")
        if not period:
            quota = _read(folder / "cpu.cfs_quota_us").strip()
            period = _read(folder / "cpu.cfs_period_us").strip()
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            quotas.append(-(-int(quota) // int(period)))
    return min(quotas, default=None)


def _address_space() -> tuple[int | None, int]:
    """Return what `ulimit -v` lets this process map, as batch systems do, and what is to be taken as mapped.

    llama.cpp ends the process where an allocation fails, so this is on the safe side: libraries and the heaps
    and stacks of threads map 430 MB beside a first model (measured), and more with further threads.
    """
    try:
        import resource
    except ImportError:  # Windows
        return None, 0
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _read("/proc/self/statm").split()
    if limit == resource.RLIM_INFINITY or not pages:
        return None, 0
    return limit, max(int(pages[0]) * resource.getpagesize() + _HEAPS, _AT_LEAST)


def _memory_limit() -> tuple[int | None, int]:
    """Return the container's memory limit and what counts against it (page cache left out), in bytes."""
    best: tuple[int | None, int] = (None, 0)
    for folder in _cgroups("memory"):
        limit = (_read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")).strip()
        if not limit.isdigit() or int(limit) >= 1 << 60:
            continue
        used = (_read(folder / "memory.current") or _read(folder / "memory.usage_in_bytes")).strip()
        stat = dict(line.split(" ", 1) for line in _read(folder / "memory.stat").splitlines() if " " in line)
        cache = int(stat.get("inactive_file", "0")) + int(stat.get("active_file", "0"))
        taken = max(0, (int(used) if used.isdigit() else 0) - cache)
        if best[0] is None or int(limit) < best[0]:
            best = (int(limit), taken)
    return best
