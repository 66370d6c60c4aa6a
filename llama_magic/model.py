"""`Model`: a loaded file as one plain object. Every kind of call becomes a request to the engine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_magic import fit, prompting
from llama_magic.assembling import Assembler
from llama_magic.calls import Calls, as_messages
from llama_magic.engine import cache
from llama_magic.engine.engine import Engine
from llama_magic.engine.sampling import Sampling
from llama_magic.engine.vocabulary import Vocabulary
from llama_magic.errors import GenerationInterrupted, InputTypeError, ModelClosedError
from llama_magic.generation import AsyncStream, Stream
from llama_magic.tokens import TokenStrip, conversation_strip, token_strip

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from llama_magic.fit import Speed
    from llama_magic.formatters import Formatter
    from llama_magic.gguf import GGUFInfo
    from llama_magic.loading import LoadedFile
    from llama_magic.microscope.cells import KVState
    from llama_magic.microscope.reading import ReadThrough
    from llama_magic.microscope.savefile import Fingerprint
    from llama_magic.microscope.tracing import SamplerTrace
    from llama_magic.sources import Resolved
    from llama_magic.structured import Constraint
    from llama_magic.thinking import Thinking


_CONSTRAINTS = ("grammar", "regex", "choices")


class Model:
    """A model in memory. Safe to call from any thread and any task at the same time.

    Made by `llama_magic.load`. `window` is the context window in tokens, `sampling` the
    parameters used where a call names none (from the file, else llama.cpp's defaults).
    `close()` cancels what runs and frees the memory; any use after it is `ModelClosedError`.
    """

    def __init__(self, name: str, file: LoadedFile, engine: Engine, vocabulary: Vocabulary) -> None:
        self.name = name
        self._file = file
        self._engine = engine
        self._vocabulary = vocabulary
        self._calls = Calls(name, file, vocabulary, self)
        self.sampling: Sampling = file.sampling
        self.formatter: Formatter = file.formatter
        self.notes: tuple[str, ...] = file.notes

    # --- what it is -----------------------------------------------------------------------

    @property
    def info(self) -> GGUFInfo:
        """The header of the file."""
        return self._file.info

    @property
    def source(self) -> Resolved:
        """Where the file came from."""
        return self._file.source

    @property
    def path(self) -> Path:
        return self._file.source.path

    @property
    def window(self) -> int:
        """The context window in tokens, as llama.cpp rounded it."""
        return self._file.window

    @property
    def size_bytes(self) -> int:
        return self._file.source.size

    @property
    def memory(self) -> dict[str, int]:
        """Bytes by kind: what was predicted at load and what llama.cpp then reported.

        `predicted_seeded` comes on top with the first answer that has a seed (a context of its
        own); both totals hold it from then on.
        """
        memory = dict(self._file.memory)
        seeded = sum(self._engine.exact_buffers().values())
        if seeded:
            memory["actual_seeded"] = seeded
            memory["actual_total"] += seeded
            memory["predicted_total"] += memory["predicted_seeded"]
        return memory

    @property
    def speed(self) -> Speed | None:
        """The most tokens a second that one stream can write here, None with layers on a GPU."""
        o = self._file.options
        if o["gpu_layers"]:
            return None
        return fit.speed(self.info, fit.machine(), threads=o["threads"], kv_type=o["type_k"])

    @property
    def options(self) -> dict[str, Any]:
        """The load options as they were taken."""
        return dict(self._file.options)

    @property
    def closed(self) -> bool:
        return self._engine.closed

    def close(self) -> None:
        """Cancel what runs and free the memory; idempotent."""
        self._file.release(self._engine)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.window:,} tokens"
        return f"<Model {self.name!r}: {self.info.architecture} {self.info.quantisation}, {state}>"

    # --- tokens ---------------------------------------------------------------------------

    def tokenize(self, text: str, *, parse_special: bool = True) -> list[int]:
        """Return the tokens that `text` is as a prompt: BOS in front if the file asks for it, once."""
        self._open()
        if not isinstance(text, str):
            raise InputTypeError(f"The text is a {type(text).__name__}; expected a str.")
        if parse_special:
            return self._vocabulary.encode(text)
        return self._vocabulary.encode_parts([(text, True)]) if text else self._vocabulary.encode("")

    def detokenize(self, ids: Sequence[int], *, special: bool = True) -> str:
        """Return the text of tokens, the inverse of `tokenize`; without control tokens unless `special`."""
        self._open()
        return self._vocabulary.decode(
            [index(i) if hasattr(i, "__index__") and not isinstance(i, bool) else i for i in ids],
            special=special,
        )

    def count_tokens(self, text: str | Sequence[Any]) -> int:
        """Return how many tokens a text, or a conversation in the model's template, takes as a prompt."""
        if isinstance(text, str):
            return len(self.tokenize(text))
        self._open()
        return len(self._calls.render(text).ids)

    def token_strip(self, text: str | Sequence[Any], *, parse_special: bool = True) -> TokenStrip:
        """Return the tokens of a text, or of a whole conversation in the model's template, for looking at.

        In a conversation each token carries the role whose words it belongs to.
        """
        if isinstance(text, str):
            return token_strip(self._vocabulary, text, self.tokenize(text, parse_special=parse_special))
        self._open()
        from llama_magic import formatters

        plain = formatters.normalise_messages(text)
        rendered = self.formatter.render(plain, add_generation_prompt=True, guarded=self._file.guarded)
        return conversation_strip(self._vocabulary, rendered)

    def prompt_for(self, messages: Sequence[Any], **template_variables: Any) -> str:
        """Return the prompt that `chat` would send for these messages."""
        self._open()
        return self._calls.render(messages, template_variables=template_variables).text

    # --- generation -----------------------------------------------------------------------

    def complete(
        self,
        prompt: str,
        *,
        stream: bool = False,
        instruct: bool = False,
        system: str | None = None,
        spans: Sequence[prompting.Span] = (),
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        **options: Any,
    ) -> Any:
        """Continue a text as it stands; `instruct` wraps it as one user turn first.

        Options: `max_tokens` (256, or what the window has left), `seed` (makes the answer
        reproducible), `stop` (text or texts), `n` (samples of one prompt, decoded together),
        `logprobs` (alternatives to report a token), `overflow` ("error", "drop-oldest",
        "truncate-prompt"), `reuse` (of the KV cache), and any field of `Sampling`.
        `grammar` (GBNF), `regex` and `choices` constrain the text.

        Returns a `Completion`, a list of them for n > 1, or with `stream` a `Stream` of chunks.
        Raises `ContextOverflowError` before any decode, `GenerationInterrupted` on Ctrl-C.
        """
        self._open()
        constraint = self._constraint_of(grammar, regex, choices)
        if instruct or system is not None:
            messages = as_messages(prompt, system, spans)
            return self._run(self._calls.chat("complete", messages, constraint, options), stream)
        return self._run(self._calls.text(prompt, spans, constraint, options), stream)

    def chat(
        self,
        messages: Sequence[Any],
        *,
        stream: bool = False,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        tools: Sequence[Any] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Answer a conversation: messages are dicts with `role` and `content`. Options as for `complete`."""
        self._open()
        constraint = self._constraint_of(grammar, regex, choices)
        assembler = self._calls.chat("chat", messages, constraint, options, tools, template_variables)
        return self._run(assembler, stream)

    def structured(
        self,
        prompt: str | Sequence[Any],
        schema: Any,
        *,
        stream: bool = False,
        system: str | None = None,
        spans: Sequence[prompting.Span] = (),
        retries: int = 0,
        thinking: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Answer with an instance of `schema`; it stands in `completion.parsed`.

        `prompt` is one user turn, a list of messages, or a list of prompts: these are decoded
        together and a list comes back. `schema` is a pydantic model, any type that pydantic
        knows, or a JSON schema dict. Tokens that cannot lead to an instance are never drawn;
        what the mask cannot say is checked at the end, and asked again up to `retries` times.
        With `pressure=True` the completion's `fields` say where the model wanted something else.
        Thinking is switched off where the template has a switch; with `thinking=True` the model
        thinks first, freely, and what comes after is constrained. The completion's notes say which.
        `lm.vote` counts the answers of `n=8`, field by field.

        Raises `SchemaError` before the first token, `StructuredOutputError` with what was
        written if the answer is not an instance.
        """
        from llama_magic.structuring import StructuredCall

        call = StructuredCall(self, schema, retries, template_variables or {}, dict(options), thinking)
        return call.run(prompt, system=system, spans=spans, stream=stream)

    def start_structured(
        self,
        messages: Sequence[Any],
        constraint: Constraint,
        thinking: Thinking,
        options: Mapping[str, Any],
    ) -> Stream:
        """Start one constrained answer to a conversation (used by `structured`)."""
        self._open()
        return Stream(
            self._engine,
            self._calls.chat("structured", messages, constraint, options, thinking=thinking),
        )

    def astart_structured(
        self,
        messages: Sequence[Any],
        constraint: Constraint,
        thinking: Thinking,
        options: Mapping[str, Any],
    ) -> AsyncStream:
        """Like `start_structured`, in a running loop."""
        self._open()
        return AsyncStream(
            self._engine,
            self._calls.chat("structured", messages, constraint, options, thinking=thinking),
        )

    async def acomplete(self, prompt: str, *, stream: bool = False, **options: Any) -> Any:
        """Like `complete`, for `await`; with `stream` the result is for `async for`."""
        self._open()
        constraint = self._constraint_of(*(options.pop(k, None) for k in _CONSTRAINTS))
        if options.pop("instruct", False) or "system" in options:
            messages = as_messages(prompt, options.pop("system", None), options.pop("spans", ()))
            return await self._arun(self._calls.chat("complete", messages, constraint, options), stream)
        return await self._arun(
            self._calls.text(prompt, options.pop("spans", ()), constraint, options), stream
        )

    async def achat(self, messages: Sequence[Any], *, stream: bool = False, **options: Any) -> Any:
        """Like `chat`, for `await`; with `stream` the result is for `async for`."""
        self._open()
        constraint = self._constraint_of(*(options.pop(k, None) for k in _CONSTRAINTS))
        tools, variables = options.pop("tools", None), options.pop("template_variables", None)
        return await self._arun(
            self._calls.chat("chat", messages, constraint, options, tools, variables), stream
        )

    async def astructured(self, prompt: str | Sequence[Any], schema: Any, **options: Any) -> Any:
        """Like `structured` without `stream`, for `await`."""
        from llama_magic.structuring import StructuredCall

        retries, variables = options.pop("retries", 0), options.pop("template_variables", None)
        system, spans = options.pop("system", None), options.pop("spans", ())
        thinking = options.pop("thinking", False)
        call = StructuredCall(self, schema, retries, variables or {}, options, thinking)
        return await call.arun(prompt, system=system, spans=spans)

    def constraint(
        self,
        schema: Any = None,
        *,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        grammar: str | None = None,
        lark: str | None = None,
    ) -> Constraint:
        """Compile what an answer must be, to ask what it allows: `accepts(text)`, `enforced`, `checked`."""
        from llama_magic import structured

        self._open()
        self._file.shared.weights.must_generate()
        return structured.compile(
            schema,
            vocabulary=self._vocabulary,
            regex=regex,
            choices=choices,
            grammar=grammar,
            lark=lark,
        )

    def embed(self, texts: str | Sequence[str], *, normalize: bool = True) -> NDArray[np.float32]:
        """Return one vector a text: (len(texts), n_embd) float32, of length 1 unless `normalize` is off.

        Each text must fit the window; nothing is cut. Uses a context of its own.
        """
        from llama_magic.embedding import embed

        self._open()
        return embed(self._engine, self._vocabulary, self._file, texts, normalize=normalize)

    # --- the microscope -------------------------------------------------------------------

    def read(self, text: str) -> ReadThrough:
        """Read a text through and say of each token how likely it was and what was expected.

        Costs one read of the text. Raises `ContextOverflowError` for a text over the window, and
        `GenerationInterrupted` on Ctrl-C, whose `completion` is the `ReadThrough` of what was read.
        """
        from llama_magic.microscope.reading import read

        self._open()
        return read(self._engine, self._vocabulary, self.window, self.name, text)

    def xray(
        self, prompt: str, sampling: Sampling | None = None, *, seed: int | None = None, **changes: Any
    ) -> SamplerTrace:
        """Return the next token's whole road through the sampler chain, after a raw prompt.

        `changes` are fields of `Sampling`. Without a `seed` one is drawn; it stands in the trace.
        """
        self._open()
        recipe = (sampling or self.sampling).replace(**changes)
        options = {"sampling": recipe, "seed": seed, "max_tokens": 1}
        try:
            completion = self._run(self._calls.text(prompt, (), None, options, "xray"), stream=False)
        except GenerationInterrupted:
            raise GenerationInterrupted(
                None, "no token was drawn yet, so there is no trace; nothing is kept"
            ) from None
        return completion.xray(0)  # type: ignore[no-any-return]

    @property
    def kv(self) -> KVState:
        """What the KV caches hold now: sequences, cells, bytes, what the last call reused."""
        from llama_magic.microscope.cells import kv_state

        self._open()
        return kv_state(self._engine, self._vocabulary, self._file)

    def kv_save(self, path: str | os.PathLike[str], sequence: str | None = None) -> Path:
        """Write a sequence of the cache to a file: the one called `sequence`, or the one used last.

        Costs a copy of its cells (some KB a token). Raises `SourceError` and `OptionError`.
        """
        from llama_magic.microscope import savefile

        self._open()
        saved = self._engine.call(lambda core: cache.save(core, sequence))
        return savefile.write(path, saved, self._fingerprint())

    def kv_restore(self, path: str | os.PathLike[str]) -> None:
        """Take a saved sequence back; the next prompt that begins with its text goes on from it.

        Raises `SourceError` for a damaged file and for one of another model or other context
        options, before llama.cpp sees it.
        """
        from llama_magic.microscope import savefile

        self._open()
        saved = savefile.read(path, self._fingerprint())
        self._engine.call(lambda core: cache.restore(core, saved))

    def kv_clear(self) -> None:
        """Forget every sequence that no call is using, in cells and in host memory."""
        self._open()
        self._engine.call(cache.clear)

    def kv_fork(self, source: str, name: str) -> None:
        """Name a copy of a sequence of `kv`, to go on from later; its cells are shared, not copied."""
        self._open()
        self._engine.call(lambda core: cache.fork(core, source, name))

    def _fingerprint(self) -> Fingerprint:
        from llama_magic.microscope import savefile

        parts, options = self._file.source.parts, self._engine.options.context
        weights = self._engine.weights.options
        return savefile.fingerprint(self.info.digest, parts, self._vocabulary, options, weights)

    def _constraint_of(
        self, grammar: str | None, regex: str | None, choices: Sequence[Any] | None
    ) -> Constraint | None:
        if grammar is None and regex is None and choices is None:
            return None
        if choices is not None and not isinstance(choices, (list, tuple, set, frozenset)):
            raise InputTypeError(f"choices is {choices!r}; expected a list of texts.")
        return self.constraint(grammar=grammar, regex=regex, choices=choices)

    def _open(self) -> None:
        if self.closed:
            raise ModelClosedError(f"The model {self.name!r} was unloaded; load it again to use it.")

    def _run(self, assembler: Assembler, stream: bool) -> Any:
        made = Stream(self._engine, assembler)
        return made if stream else made.run()

    async def _arun(self, assembler: Assembler, stream: bool) -> Any:
        made = AsyncStream(self._engine, assembler)
        return made if stream else await made.run()
