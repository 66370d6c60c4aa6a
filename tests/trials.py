"""Trials of files in a child process, of which the tests make as few as they can."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from scripted_gguf import BUILT

from llama_magic.engine import crash_check


def once() -> Callable[[crash_check.Trial, int], crash_check.TrialVerdict]:
    """Return what runs a child for each file once, and then knows what came of it.

    Files built alike stand for each other, once for each choice of options. A trial costs 0.4 s of CPU, of a
    real model 2 s. What fails is tried each time, and so is what a test has changed the child of.
    """
    child, command = crash_check.run_child, crash_check.command
    survived: dict[Any, crash_check.TrialVerdict] = {}

    def run(trial: crash_check.Trial, size: int) -> crash_check.TrialVerdict:
        forms = [_form(path) for path in trial.paths]
        # What came of a trial names the weights' layout, and the load goes by it: it is of the key.
        real = (trial.use_extra_bufts, *map(_digest, () if all(forms) else trial.paths))
        key = (replace(trial, paths=()), *forms) if all(forms) else real
        if crash_check.command is not command or key not in survived:
            verdict = child(trial, size)
            if not verdict.survived or crash_check.command is not command:
                return verdict
            survived[key] = verdict
        return survived[key]

    return run


def _form(path: str) -> str:
    """Return of what form a file is that this process built, and nobody has changed since."""
    built, form = BUILT.get(path, (None, ""))
    return form if built == os.stat(path).st_mtime_ns else ""


def _digest(path: str) -> str:
    known = os.stat(path)
    return _digest_of(path, known.st_ino, known.st_size, known.st_mtime_ns)


@functools.cache  # asked for at each load with a cache of its own: 90 MB each time
def _digest_of(path: str, *_as_it_is: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
