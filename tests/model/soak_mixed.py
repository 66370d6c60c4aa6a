"""Everything at once: threads ask one model for all it can, and each answer is that of a quiet model.

    PYTHONPATH=tests python tests/model/soak_mixed.py [SECONDS [SEED [MODEL …]]]

Each model gets so many seconds. Says the seed that gives the same calls once more (their order in time is the
machine's). The main thread asks, too, and is interrupted now and then. A call that takes minutes ends the run
with the stacks of all threads.
"""

from __future__ import annotations

import _thread
import contextlib
import faulthandler
import json
import os
import random
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import mixed_calls
import random_models
from conftest import real_path
from short_model import SHORT, shorten

import llama_magic as lm

# Of each kind of cache, and of rows that are alike or not; "windowed" is a Gemma 3 of repacked weights.
MODELS = ("smollm2", "short", "windowed", "lfm2", "jamba", "falcon-h1", "qwen3next", "mamba2", "rwkv7",
          "llama4", "deepseek2", "gpt-oss", "granitehybrid")  # fmt: skip
OTHER = "qwen3"  # loaded and closed meanwhile
THREADS = 6
PATIENCE = 240.0  # seconds that a call may take beside all others
_DRAWS = 5  # of each kind whose value is held: what each of them asks for
_MOST = 8  # differences that are shown


class Crowd:
    """The threads that ask, what each is at, and what went wrong."""

    def __init__(self, place: mixed_calls.Place, seed: str) -> None:
        self.place, self.seed = place, seed
        self.known: dict[tuple[int, int], Any] = {}
        self.counts: Counter[str] = Counter()
        self.at: dict[int, tuple[str, float]] = {}
        self.wrong: list[str] = []
        self.over = threading.Event()

    def learn(self) -> None:
        """Ask for each value that is held while nothing else runs, and nothing is reused."""
        for kind in range(len(mixed_calls.HELD)):
            for which in range(_DRAWS):
                self.place.model.kv_clear()
                self.known[kind, which] = self._value(kind, which)

    def run(self, seconds: float) -> None:
        """Let all threads ask for so long, and this one, which is interrupted meanwhile."""
        until = time.monotonic() + seconds
        asked = [partial(self._ask, number, until) for number in range(THREADS)]
        threads = [
            threading.Thread(target=run, daemon=True) for run in (*asked, partial(self._strike, until))
        ]
        for thread in (*threads, threading.Thread(target=self._watch, daemon=True)):
            thread.start()
        while any(thread.is_alive() for thread in threads):  # until the last interrupt has come
            with contextlib.suppress(KeyboardInterrupt):
                self._ask(THREADS, until)
                self.at.pop(THREADS, None)
                threads[-1].join(1)
        self.over.set()

    def _strike(self, until: float) -> None:
        draw = random.Random(f"{self.seed} strikes")
        while time.monotonic() < until:
            time.sleep(draw.random())
            if THREADS in self.at:
                _thread.interrupt_main()

    def _watch(self) -> None:
        """End the process where a call hangs."""
        while not self.over.wait(1):
            for name, since in list(self.at.values()):
                if time.monotonic() - since > PATIENCE:
                    print(f"HANGS: {name}, for {PATIENCE:.0f} s, seed {self.seed}", flush=True)
                    faulthandler.dump_traceback()
                    os._exit(3)

    def _ask(self, number: int, until: float) -> None:
        draw = random.Random(f"{self.seed} {number}")
        keys = list(self.known)
        while time.monotonic() < until and len(self.wrong) < _MOST:
            if draw.random() < 0.6:
                kind, which = draw.choice(keys)
                self._one(number, mixed_calls.HELD[kind].__name__, (kind, which), draw)
            else:
                call = draw.choice(mixed_calls.LOOSE)
                self._one(number, call.__name__, call, draw)
        self.at.pop(number, None)

    def _one(self, number: int, name: str, what: Any, draw: random.Random) -> None:
        self.at[number] = name, time.monotonic()
        self.counts[name] += 1  # one may be lost between threads: it is for people
        try:
            if not isinstance(what, tuple):
                what(self.place, draw)
            elif (value := self._value(*what)) != self.known[what]:
                self.wrong.append(
                    f"{name} {what}:\n    {value!s:.600}\nquiet:\n    {self.known[what]!s:.600}"
                )
        except KeyboardInterrupt:
            self.counts["interrupted"] += 1
        except BaseException:
            self.wrong.append(f"{name} {what}:\n{traceback.format_exc()}")

    def _value(self, kind: int, which: int) -> Any:
        try:
            return mixed_calls.HELD[kind](self.place, random.Random(which))
        except lm.ContextOverflowError:  # how exactly it has counted depends on what was counted before
            return "over the window"


def main(seconds: float = 45, seed: str = "", *names: str) -> int:
    """Return 1 where an answer was not that of a quiet model, or a call failed."""
    seed = seed or str(random.SystemRandom().randrange(10**6))
    print(f"Again: PYTHONPATH=tests python tests/model/soak_mixed.py {seconds:.0f} {seed} {' '.join(names)}")
    wrong = 0
    faulthandler.enable()
    for name in names or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            wrong += _of_one(name, Path(folder), seconds, seed)
    return int(wrong > 0)


def _of_one(name: str, folder: Path, seconds: float, seed: str) -> int:
    path, other = (build(which, folder) for which in (name, OTHER))
    adapter = random_models.write_adapter(folder / "a.gguf", path) if random_models.adapted(path) else None
    with (
        lm.load(path, ctx=1024, threads=1) as model,
        lm.serve(model, port=0) as server,
        lm.connect(server.url, name="far") as remote,
    ):
        place = mixed_calls.Place(model, remote, server.port, path, other, adapter, folder)
        crowd = Crowd(place, f"{seed} {name}")
        crowd.learn()
        began = time.monotonic()
        crowd.run(seconds)
        took = time.monotonic() - began
    print(f"{name}: {crowd.counts.total()} calls of {len(crowd.counts)} kinds in {took:.0f} s, "
          f"{len(crowd.wrong)} wrong", *crowd.wrong, sep="\n", flush=True)  # fmt: skip
    return len(crowd.wrong)


def build(name: str, folder: Path) -> Path:
    """Return the file of a model; all but the real ones are written into `folder`."""
    path = folder / f"{name}.gguf"
    if name == "short":
        return shorten(real_path("smollm2"), path, SHORT)
    if name == "windowed":
        shapes = json.loads(random_models.SHAPES.read_text("utf-8"))["gemma3"]["tensors"]
        random_models.write(path, "gemma3", shapes, packed=True)
        return path
    if name in random_models.ARCHITECTURES:
        return random_models.build(folder, [name])[name]
    return real_path(name)


if __name__ == "__main__":
    seconds, *rest = sys.argv[1:] or ["45"]
    sys.exit(main(float(seconds), *rest))
