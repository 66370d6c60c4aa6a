"""A bound on a whole short question: one byte now and then is never a silence, and may go on without end."""

from __future__ import annotations

import contextlib
import socket
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import Any


class Patience:
    """The connections of a client, which are cut where an answer is not whole in time.

    Of a connection that is used again it is not known whose turn it is, so all of them are: they are to one
    server, which answers nobody properly then.
    """

    def __init__(self) -> None:
        self._opened: list[weakref.ref[Any]] = []

    def note(self, _event: str, told: Mapping[str, Any]) -> None:
        """Keep what is opened; httpx calls this at each stage of a request (its `trace`)."""
        made = told.get("return_value")
        if hasattr(made, "get_extra_info"):
            self._opened = [known for known in self._opened if known() is not None] + [weakref.ref(made)]

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[list[bool]]:
        """Cut the connections after so many seconds, unless what is done meanwhile has ended.

        Yields a list that is not empty from then on.
        """
        late: list[bool] = []
        timer = threading.Timer(seconds, self._cut, (late,))
        timer.daemon = True
        with contextlib.suppress(RuntimeError):  # no thread is left: asked without a bound
            timer.start()
        try:
            yield late
        finally:
            timer.cancel()

    def _cut(self, late: list[bool]) -> None:
        late.append(True)
        for known in list(self._opened):
            if (stream := known()) is not None:
                with contextlib.suppress(OSError):  # it is closed already
                    stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
