"""The calls that write nothing: `embed`, `score`, `read` and `xray`, and their twins for `await`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llama_magic.errors import GenerationInterrupted, InputTypeError, shown_briefly
from llama_magic.model import bias, scoring
from llama_magic.model.bounded import beside_the_loop, bounded, out_of_time
from llama_magic.model.call import Calls
from llama_magic.model.results import Completion
from llama_magic.model.stream import Stream
from llama_magic.request.backend import Backend, Embeds, Reads
from llama_magic.request.messages import is_conversation
from llama_magic.request.sampling import Sampling
from llama_magic.request.vectors import Vectors, as_texts, portions
from llama_magic.threads import keep
from llama_magic.words.given import check_progress
from llama_magic.words.shown import watched
from llama_magic.words.signature import refusing
from llama_magic.words.standing import Standing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from llama_magic.engine.engine import Engine
    from llama_magic.gguf import GGUFInfo
    from llama_magic.microscope.reading import ReadThrough
    from llama_magic.microscope.tracing import SamplerTrace
    from llama_magic.request.tokenizer import Tokenizer

Progress = bool | Callable[[Standing], Any]


@refusing
class Measuring:
    """What `Model` can be asked to measure of texts."""

    name: str
    backend: Backend
    sampling: Sampling
    _calls: Calls
    _tokenizer: Tokenizer

    @property
    def window(self) -> int:
        raise NotImplementedError

    @property
    def info(self) -> GGUFInfo:
        raise NotImplementedError

    def _open(self) -> None:
        """Raise `ModelClosedError` where the model is closed."""
        raise NotImplementedError

    def _local(self, what: str) -> Engine:
        """Return the engine in this process; `what` names what is asked of it."""
        raise NotImplementedError

    # --- embed ------------------------------------------------------------------------------

    @shown_briefly("The embedding")
    def embed(
        self,
        texts: str | Iterable[str | Sequence[int]],
        *,
        normalize: bool = True,
        timeout: float | None = None,
        progress: Progress = True,
    ) -> NDArray[np.float32]:
        """Return one vector a text: (len(texts), n_embd) float32, of length 1 unless `normalize` is off.

        A text may be given as its tokens. Each must fit the window; nothing is cut. Uses a context of its
        own. After `timeout` seconds `OutOfTimeError` is raised, and on Ctrl-C `GenerationInterrupted`: the
        `completion` of both holds the vectors of the first texts, as many as there are. `progress` may be
        False, or a function that is told a `Standing`.
        """
        self._open()
        check_progress(progress)
        with bounded(timeout):
            local = not isinstance(self.backend, Embeds)
            wanted = as_texts(texts, tokens=local)
            made = Vectors(len(wanted), self._width() if local else 0)
            keep(lambda: GenerationInterrupted(made.matrix(normalize), made.words))
            try:
                with watched(made, progress) as tick:
                    self._embed(wanted, made, tick)
            except KeyboardInterrupt:
                raise GenerationInterrupted(made.matrix(normalize), made.words) from None
            return made.matrix(normalize)

    def aembed(
        self,
        texts: str | Iterable[str | Sequence[int]],
        *,
        normalize: bool = True,
        timeout: float | None = None,
        progress: Progress = True,
    ) -> Coroutine[Any, Any, NDArray[np.float32]]:
        """Like `embed`, for `await`."""
        how: dict[str, Any] = {"normalize": normalize, "timeout": timeout, "progress": progress}
        return _for_await("embed", lambda: self.embed(texts, **how))

    def _width(self) -> int:
        self._local("an embedding")
        return self.info.embedding_length or 0

    def _embed(self, wanted: Sequence[Any], made: Vectors, tick: Callable[[], None]) -> None:
        """Put the vectors of texts into `made`, one after another; `tick` is called now and then."""

        def put(rows: Iterable[Any]) -> None:
            made.put(rows)
            tick()

        if isinstance(self.backend, Embeds):
            for some in portions(wanted):
                put(self.backend.embed(some))
            return
        engine = self._local("an embedding")
        from llama_magic.engine.embedding import embed  # for weight: llama.cpp

        embed(engine, self.info, self.window, wanted, put)

    # --- score ------------------------------------------------------------------------------

    @shown_briefly("Scoring")
    def score(
        self,
        prompt: str | Sequence[Any],
        texts: Iterable[str],
        *,
        end: bool = False,
        timeout: float | None = None,
    ) -> list[float]:
        """Return the natural-log probability of each text as what comes after the prompt; nothing is drawn.

        `prompt` is a text as it stands, or messages: then a text is the beginning of the answer. All tokens
        of a text count, as the tokenizer cuts it by itself; with `end` the token that ends the answer does
        too, so that "1" and "10" exclude each other. Costs one read of the prompt, less what it shares with
        that of the last call, and one of each text that is longer than a token. A text's number depends on
        prompt and text alone. Raises `ContextOverflowError`, and `OutOfTimeError` after `timeout` seconds.
        """
        self._open()
        with bounded(timeout):
            wanted = scoring.Texts.of(self._calls, texts, end=end)
            request = scoring.prepare(self._calls, prompt, wanted).request
            return scoring.score(self._calls, [(request, wanted)])[0]

    def ascore(
        self,
        prompt: str | Sequence[Any],
        texts: Iterable[str],
        *,
        end: bool = False,
        timeout: float | None = None,
    ) -> Coroutine[Any, Any, list[float]]:
        """Like `score`, for `await`."""
        return _for_await("score", lambda: self.score(prompt, texts, end=end, timeout=timeout))

    # --- read -------------------------------------------------------------------------------

    @shown_briefly("The reading")
    def read(
        self, text: str | Sequence[Mapping[str, Any]] | Completion[Any], *, timeout: float | None = None
    ) -> ReadThrough:
        """Read a text through and say of each token how likely it was and what was expected.

        Messages are read as their prompt, an answer is read behind its own.
        Costs one read of the text. Raises `ContextOverflowError` for a text over the window,
        `OutOfTimeError` after `timeout` seconds, and `GenerationInterrupted` on Ctrl-C: the `completion` of
        these two is the `ReadThrough` of what was read.
        """
        self._open()
        from llama_magic.microscope.reading import read, read_elsewhere  # for weight: llama.cpp

        if isinstance(text, Completion):
            text = text.prompt + text.raw_text
        elif is_conversation(text):
            text = self._calls.render(text).text
        with bounded(timeout):
            if isinstance(self.backend, Reads):
                return read_elsewhere(self.backend, self._tokenizer, self.window, self.name, text)
            engine = self._local("a reading")
            return read(engine, self._tokenizer, self.window, self.name, text)

    def aread(
        self, text: str | Sequence[Mapping[str, Any]] | Completion[Any], *, timeout: float | None = None
    ) -> Coroutine[Any, Any, ReadThrough]:
        """Like `read`, for `await`."""
        return _for_await("read", lambda: self.read(text, timeout=timeout))

    # --- xray -------------------------------------------------------------------------------

    @shown_briefly("The trace")
    def xray(
        self,
        prompt: str | Sequence[int] | Sequence[Mapping[str, Any]],
        sampling: Sampling | None = None,
        *,
        seed: int | None = None,
        timeout: float | None = None,
        **changes: Any,
    ) -> SamplerTrace:
        """Return the next token's whole road through the sampler chain, after a raw prompt or after messages.

        `changes` are fields of `Sampling`. Without a `seed` one is drawn; it stands in the trace. Raises
        `OutOfTimeError` after `timeout` seconds.
        """
        self._local("a trace of the sampler")
        if not isinstance(sampling, Sampling | None):
            raise InputTypeError(
                f"sampling is of type {type(sampling).__name__}; expected a Sampling.",
                remedy="Write model.sampling.replace(top_k=5), or top_k=5 in the call itself.",
            )
        if isinstance(prompt, Completion):
            raise InputTypeError(
                "The prompt is an answer.",
                remedy="answer.xray(0) traces its first token, model.xray(answer.prompt) one anew.",
            )
        asked: Any = self._calls.render(prompt).ids if is_conversation(prompt) else prompt
        if "logit_bias" in changes:
            changes["logit_bias"] = bias.by_id(changes["logit_bias"], self._tokenizer)
        recipe = (sampling or self.sampling).replace(**changes)
        options = {"sampling": recipe, "seed": seed, "max_tokens": 1, "timeout": timeout}
        words = "no token was drawn yet, so there is no trace; nothing is kept"
        with bounded(timeout):
            stream: Stream[Any] = Stream(self.backend, self._calls.text(asked, None, options, "xray"))
            try:
                completion = stream.run()
            except GenerationInterrupted:
                raise GenerationInterrupted(None, words) from None
            if completion.finish_reason == "timeout":
                raise out_of_time(timeout, words)
            return completion.xray(0)

    def axray(
        self,
        prompt: str | Sequence[int] | Sequence[Mapping[str, Any]],
        sampling: Sampling | None = None,
        *,
        seed: int | None = None,
        timeout: float | None = None,
        **changes: Any,
    ) -> Coroutine[Any, Any, SamplerTrace]:
        """Like `xray`, for `await`."""
        return _for_await("xray", lambda: self.xray(prompt, sampling, seed=seed, timeout=timeout, **changes))


def _for_await(name: str, call: Callable[[], Any]) -> Any:
    """Return what is to be awaited; nothing is checked or asked before."""
    made: Any = beside_the_loop(name, call)
    made.__qualname__ = f"Model.a{name}"  # "… was never awaited" names the call
    return made
