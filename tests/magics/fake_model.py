"""A scripted model with the Python API of the contract: tokens are words, answers are given in advance."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from llama_magic.engine.kv.moves import SavedSequence
from llama_magic.engine.kv.store import Stretch
from llama_magic.errors import GenerationInterrupted, ModelClosedError, SourceError
from llama_magic.microscope import savefile
from llama_magic.model.results import Budget, BudgetPart, Chunk, Completion, Timings, Usage
from llama_magic.request.sampling import Sampling
from llama_magic.testing import WordTokenizer

WINDOW = 512


class Facts:
    """Attributes by name; compared and hashed by identity, so that it may be a default."""

    def __init__(self, **facts: Any) -> None:
        self.__dict__.update(facts)


INFO = Facts(architecture="fake", n_params=1000, quantisation="F32", context_length=1024)
FORMATTER = Facts(name="fake")
SAMPLING_KEYS = set(Sampling().to_dict())


@dataclass(frozen=True)
class TokenPiece:
    id: int
    text: str
    bytes: bytes
    special: bool = False


@dataclass(frozen=True)
class TokenStrip:
    text: str
    tokens: tuple[TokenPiece, ...]

    @property
    def count(self) -> int:
        return len(self.tokens)


def words(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+$", text)


class FakeStream:
    """Yields one chunk a word. `stop_after` raises a KeyboardInterrupt after so many words."""

    def __init__(
        self, make: Callable[[str, str], Completion], answer: str, stop_after: int | None, n: int
    ) -> None:
        self._make, self._answer, self._stop_after, self._n = make, answer, stop_after, n
        self._text = ""
        self._ended = False
        self.budget, self.mode = make("", "stop").budget, make("", "stop").mode
        self.fields: tuple[str, ...] = ()

    def progress(self) -> None:
        """Nothing is to be read."""

    def __iter__(self) -> Iterator[Chunk]:
        for sample in range(self._n):
            self._text = ""
            for count, word in enumerate(words(self._answer)):
                if self._stop_after == count:
                    raise KeyboardInterrupt
                self._text += word
                yield Chunk(word, self._text, token_ids=(count,), sample=sample)
        self._ended = True

    def cancel(self) -> None:
        self._ended = True
        self._stop_after = -1

    @property
    def completion(self) -> Any:
        reason = "stop" if self._stop_after is None else "interrupted"
        one = self._make(self._text, reason)
        return one if self._n == 1 else [one, *(replace(one) for _ in range(self._n - 1))]


@dataclass
class FakeModel:
    name: str = "fake"
    path: Path = Path("/models/fake.gguf")
    window: int = WINDOW
    size_bytes: int = 3_000_000
    answers: list[str] = field(default_factory=list)
    sampling: Sampling = field(default_factory=Sampling)
    stop_after: int | None = None
    calls: list[tuple[str, Any, dict[str, Any]]] = field(default_factory=list)
    closed: bool = False
    parse: Callable[[str], Any] | None = None
    error: BaseException | None = None
    memory: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    info: Any = INFO
    formatter: Any = FORMATTER
    speed: Any = None
    backend: Any = field(default_factory=lambda: SimpleNamespace(tokenizer=WordTokenizer()))

    def close(self) -> None:
        self.closed = True

    def complete(self, prompt: str, **options: Any) -> Any:
        return self._run("complete", prompt, prompt, options)

    def chat(self, messages: Sequence[dict[str, Any]], **options: Any) -> Any:
        prompt = "".join(f"<{m['role']}>{m['content']}\n" for m in messages) + "<assistant>"
        return self._run("chat", [dict(m) for m in messages], prompt, options)

    def structured(self, prompt: Any, schema: Any, **options: Any) -> Any:
        return self._run("structured", prompt, str(prompt), options | {"schema": schema})

    def token_strip(self, text: str, parse_special: bool = True) -> TokenStrip:
        self._check()
        pieces = words(text)
        return TokenStrip(text, tuple(TokenPiece(hash(p) % 1000, p, p.encode()) for p in pieces))

    def tokenize(self, text: str) -> list[int]:
        return [1, *(piece.id for piece in self.token_strip(text).tokens)]

    def count_tokens(self, text: Any) -> int:
        return len(words(text)) if isinstance(text, str) else sum(len(words(m["content"])) for m in text)

    def read(self, text: str) -> Any:
        self._check()
        return ("read", text)

    def xray(self, prompt: str, sampling: Sampling, *, seed: int | None = None) -> Any:
        self._check()
        return ("xray", prompt, sampling) if seed is None else ("xray", prompt, sampling, seed)

    def kv_save(self, path: str, sequence: str | None = None) -> Path:
        self.calls.append(("kv_save", path, {}))
        saved = SavedSequence((1, 2), 0, (Stretch(0, 2, b"state"),), 2, sequence or "shared-0")
        return savefile.write(path, saved, savefile.Fingerprint("fake", 9, {}))

    def kv_restore(self, path: str) -> None:
        self.calls.append(("kv_restore", path, {}))

    def kv_clear(self) -> None:
        self.calls.append(("kv_clear", None, {}))

    def kv_fork(self, a: str, b: str) -> None:
        self.calls.append(("kv_fork", (a, b), {}))

    @property
    def kv(self) -> Any:
        self._check()
        return {"used": 3, "total": self.window}

    def _check(self) -> None:
        if self.closed:
            raise ModelClosedError(f"The model {self.name} is closed.")

    def _run(self, mode: str, given: Any, prompt: str, options: dict[str, Any]) -> FakeStream:
        self._check()
        self.calls.append((mode, given, options))
        if self.error is not None:
            raise self.error
        answer = self.answers.pop(0) if self.answers else f"answer {len(self.calls)}"
        changes = {key: value for key, value in options.items() if key in SAMPLING_KEYS}
        sampling = self.sampling.replace(**changes)
        seed = options.get("seed")
        used = len(words(prompt))
        max_tokens = options.get("max_tokens", 64)

        def make(text: str, reason: str) -> Completion:
            count = len(words(text))
            return Completion(
                text=text,
                prompt=prompt,
                prompt_token_ids=tuple(range(used)),
                token_ids=tuple(range(count)),
                finish_reason=reason,  # type: ignore[arg-type]
                usage=Usage(used, 0, count),
                timings=Timings(0.0, 0.1, 0.1, 0.2, 50.0),
                seed=7 if seed is None else seed,
                seeded=seed is not None,
                sampling=sampling,
                model=self.name,
                budget=Budget(self.window, used, max_tokens, (BudgetPart("prompt", "prompt", used),)),
                parsed=self.parse(text) if self.parse and reason == "stop" else None,
                messages=tuple(given) if mode == "chat" else (),
                mode=mode,
            )

        return FakeStream(make, answer, self.stop_after, options.get("n", 1))


class FakeLoader:
    """Stands for `llama_magic.model.model.load`: the same source and options give the same open model."""

    def __init__(self, **models: FakeModel) -> None:
        self.models = models
        self.calls: list[tuple[Any, dict[str, Any]]] = []

    def __call__(
        self, source: str | None = None, *, name: str | None = None, progress: Any = None, **options: Any
    ) -> Any:
        self.calls.append((source, options))
        if options.get("dry_run"):
            return f"would load {source or 'demo'}"
        key = source or "demo"
        if key.startswith("missing"):
            raise SourceError(f"There is no model {key!r}.")
        model = self.models.get(key)
        if model is None or model.closed:
            model = self.models[key] = FakeModel(name=name or key, path=Path(f"/models/{key}.gguf"))
        return model


__all__ = ["FakeLoader", "FakeModel", "FakeStream", "GenerationInterrupted", "TokenStrip"]
