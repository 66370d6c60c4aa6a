"""How far a download is, how fast, and how long it will still take."""

from __future__ import annotations

import time

from llama_magic.words.progress import Progress, ProgressCallback

_REPORT_EVERY_S = 0.1


class TransferMeter:
    """Turn byte counts into `Progress` reports, at most ten a second, and the first and last always."""

    def __init__(
        self, callback: ProgressCallback | None, label: str, *, before: int = 0, whole: int | None = None
    ) -> None:
        self._callback, self._label, self._before, self._whole = callback, label, before, whole
        self._resumed = 0
        self._marks: list[tuple[float, int]] = []
        self._last_report = 0.0

    def start(self, offset: int) -> None:
        """Begin, or begin again, with `offset` bytes already here."""
        self._resumed = offset
        self._marks = [(time.monotonic(), offset)]
        self._last_report = 0.0

    def report(self, done: int, total: int | None, *, last: bool = False) -> None:
        """Say that `done` bytes of this file are here."""
        if self._callback is None:
            return
        now = time.monotonic()
        if not last and now - self._last_report < _REPORT_EVERY_S:
            return
        self._last_report = now
        self._marks.append((now, done))
        while len(self._marks) > 2 and now - self._marks[1][0] > 5.0:  # speed of the last five seconds
            self._marks.pop(0)
        then, had = self._marks[0]
        elapsed = now - then
        speed = (done - had) / elapsed if elapsed > 0 and done > had else None
        whole = self._whole if self._whole is not None else total
        total_done = self._before + done
        eta = max(0.0, (whole - total_done) / speed) if whole is not None and speed else None
        self._callback(
            Progress(
                "download",
                total_done,
                whole,
                self._label,
                resumed_from=self._before + self._resumed,
                speed=speed,
                eta_s=eta,
            )
        )
