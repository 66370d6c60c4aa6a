"""`Model`: a loaded file as one plain object. Every kind of call becomes a request to the engine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from llama_magic import environment, fit, formatters
from llama_magic.errors import (
    BackendError,
    InputTypeError,
    ModelClosedError,
    OptionError,
    shown_briefly,
)
from llama_magic.microscope.tokens import (
    TokenStrip,
    TokenStrips,
    check_length,
    conversation_strip,
    named_texts,
    token_strip,
)
from llama_magic.model.again import Repeating
from llama_magic.model.call import Calls
from llama_magic.model.generate import Generating
from llama_magic.model.hearing import hearing
from llama_magic.model.measuring import Measuring
from llama_magic.model.other_names import METHODS, CalledElsewhere
from llama_magic.model.results import Budget
from llama_magic.request.backend import Counts
from llama_magic.request.sampling import Sampling
from llama_magic.words.given import items_of
from llama_magic.words.shown import Shown
from llama_magic.words.signature import refusing

if TYPE_CHECKING:
    from llama_magic.engine.engine import Engine
    from llama_magic.fit import Speed
    from llama_magic.formatters import Formatter
    from llama_magic.gguf import GGUFInfo
    from llama_magic.microscope.cells import KVState
    from llama_magic.microscope.savefile import Fingerprint
    from llama_magic.model.file import LoadedFile
    from llama_magic.model.stats import ModelStats
    from llama_magic.request.backend import Backend
    from llama_magic.sources import Resolved
    from llama_magic.structured import Constraint


@refusing
class Model(Generating, Repeating, Measuring, CalledElsewhere, Shown):
    """A model in memory. Safe to call from any thread and any task at the same time.

    Made by `llama_magic.load`, of facts and a `Backend`. `window` is the context window in tokens,
    `sampling` the parameters used where a call names none (from the environment, else from the file, else
    llama.cpp's defaults).
    `chat`, `complete` and `structured` write (`achat`, … are awaited), `embed` and `score` do not; `read`,
    `xray`, `token_strip`, `kv` and `info` look inside.
    `close()` cancels what runs and frees the memory; any use after it is `ModelClosedError`.
    """

    _elsewhere = METHODS

    def __init__(self, name: str, file: LoadedFile, backend: Backend) -> None:
        self.name = name
        self._file = file
        self.backend = backend
        self._tokenizer = hearing(backend.tokenizer, name, file)
        self._calls = Calls(name, file, backend, self, self._tokenizer)
        defaults = environment.read()
        self._calls.max_tokens = defaults.max_tokens
        self.sampling: Sampling = defaults.over(file.sampling)
        self.formatter: Formatter = file.formatter
        self.notes: tuple[str, ...] = file.notes
        self.card: Shown | None = None  # of a server: what held when it was tried

    @property
    def calls(self) -> Calls:
        """How calls become requests: whoever asks for many at once (`experiments`) prepares them here."""
        self._open()
        return self._calls

    # --- what it is -----------------------------------------------------------------------

    @property
    def info(self) -> GGUFInfo:
        """The header of the file. Raises `OptionError` where there is no file in reach."""
        if self._file.info is None:
            raise OptionError(f"{self.name!r} has no file here, so it has no header to look at.")
        return self._file.info

    @property
    def source(self) -> Resolved:
        """Where the file came from. Raises `OptionError` where there is no file in reach."""
        if self._file.source is None:
            raise OptionError(f"{self.name!r} has no file here.")
        return self._file.source

    @property
    def has_file(self) -> bool:
        """Whether there is a file with a header: `info`, `source` and `path` answer."""
        return self._file.info is not None

    @property
    def path(self) -> Path:
        return self.source.path

    @property
    def window(self) -> int:
        """The context window in tokens, as llama.cpp rounded it."""
        return self._file.window

    @property
    def size_bytes(self) -> int:
        return self.source.size if self.has_file else 0

    @property
    def memory(self) -> dict[str, int]:
        """Bytes by kind: what was predicted at load and what llama.cpp then reported.

        `predicted_seeded` comes on top with the first answer that has a seed (a context of its own),
        `predicted_prompt_reader` once a prompt waits beside many answers; the totals hold them from then on.
        """
        memory = dict(self._file.memory)
        engine = self.backend.local
        for name, size in (engine.made_since() if engine is not None else {}).items():
            memory[f"actual_{name}"] = size
            memory["actual_total"] += size
            memory["predicted_total"] += memory[f"predicted_{name}"]
        return memory

    @property
    def speed(self) -> Speed | None:
        """The most tokens a second that one stream can write here, None with layers on a GPU."""
        o = self._file.options
        if not self.has_file or o["gpu_layers"]:
            return None
        return fit.speed(self.info, fit.machine(), threads=o["threads"], kv_type=o["type_k"])

    @property
    def options(self) -> dict[str, Any]:
        """The load options as they were taken."""
        return dict(self._file.options)

    @property
    def made_with(self) -> dict[str, Any]:
        """What receipts say of it: `file`, with its fingerprint, and `engine`: build, KV type, threads, …"""
        return dict(self._file.made_with)

    @property
    def stats(self) -> ModelStats:
        """What was asked of this model since it was loaded: requests, waits, tokens, speeds, errors."""
        return self._calls.stats

    @property
    def closed(self) -> bool:
        return self.backend.closed

    def close(self) -> None:
        """Cancel what runs and free the memory; idempotent. Returns when that is done, whoever began it."""
        if self._file.release is not None:
            self._file.release()
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse `copy.copy`, `copy.deepcopy`, `pickle` and joblib: memory and a thread cannot be copied."""
        raise InputTypeError(
            f"The model {self.name!r} lives in this process's memory; it cannot be copied or pickled.",
            remedy="Share the object itself between threads; in another process load the file again"
            + (f": llama_magic.load({self.source.origin!r})." if self.has_file else "."),
        )

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.window:,} tokens"
        what = f"{self.info.architecture} {self.info.quantisation}, " if self.has_file else ""
        return f"<Model {self.name!r}: {what}{state}>"

    # --- tokens ---------------------------------------------------------------------------

    @shown_briefly("Counting tokens")
    def budget_for(self, messages: Sequence[Any], *, max_tokens: int) -> Budget:
        """Return how a conversation and an answer of `max_tokens` would fill the window, part by part.

        A server that renders prompts itself tells no parts, only their sum.
        """
        self._open()
        if not self.backend.capabilities.renders:
            return Budget(self.window, self.count_tokens(messages), max_tokens)
        return self.calls.offering(messages, None, False).budget(self.window, max_tokens)

    @shown_briefly("Tokenizing")
    def tokenize(self, text: str, *, parse_special: bool = True) -> list[int]:
        """Return the tokens that `text` is as a prompt: BOS in front if the file asks for it, once."""
        self._tells_tokens()
        if not isinstance(text, str):
            raise InputTypeError(f"The text is a {type(text).__name__}; expected a str.")
        if parse_special:
            return self._tokenizer.encode(text)
        return self._tokenizer.encode_parts([(text, True)]) if text else self._tokenizer.encode("")

    @shown_briefly("Detokenizing")
    def detokenize(self, ids: Sequence[int], *, special: bool = True) -> str:
        """Return the text of tokens, the inverse of `tokenize`; without control tokens unless `special`."""
        self._tells_tokens()
        if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
            raise InputTypeError(
                f"The tokens are of type {type(ids).__name__}; expected a list of their ids."
            )
        return self._tokenizer.decode(
            [
                index(i) if hasattr(i, "__index__") and not isinstance(i, bool) else i
                for i in items_of("The tokens", ids)
            ],
            special=special,
        )

    @shown_briefly("Counting tokens")
    def count_tokens(
        self, text: str | Sequence[Any], *, tools: Sequence[Any] | None = None, tools_as_text: bool = False
    ) -> int:
        """Return how many tokens a text, or a conversation in the model's template, takes as a prompt."""
        if isinstance(text, str):
            return len(self.tokenize(text))
        self._open()
        if not self.backend.capabilities.renders and isinstance(self.backend, Counts):
            return self.backend.count(formatters.normalise_messages(text))
        return len(self._calls.offering(text, tools, tools_as_text).ids)

    @shown_briefly("Tokenizing")
    def token_strip(self, text: str | Sequence[Any], *, parse_special: bool = True) -> TokenStrip:
        """Return the tokens of a text, or of a whole conversation in the model's template, for looking at.

        In a conversation each token carries the role whose words it belongs to.
        """
        if isinstance(text, str):
            check_length(text)
            return token_strip(self._tokenizer, text, self.tokenize(text, parse_special=parse_special))
        self._tells_tokens()
        plain = formatters.normalise_messages(text)
        check_length(*(message["content"] for message in plain))
        rendered = self.formatter.render(plain, add_generation_prompt=True, guarded=self._file.guarded)
        return conversation_strip(self._tokenizer, rendered)

    @shown_briefly("Tokenizing")
    def token_strips(self, texts: Mapping[str, Any] | Sequence[Any]) -> TokenStrips:
        """Return the strips of several texts or conversations side by side, by their names.

        `texts` are a dict of names to them, or a list: `text 1` and so on are their names then.
        """
        named = named_texts(texts)
        return TokenStrips(tuple(named), tuple(map(self.token_strip, named.values())))

    @shown_briefly("Rendering")
    def prompt_for(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[Any] | None = None,
        tools_as_text: bool = False,
        **template_variables: Any,
    ) -> str:
        """Return the prompt that `chat` would send for these messages and tools."""
        self._open()
        return self._calls.offering(messages, tools, tools_as_text, template_variables).text

    @shown_briefly("Compiling")
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
        self._open()
        return self._calls.constraint(schema, regex=regex, choices=choices, grammar=grammar, lark=lark)

    # --- the KV cache ----------------------------------------------------------------------

    @property
    @shown_briefly("Looking at the KV cache")
    def kv(self) -> KVState:
        """What the KV caches hold now: sequences, cells, bytes, what the last call reused."""
        engine = self._local("the KV cache")
        from llama_magic.microscope.cells import kv_state  # for weight: llama.cpp

        return kv_state(engine, self._tokenizer, self.info)

    @shown_briefly("Saving the sequence")
    def kv_save(self, path: str | os.PathLike[str], sequence: str | None = None) -> Path:
        """Write a sequence of the cache to a file: the one called `sequence`, or the one used last.

        Costs a copy of its cells (some KB a token). Raises `SourceError` and `OptionError`.
        """
        engine = self._local("saving a sequence")
        from llama_magic.engine import moves  # for weight: NumPy
        from llama_magic.microscope import savefile

        saved = engine.call(lambda core: moves.save(core, sequence))
        return savefile.write(path, saved, self._fingerprint(engine))

    @shown_briefly("Restoring the sequence")
    def kv_restore(self, path: str | os.PathLike[str]) -> None:
        """Take a saved sequence back; the next prompt that begins with its text goes on from it.

        Raises `SourceError` for a damaged file and for one of another model or other context
        options, before llama.cpp sees it.
        """
        engine = self._local("restoring a sequence")
        from llama_magic.engine import moves  # for weight: NumPy
        from llama_magic.microscope import savefile

        saved = savefile.read(path, self._fingerprint(engine))
        engine.call(lambda core: moves.restore(core, saved))

    @shown_briefly("Clearing the KV cache")
    def kv_clear(self) -> None:
        """Forget every sequence that no call is using, in cells and in host memory."""
        engine = self._local("clearing the KV cache")
        from llama_magic.engine import moves  # for weight: NumPy

        engine.call(moves.clear)

    @shown_briefly("The fork")
    def kv_fork(self, source: str, name: str) -> None:
        """Name a copy of a sequence of `kv`, to go on from later; its cells are shared, not copied."""
        engine = self._local("a fork")
        from llama_magic.engine import moves  # for weight: NumPy

        engine.call(lambda core: moves.fork(core, source, name))

    def _fingerprint(self, engine: Engine) -> Fingerprint:
        from llama_magic.microscope import savefile  # for weight: llama.cpp

        file = self._file.made_with["file"]
        options, weights = engine.options.context, engine.weights.options
        return savefile.fingerprint(file["fingerprint"], self._tokenizer, options, weights)

    def _open(self) -> None:
        if self.closed:
            raise ModelClosedError(f"The model {self.name!r} was unloaded; load it again to use it.")

    def _tells_tokens(self) -> None:
        """Refuse for a source that tells no tokens: ours would be others."""
        self._open()
        if not self._tokenizer.exact:
            raise BackendError(
                f"{self.name!r} writes its tokens outside of this process, and does not tell them.",
                remedy="Load the model here to look at its tokens.",
            )

    def _local(self, what: str) -> Engine:
        """Return the engine in this process; `what` names what is asked of it."""
        self._open()
        engine: Engine | None = self.backend.local
        if engine is None:
            raise BackendError(
                f"{self.name!r} writes its tokens outside of this process; {what} needs an engine in it.",
                remedy="Load the model here, and ask again.",
            )
        return engine
