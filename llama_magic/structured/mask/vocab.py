"""The vocabulary as the masks need it: bytes of each token, built once and kept."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

from llama_magic.errors import ModelClosedError
from llama_magic.threads import module_lock
from llama_magic.weakly import when_gone


@runtime_checkable
class TokenVocabulary(Protocol):
    """What the masks ask of a tokenizer. `fingerprint` is equal for equal vocabularies.

    May also have `vocab_ptr` (a `llama_vocab *`) and `tokenize_fptr` (the address of
    `llama_tokenize`): then llguidance calls llama.cpp for the canonical split of forced text.
    """

    n_tokens: int
    fingerprint: str

    @property
    def eog_ids(self) -> Sequence[int]: ...

    @property
    def eos_id(self) -> int: ...

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of a token, b"" for one without text."""

    def is_control(self, token: int) -> bool:
        """Say whether a token is control, unused or unknown: one that is no text."""

    def tokenize(self, text: str) -> list[int]:
        """Return the tokens of a text, special tokens not parsed."""


class Holes:
    """Remembers which few tokens a mask forbids, for masks that come again (inside a string they do)."""

    _KEPT = 64

    def __init__(self, n_tokens: int) -> None:
        self._n_tokens = n_tokens
        self._kept: OrderedDict[bytes, Any] = OrderedDict()

    def find(self, words: Any) -> Any:
        """Return the ids that a bit mask (uint32 words) forbids, or None at its first sight or if many."""
        key = words.tobytes()
        known = self._kept.get(key, self)
        if known is self:
            self._kept[key] = False  # seen once
        elif known is False:
            self._kept[key] = known = self._expand(words)
        while len(self._kept) > self._KEPT:
            self._kept.popitem(last=False)
        return None if known is self or known is False else known

    def _expand(self, words: Any) -> Any:
        import numpy as np

        bits = np.unpackbits(words.view(np.uint8), bitorder="little", count=self._n_tokens)
        return np.flatnonzero(bits == 0) if int(bits.sum()) > self._n_tokens * 7 // 8 else None


_LONGEST = 1024  # bytes of a token that is offered; of 3,000 llguidance's trie panics
_OF_NUMBER = tuple(bytes([byte]) for byte in b"0123456789.eE")


