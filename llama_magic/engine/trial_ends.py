"""What the end of a trial in a child process says: of the file, or of the machine it ran on.

A child that was killed from outside, ran out of memory, time or disk, or ended in a way nobody
foresaw says nothing about the file. Only what llama.cpp does to itself (a crash's own signal)
and what it refuses in words is a verdict on the file, and only where neither speaks of memory or disk.
"""

from __future__ import annotations

import re
import signal

NO_ANSWER = "no answer"
KILLED = "killed by "
# A process brings these on itself; any other came from outside: an out-of-memory killer, a limit, a person.
_CRASHES = ("SIGSEGV", "SIGABRT", "SIGFPE", "SIGILL", "SIGBUS", "SIGSYS", "SIGTRAP")
_SHORTAGE = re.compile(
    r"bad_alloc|out of memory|MemoryError|insufficient memory|allocat\w* .*(?:fail|buffer)"
    r"|fail\w* to (?:m?alloc|mmap)|cannot allocate|no space left|disk quota|too many open files"
    r"|input/output error|read error|mmap failed"
    r"|resource temporarily unavailable|failed to open|timed out",
    re.IGNORECASE,
)


def cause_of(code: int, said: str) -> str:
    """Say how a child ended: `killed by SIGSEGV`, or its exit code; `said` is the tail of its standard error.

    Words about a lack of memory or disk are kept, for they tell whose fault it was.
    """
    if code >= 0:
        last = (said.strip().splitlines() or [""])[-1]
        return f"exit code {code}" + (f": {last[:200]}" if last else "")
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    shortage = next((line for line in said.splitlines() if _SHORTAGE.search(line)), "")
    return f"{KILLED}{name}" + (f": {shortage.strip()[:200]}" if shortage else "")


def is_no_trial(code: int, said: str) -> bool:
    """Return whether a child that said nothing ended in words, and not for want of memory or disk."""
    return code >= 0 and not _SHORTAGE.search(said)


def crashed(cause: str) -> bool:
    """Return whether the child died rather than refused the file in words."""
    return cause.startswith((KILLED, "exit code", NO_ANSWER))


def is_of_the_file(cause: str) -> bool:
    """Return whether a trial that ended so says something about the file, and not about the machine."""
    if _SHORTAGE.search(cause):
        return False
    if not crashed(cause):
        return True
    return cause.removeprefix(KILLED).partition(":")[0] in _CRASHES
