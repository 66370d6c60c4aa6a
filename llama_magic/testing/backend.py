"""The scripted Backend: one thread a request, which writes what the script says and does what it asks for."""

from __future__ import annotations

import _thread
import math
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from llama_magic.errors import BackendError, ModelClosedError
from llama_magic.request.backend import Capabilities, Sink
from llama_magic.request.events import (
    EndEvent,
    FinishEvent,
    FinishReason,
    PromptEvent,
    TokenEvent,
    nobody,
)
from llama_magic.request.matcher import Matcher
from llama_magic.request.request import Request, piece_of
from llama_magic.request.text import TextStream
from llama_magic.testing.script import Answer, Answers, Odds, Script, checked, script_of
from llama_magic.testing.tokenizer import WordTokenizer

_SHARE = math.log(0.9)  # what every written token was worth, as a log-probability
_SHOWN = 80  # characters of what was asked, in a warning
_LOST_S = 15.0  # a Ctrl-C that nobody felt in this time was lost


class ScriptedBackend:
    """A `Backend` that answers by a script: known tokens, errors and delays on demand.

    `answers` maps a text to its answer (the last message's content, else a text that the prompt ends
    with), or lists answers in the order in which they are asked for, or is a function of the request.
    What no script is there for is answered "answer 1", "answer 2", …, with a warning where there are
    scripts for other things. `requests` holds what was asked.
    `odds` says the probability of a text after a prompt, as a function of request and text; left out,
    each token is worth 0.9.
    """

    local = None

    def __init__(
        self,
        answers: Answers = (),
        *,
        tokenizer: WordTokenizer | None = None,
        capabilities: Capabilities | None = None,
        odds: Odds | None = None,
    ) -> None:
        self.odds = odds
        self.answers = checked(answers)
        self._scripted = bool(self.answers)
        self.tokenizer = tokenizer or WordTokenizer()
        self.capabilities = capabilities or Capabilities()
        self.requests: list[Request] = []
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def submit(self, request: Request, sink: Sink) -> None:
        if self._closed:
            raise ModelClosedError("The model was unloaded; load it again to use it.")
        self.requests.append(request)
        run = request.handle = _Run(self, request, sink, self._script(request))
        threading.Thread(target=run, name="llama_magic script", daemon=True).start()
        run.submitted = True

    def score(self, request: Request, texts: Sequence[Sequence[int]]) -> _Scoring:
        if self._closed:
            raise ModelClosedError("The model was unloaded; load it again to use it.")
        self.requests.append(request)
        return _Scoring(lambda: [self._worth(request, tokens) for tokens in texts])

    def _worth(self, request: Request, tokens: Sequence[int]) -> list[float]:
        if self.odds is None:
            return [_SHARE] * len(tokens)
        share = self.odds(request, self.tokenizer.decode(tokens))
        return [math.log(share) if share > 0 else -math.inf, *[0.0] * (len(tokens) - 1)]

    def cancel(self, request: Request) -> None:
        if request.handle is not None:
            request.handle.cancelled = True

    def settle(self, request: Request) -> None:
        """Do nothing: each request has a thread of its own, which sees that it is cancelled."""

    def close(self) -> None:
        self._closed = True

    def _script(self, request: Request) -> Script:
        found: Answer | None = None
        if callable(self.answers):
            found = self.answers(request)
        elif isinstance(self.answers, Mapping):
            found = self.answers.get(_asked(request))
            if found is None:
                ends = [text for text in self.answers if request.text.endswith(text)]
                found = self.answers[max(ends, key=len)] if ends else None
        elif self.answers:
            found = self.answers.pop(0)
        if found is None:
            found = f"answer {len(self.requests)}"
            if self._scripted:
                self._warn(request, found)
        return script_of(found)

    def _warn(self, request: Request, given: str) -> None:
        known = (
            f"It has some for {', '.join(map(repr, self.answers))}." if self.answers else "All were given."
        )
        words = f"The script has no answer for {_asked(request)[:_SHOWN]!r}, so {given!r} is given."
        warnings.warn(f"{words} {known}", stacklevel=2)


def _asked(request: Request) -> str:
    """Return the last message's content, or the prompt where there are no messages."""
    return str(request.messages[-1].get("content")) if request.messages else request.text


@dataclass
class _Scoring:
    """Texts whose odds are asked of the script where they are waited for."""

    work: Callable[[], list[list[float]]]
    seconds: float = 0.0
    done: bool = True

    def wait(self) -> list[list[float]]:
        return self.work()

    def cancel(self) -> None:
        """Do nothing: nothing goes on."""


@dataclass
class _Sample:
    """What is still to be written of one sample."""

    index: int
    tokens: list[int]
    text: TextStream
    matcher: Matcher | None
    written: int = 0
    done: bool = False


