"""Counts of a server as Prometheus reads them, under the names that llama-server gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from llama_magic.model.stats import ModelStats

if TYPE_CHECKING:
    from llama_magic.model.model import Model

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # seconds


@dataclass
class Histogram:
    """Seconds, in the buckets of `_BOUNDS`."""

    buckets: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))
    count: int = 0
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total += seconds
        for place, bound in enumerate(_BOUNDS):
            self.buckets[place] += seconds <= bound

    def lines(self, name: str, help_: str) -> Iterable[str]:
        yield from _head(name, "histogram", help_)
        for bound, count in zip(_BOUNDS, self.buckets, strict=True):
            yield f'{name}_bucket{{le="{bound:g}"}} {count}'
        yield f'{name}_bucket{{le="+Inf"}} {self.count}'
        yield f"{name}_sum {self.total:.6f}"
        yield f"{name}_count {self.count}"


class UnderWay(Protocol):
    """What is done for a client. `cancel` may be called from any thread."""

    @property
    def begun(self) -> bool: ...

    def cancel(self) -> None: ...


@dataclass
class Metrics:
    """What one server counts by itself; tokens and their times are those of the models' `stats`."""

    answered: Counter[tuple[str, int]] = field(default_factory=Counter)  # by path and status
    seconds: Histogram = field(default_factory=Histogram)
    first_token: Histogram = field(default_factory=Histogram)
    waited: Histogram = field(default_factory=Histogram)

    def text(self, models: Mapping[str, Model], answers: Iterable[UnderWay]) -> str:
        """Return the page."""
        lines: list[str] = []
        for name, kind, help_, value in _OF_MODELS:
            lines += _head(f"llamacpp:{name}", kind, help_)
            for model in models.values():
                lines.append(f'llamacpp:{name}{{model="{_escaped(model.name)}"}} {value(model.stats):.10g}')
        open_ = list(answers)
        running = sum(answer.begun for answer in open_)
        for name, help_, count in (
            ("requests_processing", "Requests that are being answered.", running),
            ("requests_deferred", "Requests that wait.", len(open_) - running),
        ):
            lines += [*_head(f"llamacpp:{name}", "gauge", help_), f"llamacpp:{name} {count}"]
        lines += _head("http_requests_total", "counter", "Requests that were answered, by path and status.")
        lines += [
            f'http_requests_total{{path="{_escaped(path)}",status="{status}"}} {count}'
            for (path, status), count in sorted(self.answered.items())
        ]
        lines += self.seconds.lines(
            "http_request_duration_seconds", "From a request to the end of its answer."
        )
        lines += self.first_token.lines("time_to_first_token_seconds", "From a request to its first token.")
        lines += self.waited.lines("time_in_queue_seconds", "From a request to its beginning.")
        return "\n".join([*lines, ""])


_Value = Callable[[ModelStats], float]
_OF_MODELS: tuple[tuple[str, str, str, _Value], ...] = (
    ("prompt_tokens_total", "counter", "Prompt tokens that were read, reused ones left out.",
     lambda s: s.prompt_tokens - s.cached_tokens),
    ("prompt_seconds_total", "counter", "Seconds of reading prompts.", lambda s: s.reading_s),
    ("tokens_predicted_total", "counter", "Tokens that were written.", lambda s: s.completion_tokens),
    ("tokens_predicted_seconds_total", "counter", "Seconds of writing, each answer's own.",
     lambda s: s.writing_s),
    ("prompt_tokens_seconds", "gauge", "Average prompt tokens a second.",
     lambda s: s.read_per_second or 0.0),
    ("predicted_tokens_seconds", "gauge", "Average tokens a second of one answer.",
     lambda s: s.tokens_per_second or 0.0),
    ("prompt_tokens_cached_total", "counter", "Prompt tokens that were reused.", lambda s: s.cached_tokens),
    ("requests_total", "counter", "Requests that have ended.", lambda s: s.requests),
    ("requests_failed_total", "counter", "Requests that failed.", lambda s: s.errors),
)  # fmt: skip


def _head(name: str, kind: str, help_: str) -> list[str]:
    return [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
