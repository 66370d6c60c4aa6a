"""What a generation gives back: plain data, no llama.cpp, no IPython."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from llama_magic.errors import OptionError
from llama_magic.model.bounded import bounded
from llama_magic.model.branching import Branching, Origin
from llama_magic.model.drafts import Drafts
from llama_magic.model.logprobs import TokenLogprob
from llama_magic.model.other_names import COUNTS, PARTS, PIECES, CalledElsewhere
from llama_magic.request import once
from llama_magic.request.events import FinishReason
from llama_magic.request.fixed import Fixed
from llama_magic.request.once import holding_once
from llama_magic.words.counting import counted
from llama_magic.words.shown import Shown
from llama_magic.words.signature import refusing

if TYPE_CHECKING:
    from llama_magic.microscope.tracer import Tracer
    from llama_magic.microscope.tracing import SamplerTrace
    from llama_magic.request.sampling import Sampling
    from llama_magic.structured import Constraint

T = TypeVar("T", default=Any)  # what `parsed` is
RECEIPT_MIME = "application/vnd.llama-magic.v1+json"


@dataclass(frozen=True)
class Usage(CalledElsewhere):
    """Token counts. `cached_tokens` of the `prompt_tokens` were reused from the KV cache.

    `forced_tokens` of the `completion_tokens` were not drawn: a constraint left no choice. `drafted_tokens`
    were guessed ahead; `accepted_tokens` of them were what came, and so were decoded together.
    """

    _elsewhere, _called = COUNTS, "usage"

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    forced_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0

    @property
    def drawn_tokens(self) -> int:
        """Generated tokens that were not forced."""
        return self.completion_tokens - self.forced_tokens

    @property
    def guesses(self) -> dict[str, int]:
        """How many tokens were guessed ahead, and how many of them came."""
        return {"drafted_tokens": self.drafted_tokens, "accepted_tokens": self.accepted_tokens}

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class Timings:
    """Seconds, measured from when the model began with this answer; before that it waited `waiting_s`.

    `tokens_per_second` counts the tokens drawn after the first: forced ones are decoded together.
    """

    load_s: float
    prompt_s: float
    first_token_s: float
    total_s: float
    tokens_per_second: float
    waiting_s: float = 0.0


@dataclass(frozen=True)
class BudgetPart:
    """A stretch of the prompt: `kind` is template, system, user, assistant, tool, variable or prompt."""

    label: str
    kind: str
    tokens: int


@dataclass(frozen=True)
class Budget(Shown):
    """How a context window is filled. All counts are tokens; the parts sum to `prompt_tokens`."""

    window: int
    prompt_tokens: int
    max_tokens: int
    parts: tuple[BudgetPart, ...] = ()
    cached_tokens: int = 0
    generated_tokens: int = 0

    @property
    def free(self) -> int:
        """Tokens neither used by the prompt nor reserved for the answer."""
        return max(0, self.window - self.prompt_tokens - self.max_tokens)


@dataclass(frozen=True)
class Chunk(CalledElsewhere):
    """A piece of an answer on its way.

    `delta` is the new text, `text` all of it so far. `thinking` is the new text of a thinking
    part, which `text` leaves out. `partial` is the object so far of a structured answer.
    `finish_reason` is set on the last chunk only; `sample` counts from 0 when n > 1. `tool_calls` are those
    that came to their end with this chunk; `turns` are messages of results that were added after them.
    `forced` of the tokens were not drawn: a constraint left no choice. `guessed` of them were guessed ahead;
    `struck` are the texts of guesses that stood in their place and did not come.
    """

    _elsewhere, _called = PIECES, "chunk"

    delta: str
    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: FinishReason | None = None
    thinking: str = ""
    partial: Any = None
    sample: int = 0
    tool_calls: tuple[dict[str, Any], ...] = ()
    turns: tuple[dict[str, Any], ...] = ()
    forced: int = 0
    guessed: int = 0
    struck: tuple[str, ...] = ()


@holding_once(prompt=once.TEXTS, prompt_token_ids=once.TOKENS, messages=once.MESSAGES)
@dataclass(frozen=True)
@refusing
class Completion(Branching, CalledElsewhere, Shown, Generic[T]):
    """An answer and everything needed to explain or repeat it.

    `text` is the answer without thinking, control tokens and stop strings; `raw_text` is all
    that was decoded. `prompt` is what was really sent, template included. `notes` says in
    plain words what was repaired, dropped or reused. `made_with` names the file (by fingerprint)
    and the engine: build, window, KV type, threads.

    `tool_calls` are what the model asks for: `id`, `name`, `arguments`, and `raw` as it was written. Where
    the call ran tools, `steps` are the turns that it added before this answer: calls and their results.

    `fields` says per field of a structured answer (JSON pointer) how hard the mask held the model there:
    `pressure` (mean probability mass outside the grammar, 0 to 1), `peak`, and `confidence` (product of the
    probabilities of the value's tokens); empty unless the call asked with `pressure=True`.
    `thinking_choice` says in words whether a structured answer might think first.

    The first `begun` of the `token_ids` were given (prefill, a fork): they are the end of the prompt, too,
    and no part of `usage.completion_tokens` or `logprobs`.
    `request` is equal for equal requests to the same file, whoever asks; a drawn seed is no part of it.
    `sample` counts from 0 the samples of a call. `id` names this very answer, `time` is when it was asked
    for (ISO 8601, UTC), and `tag` what the caller wrote on it: these stand beside the receipt, not in it.
    `replayed` says where the answer was read from, where it was not written now.
    """

    _elsewhere = PARTS

    text: str
    prompt: str
    prompt_token_ids: Fixed[int]
    token_ids: Fixed[int]
    finish_reason: FinishReason
    usage: Usage
    timings: Timings
    seed: int
    sampling: Sampling
    model: str
    budget: Budget
    raw_text: str = ""
    thinking: str = ""
    stop: str | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    parsed: T = None  # type: ignore[assignment]  # where nothing was asked for, there is nothing
    messages: Fixed[dict[str, Any]] = field(default_factory=Fixed)
    tool_calls: tuple[dict[str, Any], ...] = ()
    steps: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    seeded: bool = False
    mode: str = "complete"
    fields: dict[str, Any] = field(default_factory=dict)
    thinking_choice: str = ""
    made_with: dict[str, Any] = field(default_factory=dict)
    begun: int = 0
    request: str = ""
    sample: int = 0
    id: str = field(default="", compare=False)
    time: str = ""
    tag: str | None = None
    replayed: str = field(default="", compare=False)
    _tracer: Tracer | None = field(default=None, repr=False, compare=False)
    _origin: Origin | None = field(default=None, repr=False, compare=False)
    _branches: list[Completion[Any]] = field(default_factory=list, repr=False, compare=False)
    _constraint: Constraint | None = field(default=None, repr=False, compare=False)
    _drafts: Drafts | None = field(default=None, repr=False, compare=False)
    _unguessed: str = field(default="", repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def _within(self, name: str) -> str:
        parsed = self.__dict__.get("parsed")  # not there while it is unpickled
        if isinstance(parsed, dict):
            return f"answer.parsed[{name!r}]." if name in parsed else ""
        return f"answer.parsed.{name}." if not name.startswith("_") and hasattr(parsed, name) else ""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what only this process can do: `xray`, `fork`, and the masks."""
        return {**self.__dict__, "_tracer": None, "_origin": None, "_constraint": None}

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= 60 else f"{self.text[:59]}…"
        tokens = counted(self.usage.completion_tokens, "token")
        return f"<Completion {text!r}: {tokens}, {self.finish_reason}>"

    @property
    def stops(self) -> Sequence[str]:
        """The stop texts that were asked for; a template has others, at which an answer ends by itself."""
        given: Sequence[str] = self.made_with.get("asked", {}).get("stop", ())
        return given

    @property
    def question(self) -> str:
        """What was asked last: the message before the answer, or the whole of a prompt that is a text."""
        return str(self.messages[-2].get("content") or "") if len(self.messages) > 1 else self.prompt

    @property
    def drafts(self) -> Drafts:
        """Which tokens were guessed ahead, accepted and struck, in the text; or why none could be (`reason`).

        An answer from a record has its counts (`usage`), and no places: nothing is marked in it.
        """
        return self._drafts or Drafts(((self.raw_text, "drawn"),), reason=self._unguessed)

    def xray(self, step: int, *, timeout: float | None = None) -> SamplerTrace:
        """Return how token `step` of `token_ids` (from 0; -1 is the last) was drawn.

        Where the answer ended at a token of its own, that draw is the step after the last
        token. The logits of the latest steps of a model are kept (64 MB); older steps are read
        again, and the trace says so. Raises `OptionError` for a step that is none, and for an
        answer that was not made in this process; `OutOfTimeError` after `timeout` seconds.
        """
        if self._tracer is None:
            raise OptionError("This answer was not generated in this process, so no step of it is known.")
        with bounded(timeout):
            return self._tracer(step)

    @property
    def receipt(self) -> dict[str, Any]:
        """The facts of this answer as JSON, without anything that differs from run to run.

        With the same seed two receipts are equal: times are left out on purpose, they
        are in `timings` and `time`. `file` and `engine` say what an equal answer needs elsewhere,
        `asked` every option that was not the default.
        """
        return {
            "version": 1,
            "mode": self.mode,
            "model": self.model,
            **self.made_with,
            "request": self.request,
            **({"begun": self.begun} if self.begun else {}),
            "seed": self.seed,
            "seeded": self.seeded,
            **({"sample": self.sample} if self.sample else {}),
            "sampling": self.sampling.to_dict(),
            "finish_reason": self.finish_reason,
            "stop": self.stop,
            "usage": {
                "prompt_tokens": self.usage.prompt_tokens,
                "completion_tokens": self.usage.completion_tokens,
                # What was reused explains why an unseeded answer may differ; a seeded one never does.
                **({} if self.seeded else {"cached_tokens": self.usage.cached_tokens}),
                **({"forced_tokens": self.usage.forced_tokens} if self.usage.forced_tokens else {}),
                **({} if self.seeded or not self.usage.drafted_tokens else self.usage.guesses),
            },
            "budget": {
                "window": self.budget.window,
                "max_tokens": self.budget.max_tokens,
                "parts": [dict(vars(part)) for part in self.budget.parts],
            },
            "prompt": self.prompt,
            "text": self.text,
            "thinking": self.thinking,
            **({"thinking_choice": self.thinking_choice} if self.thinking_choice else {}),
            "token_ids": list(self.token_ids),
            "messages": list(self.messages),
            "notes": list(self.notes),
        }