@dataclass
class _Run:
    """One request on its way, in a thread of its own."""

    backend: ScriptedBackend
    request: Request
    sink: Sink
    script: Script
    cancelled: bool = False
    submitted: bool = False
    _fired: bool = field(default=False, init=False)

    def __call__(self) -> None:
        error: BaseException | None = None
        try:
            self._write()
        except BaseException as caught:
            error = caught
        # The request is kept with its answer; who listened, what ended it, and its frames, are not.
        sink, self.sink, self.script = self.sink, nobody, Script()
        sink(EndEvent(error))

    def _write(self) -> None:
        request = self.request
        total = len(request.prompt)
        self.sink(PromptEvent(0, total, 0))
        if self.script.reading is not None:
            self.sink(PromptEvent(total // 2, total, 0))
            self._wait(self.script.reading)
        samples = [self._sample(index) for index in range(request.n)]
        self.sink(PromptEvent(total, total, 0))
        while any(not sample.done for sample in samples):
            for sample in samples:
                if not sample.done:
                    self._advance(sample)

    def _sample(self, index: int) -> _Sample:
        tokenizer, constraint = self.backend.tokenizer, self.request.constraint
        text = self.script.of(index)
        if constraint is None or constraint.kind == "ends":
            tokens = tokenizer.encode(text)
        else:
            held = tokenizer.encode_held if constraint.kind == "tools" else tokenizer.tokenize
            tokens = held(text)
        matcher = None if constraint is None else constraint.start()
        stream, _ = TextStream.begun(self.request.stops, map(self._piece, self.request.begun))
        return _Sample(index, tokens, stream, matcher)

    def _piece(self, token: int) -> bytes:
        return piece_of(self.backend.tokenizer, self.request, token)

    def _advance(self, sample: _Sample) -> None:
        """Write one token of a sample, or end it."""
        limit = len(sample.tokens) if self.script.at is None else min(self.script.at, len(sample.tokens))
        if sample.written >= limit and not self._fired:
            self._fired = True
            self._go_wrong()
        if self.script.delay:
            time.sleep(self.script.delay)
        if self._stopped():
            self._finish(sample, "interrupted")
            return
        if sample.matcher is not None and sample.matcher.finished:
            self._finish(sample, "stop")
            return
        if sample.written >= len(sample.tokens):
            self._finish(sample, "stop")
            return
        self._take(sample, sample.tokens[sample.written])

    def _take(self, sample: _Sample, token: int) -> None:
        request, tokenizer = self.request, self.backend.tokenizer
        if token in request.stop_texts or (token in tokenizer.eog_ids and not request.ignore_eos):
            self._finish(sample, "stop", request.stop_texts.get(token))
            return
        if sample.matcher is not None:
            self._check(sample, sample.matcher, token)
        text = sample.text.decode(self._piece(token))
        logprob = None if request.logprobs is None else _SHARE
        top = ((token, _SHARE),) if request.logprobs else ()
        sample.written += 1
        self.sink(TokenEvent(sample.index, token, text, logprob=logprob, top=top))
        if sample.text.stop is not None or (sample.matcher is not None and sample.matcher.finished):
            self._finish(sample, "stop")
        elif sample.written >= request.max_tokens:
            self._finish(sample, "length")

    def _check(self, sample: _Sample, matcher: Matcher, token: int) -> None:
        bits = matcher.allowed_bits()
        if bits is not None and not bits[token // 8] >> (token % 8) & 1:
            written = self.backend.tokenizer.decode(sample.tokens[: sample.written])
            raise BackendError(
                f"The script goes on with {chr(token)!r} after {written!r}, which the constraint forbids.",
                remedy="Script an answer that fits the schema, as json.dumps writes it.",
            )
        matcher.accept(token)

    def _go_wrong(self) -> None:
        """Do what the script says for this place: wait, press Ctrl-C, fail."""
        if self.script.hold is not None:
            self._wait(self.script.hold)
        if self.script.interrupt:
            while not self.submitted:  # the caller is to wait for the answer when Ctrl-C comes
                time.sleep(0.001)
            time.sleep(0.02)
            self._press_ctrl_c()
        if self.script.error is not None:
            raise self.script.error

    def _press_ctrl_c(self) -> None:
        """Press until it is felt: Python loses one that strikes where the collector calls."""
        while not self._stopped():
            _thread.interrupt_main()
            pressed = time.monotonic()
            while not self._stopped() and time.monotonic() - pressed < _LOST_S:
                time.sleep(0.001)

    def _wait(self, gate: threading.Event) -> None:
        while not gate.wait(0.01) and not self._stopped():
            pass

    def _stopped(self) -> bool:
        if self.backend.closed:
            raise ModelClosedError("The model was closed meanwhile.")
        return self.cancelled

    def _finish(self, sample: _Sample, reason: FinishReason, stop: str | None = None) -> None:
        sample.done = True
        rest = sample.text.flush()
        if sample.text.stop is not None and reason == "length":
            reason = "stop"
        self.sink(FinishEvent(sample.index, reason, rest, stop or sample.text.stop))
