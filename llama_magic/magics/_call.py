"""One run of a cell: its options as keywords, its texts filled in, and where results go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llama_magic.errors import OptionError
from llama_magic.experiments.ballot import vote
from llama_magic.magics._interpolate import interpolate_line
from llama_magic.magics._kernel import Kernel
from llama_magic.magics._lookup import find_bias, find_grammar, find_tools
from llama_magic.magics._options import SAMPLING
from llama_magic.magics._parse import CellCommand
from llama_magic.model.interpolate import interpolate
from llama_magic.words import shown
from llama_magic.words.shown import Shown

_SAMPLING_KEYS = frozenset(option.key for option in SAMPLING)
# What the cell itself does; every other option is a keyword of the call on the model.
_OF_THE_CELL = {"grammar", "live", "model", "new", "out", "format", "quiet", "raw", "schema"}
_OF_THE_CELL |= {"session", "system", "tools", "models", "score", "over", *_SAMPLING_KEYS}


class Samples(Shown, list[Any]):
    """The answers of one call with `-N`, in order: a list of `Completion`."""

    @property
    def vote(self) -> Any:
        """What structured answers say together, field by field: `llama_magic.vote` of them."""
        return vote(self)

    def __getattr__(self, name: str) -> Any:
        said = f"{type(self).__name__!r} object has no attribute {name!r}"
        each = not name.startswith("_") and any(hasattr(one, name) for one in self)
        raise AttributeError(f"{said}. Here: a list of answers, [0].{name} of the first." if each else said)

    def live(self) -> Any:
        """Return the pen over all of them: see `Completion.live`."""
        return shown.live(self)


@dataclass
class CellRun:
    """One run of a cell: the command, the body, and where results go."""

    kernel: Kernel
    command: CellCommand
    body: str
    model: Any = field(init=False, default=None)

    @property
    def options(self) -> Mapping[str, Any]:
        return self.command.options

    def fill(self, text: str, what: str = "the body") -> str:
        """Return the text with `{{ }}` filled; it knows where the values stand. `what` errors call it."""
        return text if self.options.get("raw") else interpolate(text, self.kernel.namespace, what)

    def system(self) -> str | None:
        """Return the text of `--system`, filled like a body and like every option."""
        return self._on_the_line("system") if "system" in self.options else None

    def _on_the_line(self, name: str) -> str:
        raw = bool(self.options.get("raw"))
        return interpolate_line(self.options[name], self.kernel.namespace, raw=raw, flag=f"--{name}")

    def sampling(self) -> dict[str, Any]:
        """Return the sampling parameters to pass on: option over `%llama sampler` over %config."""
        given = {key: value for key, value in self.options.items() if key in _SAMPLING_KEYS}
        if "logit_bias" in given and self.model is not None:
            given["logit_bias"] = find_bias(given["logit_bias"], self.model)
        return self.kernel.sampling_defaults() | given

    def keywords(self) -> dict[str, Any]:
        """Return every keyword of the generation call but the prompt and its kind."""
        given = {key: value for key, value in self.options.items() if key not in _OF_THE_CELL}
        if "grammar" in self.options:
            given["grammar"] = find_grammar(self.options["grammar"], self.kernel.namespace)
        if "prefill" in self.options:
            given["prefill"] = str(self._on_the_line("prefill"))
        if "tools" in self.options:
            given["tools"] = find_tools(self.options["tools"], self.kernel.namespace)
            if self.quiet and not given.get("tools_auto"):
                raise OptionError(
                    "-q shows nothing, so it could not be said which tool is called with what.",
                    remedy="Add --tools-auto to run tools unseen, or leave -q out.",
                )
        return self.kernel.call_defaults() | self.sampling() | given

    @property
    def quiet(self) -> bool:
        return bool(self.options.get("quiet", self.kernel.settings.quiet))

    def bind(self, result: Any) -> None:
        """Bind the result to the variable of `-o`, if there is one."""
        if name := self.options.get("out"):
            self.kernel.bind(name, result)