class Trie:
    """An llguidance tokenizer, and the bytes of the tokens that may be offered.

    What is compiled for it is kept here, so that it goes when the vocabulary goes.
    """

    def __init__(self, vocabulary: TokenVocabulary) -> None:
        from llguidance import LLTokenizer
        from llguidance._tokenizer import TokenizerWrapper

        count = vocabulary.n_tokens
        plain = [bytes(vocabulary.token_bytes(token)) for token in range(count)]
        ends = [int(token) for token in vocabulary.eog_ids] or [int(vocabulary.eos_id)]
        stops = set(ends)
        control = [
            t for t in range(count) if t in stops or vocabulary.is_control(t) or len(plain[t]) > _LONGEST
        ]
        tokens = list(plain)
        for token in control:  # 0xff before the text marks a special token in llguidance's trie
            text = plain[token] if len(plain[token]) <= _LONGEST else b""
            tokens[token] = b"\xff" + (text or b"<%d>" % token)
            plain[token] = b""
        if vocabulary.eos_id in stops:
            ends = [int(vocabulary.eos_id), *(t for t in ends if t != vocabulary.eos_id)]
        self.n_tokens = count
        self.holes = Holes(count)
        self.constraints: OrderedDict[Any, Any] = OrderedDict()
        self.calls: OrderedDict[str, Any] = OrderedDict()  # grammars of tool calls
        self.completing: OrderedDict[tuple[bytes, int], Any] = OrderedDict()  # see `callmasks`
        self.ends = tuple(ends)
        self.plain = plain  # bytes of each token, b"" for one that is no text
        self.longest = max(map(len, plain), default=1)
        pointer = getattr(vocabulary, "vocab_ptr", None)
        function = getattr(vocabulary, "tokenize_fptr", None)
        slices = LLTokenizer.json_slices()
        self.tokenizer: Any = None
        self._owner: weakref.ref[Any] | None = None  # whose memory `tokenizer` calls into
        if pointer is not None and function is not None:
            self._owner = weakref.ref(vocabulary)
            # It asks for a control byte that is a token by itself; few vocabularies have none.
            with contextlib.suppress(ValueError):
                self.tokenizer = LLTokenizer.from_llamacpp(  # type: ignore[attr-defined]
                    tokens=tokens, vocab_ptr=pointer, tokenize_fptr=function, eos_token=ends, slices=slices
                )
        if self.tokenizer is None:
            wrapper = TokenizerWrapper(_Source(vocabulary, tokens, control))
            self.tokenizer = LLTokenizer(wrapper, n_vocab=count, eos_token=ends, slices=slices)

    def check(self) -> None:
        """Raise `ModelClosedError` where the model is gone that llguidance would call into."""
        if self._owner is not None:
            owner = self._owner()
            if owner is None or not owner.vocab_ptr:  # which raises once the model is closed
                raise ModelClosedError("The model was unloaded; load it again, and ask it for a constraint.")

    @functools.cached_property
    def texts(self) -> list[bytes]:
        """The bytes of all tokens with text, sorted."""
        return sorted({text for text in self.plain if text})

    @functools.cached_property
    def of_number(self) -> Any:
        """The tokens that begin with a digit, a point or an e, one bit each: ((n + 31) // 32,) uint32."""
        import numpy as np

        begins = np.zeros((self.n_tokens + 31) // 32 * 32, dtype=np.uint8)
        begins[[token for token, text in enumerate(self.plain) if text[:1] in _OF_NUMBER]] = 1
        return np.packbits(begins, bitorder="little").view(np.uint32)


class _Source:
    """The shape that llguidance's `TokenizerWrapper` asks for."""

    bos_token_id = None

    def __init__(self, vocabulary: TokenVocabulary, tokens: list[bytes], special: list[int]) -> None:
        self.eos_token_id = int(vocabulary.eos_id)
        self.tokens = tokens
        self.special_token_ids = special
        self._tokenize = vocabulary.tokenize

    def __call__(self, text: bytes | str) -> list[int]:
        return self._tokenize(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)


_tries: OrderedDict[str, tuple[Callable[[], object], Trie]] = OrderedDict()  # each with its owner
_lock = module_lock()
_MAX_TRIES = 4


def trie_for(vocabulary: TokenVocabulary) -> Trie:
    """Return the trie of a vocabulary, built at its first use (0.2 s for 49k tokens, 1 s for 262k).

    With `vocab_ptr` the trie calls into that model: it is kept only as long as the vocabulary
    object lives.
    """
    key = vocabulary.fingerprint
    owner = getattr(vocabulary, "vocab_ptr", None)
    if owner is not None:
        key = f"{key}@{id(vocabulary)}"
    with _lock:
        kept = _tries.get(key)
        if kept is None or (owner is not None and kept[0]() is not vocabulary):  # of one that had its address
            held = (lambda: None) if owner is None else weakref.ref(vocabulary)
            kept = _tries[key] = (held, Trie(vocabulary))
            if owner is not None:
                when_gone(vocabulary, partial(_forget, key))
            while len(_tries) > _MAX_TRIES:
                _tries.popitem(last=False)
        _tries.move_to_end(key)
        return kept[1]


def _forget(key: str) -> None:
    """Let the trie of a dead vocabulary go, unless another one has its address by now."""
    with _lock:
        if key in _tries and _tries[key][0]() is None:
            del _tries[key]


@functools.lru_cache(maxsize=1)
def byte_tokenizer() -> Any:
    """Return an llguidance tokenizer with one token a byte (256 is the end)."""
    from llguidance import LLTokenizer
    from llguidance._tokenizer import TokenizerWrapper

    return LLTokenizer(TokenizerWrapper(_Bytes()), n_vocab=257, eos_token=256, slices=[])


class _Bytes:
    eos_token_id = 256
    bos_token_id = None
    special_token_ids = (256,)
    tokens = (*(bytes([value]) for value in range(256)), b"\xff<end>")

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)
