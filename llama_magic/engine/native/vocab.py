"""The vocabulary of a loaded model: text to token ids and back, byte for byte."""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import llama_cpp

from llama_magic.engine.native import backend
from llama_magic.engine.native.specials import Specials
from llama_magic.errors import BackendError, InputTypeError, ModelClosedError, OptionError
from llama_magic.starts import STACK, launch
from llama_magic.threads import LeftBehind
from llama_magic.words.given import quoted, utf8

_RUN = 512  # bytes without white space, or of nothing else, from which on a text gets a stack of its own
_A_CHARACTER = 512  # bytes of stack, 323 as measured
_KINDS = bytes(32 if byte in b" \t\n\v\f\r" else 120 for byte in range(256))
_LONG = 2**16  # bytes from which on tokenizing is left behind by Ctrl-C; takes some 20 ms
T = TypeVar("T")
_MAX_BYTES = 2**31 - 1  # llama_tokenize takes an int32 length
_SPM, _BPE, _RWKV = 1, 2, 5  # the types whose tokens stand for every byte of a text
# How GPT-2 writes bytes as characters: the printable ones as they are, the others from U+0100 on.
_PRINTABLE = frozenset((*range(33, 127), *range(161, 173), *range(174, 256)))
_OTHERS = tuple(byte for byte in range(256) if byte not in _PRINTABLE)
_WRITTEN = {byte: chr(byte) for byte in _PRINTABLE} | {b: chr(256 + i) for i, b in enumerate(_OTHERS)}

_INT, _AT, _FLAG = ctypes.c_int32, ctypes.c_void_p, ctypes.c_bool
_TOKENIZE = ctypes.CFUNCTYPE(_INT, _AT, _AT, _INT, _AT, _INT, _FLAG, _FLAG)
_tokenize = _TOKENIZE(("llama_tokenize", backend.LIBRARY))


def _stack_of(data: bytes) -> int:
    """Return how many bytes of stack a text may take that needs more than any thread has, else 0.

    Of many files (DeepSeek's, Mistral's, gpt-oss) llama.cpp cuts texts by `std::regex`, which calls
    itself for each character of a run of letters, of signs or of white space: 26,000 ended the process.
    """
    if len(data) < _RUN:
        return 0
    kinds, longest = data.translate(_KINDS), _RUN
    if b"x" * _RUN not in kinds and b" " * _RUN not in kinds:
        return 0
    while b"x" * longest in kinds or b" " * longest in kinds:
        longest *= 2
    return _A_CHARACTER * longest


def _roomy(vocab: int, text: int, size: int, *rest: Any) -> int:
    """Do as `llama_tokenize` does, with room for a long run: llguidance asks for texts that must follow."""
    stack = _stack_of(ctypes.string_at(text, size)) if size >= _RUN else 0
    if not stack:
        return int(_tokenize(vocab, text, size, *rest))
    made = [0]  # no tokens: then nothing is forced
    done = _thread.allocate_lock()

    def work() -> None:
        try:
            made[0] = int(_tokenize(vocab, text, size, *rest))
        finally:
            done.release()

    with done, contextlib.suppress(BackendError):
        launch(_thread.start_new_thread, work, (), stack=max(stack, STACK))
        waiting = True
        while waiting:
            with contextlib.suppress(KeyboardInterrupt):  # the memory is the caller's, so this wait goes on
                waiting = not done.acquire()
    return made[0]


_tokenize_with_room = _TOKENIZE(_roomy)


class Vocab(Specials):
    """Own nothing; valid as long as its `Weights` are open, whose end waits for the calls that are in C."""

    def __init__(self, pointer: int, end: str) -> None:  # `end`: the id of EOS as the file has it, or ""
        self._pointer: int | None = pointer
        self._calls = LeftBehind()
        self._pieces: dict[tuple[int, bool], bytes] = {}  # those asked for so far
        self.n_tokens = int(llama_cpp.llama_vocab_n_tokens(pointer))
        self.type = int(llama_cpp.llama_vocab_type(pointer))  # 0 none, 1 SPM, 2 BPE, 3 WPM, 4 UGM, 5 RWKV
        self.bos_id = self.named(llama_cpp.llama_vocab_bos)
        self.eot_id = self.named(llama_cpp.llama_vocab_eot)
        self.add_bos = bool(llama_cpp.llama_vocab_get_add_bos(pointer)) and self.bos_id is not None
        self.add_eos = bool(llama_cpp.llama_vocab_get_add_eos(pointer))
        self.named_end, self.drops_end = end, self.type == _BPE

    @property
    def pointer(self) -> int:
        """The `llama_vocab *`; raises `ModelClosedError` once the weights are closed."""
        if self._pointer is None:
            raise ModelClosedError("The model was unloaded; load it again to use its vocabulary.")
        return self._pointer

    def use(self, call: Callable[[int], T]) -> T:
        """Return what a short `call` makes of the pointer; `close` waits for it.

        Raises `ModelClosedError` once the weights are closed.
        """
        return self._calls.here(lambda: call(self.pointer))

    @property
    def tokenize_function(self) -> int:
        """The address of what tokenizes as `llama_tokenize` does, for libraries that call it themselves."""
        function = _tokenize_with_room if self.type == _BPE else _tokenize
        return int(ctypes.cast(function, ctypes.c_void_p).value or 0)

    def tokenize(self, text: str | bytes, *, add_special: bool, parse_special: bool) -> list[int]:
        """Return the token ids of `text`. NUL bytes and any length below 2 GiB are taken."""
        data = _encode(text)
        call = functools.partial(self._tokenize, data, add_special, parse_special)
        stack = _stack_of(data) if self.type == _BPE else 0
        if len(data) < _LONG and not stack:
            return self._calls.here(call)
        return self._calls.run(call, max(stack, STACK))

    def _tokenize(self, data: bytes, add_special: bool, parse_special: bool) -> list[int]:
        # One token a byte at most, plus BOS and EOS, plus a space that SPM vocabularies put in front.
        size = len(data) + 8
        buffer = (ctypes.c_int32 * size)()
        count = llama_cpp.llama_tokenize(
            self.pointer, data, len(data), buffer, size, add_special, parse_special
        )
        if count < 0 and count != -(2**31):
            size = -count
            buffer = (ctypes.c_int32 * size)()
            count = llama_cpp.llama_tokenize(
                self.pointer, data, len(data), buffer, size, add_special, parse_special
            )
        if count < 0:
            raise BackendError(
                f"llama.cpp could not tokenize a text of {len(data):,} bytes.", log=backend.log_tail()
            )
        return buffer[:count]

    @property
    def cuts_at_specials(self) -> bool:
        """Whether what stands between two special tokens is known to be tokenized by itself."""
        return self.type in (_SPM, _BPE)

    @functools.cached_property
    def texts(self) -> tuple[bytes, ...]:
        """The tokens as they stand in the file, for looking through all of them (about 20 ms for 49,000)."""
        get, tokens = llama_cpp.llama_vocab_get_text, range(self.n_tokens)
        return self.use(lambda pointer: tuple(get(pointer, token) or b"" for token in tokens))

    @functools.cached_property
    def lost(self) -> str:
        """The ASCII characters that may leave no token: a BPE vocabulary drops bytes that it lacks."""
        blanks = " \t\n\v\f\r" if self.strips else ""
        return "".join(chr(byte) for byte in self._lacks if byte < 128 and chr(byte) not in blanks) + blanks

    @functools.cached_property
    def _lacks(self) -> tuple[int, ...]:
        if self.type != _BPE:
            return ()
        known = {text for text in self.texts if len(text) <= 2}
        return tuple(byte for byte, char in _WRITTEN.items() if char.encode() not in known)

    @functools.cached_property
    def longest(self) -> int:
        """The most bytes of a text that one token stands for; 0 where a token may stand for any number.

        (WPM has one token for any unknown word, UGM takes white space away.)
        """
        if self.type not in (_SPM, _BPE, _RWKV) or any(0x80 <= byte < 0xC0 for byte in self._lacks):
            return 0
        longest = 0
        # The text of a token in the file is never shorter than what it stands for.
        for token in sorted(range(self.n_tokens), key=lambda token: len(self.texts[token]), reverse=True):
            if len(self.texts[token]) <= longest:
                break
            longest = max(longest, len(self.piece(token, special=True)))
        return longest

    def piece(self, token: int, *, special: bool) -> bytes:
        """Return the bytes that a token stands for; control tokens are empty unless `special`."""
        known = self._pieces.get((token, special))
        if known is None or type(token) is not int:  # True and 1.0 are 1 to a dict
            known = self._pieces[token, special] = self._asked(token, special)
        return known

    def _asked(self, token: int, special: bool) -> bytes:  # apart from `piece`, which is to stay cheap
        self._check(token)
        return self._calls.here(lambda: self._piece(token, special))

    def _piece(self, token: int, special: bool) -> bytes:
        size = 64
        buffer = ctypes.create_string_buffer(size)
        count = llama_cpp.llama_token_to_piece(self.pointer, token, buffer, size, 0, special)
        if count < 0:
            size = -count
            buffer = ctypes.create_string_buffer(size)
            count = llama_cpp.llama_token_to_piece(self.pointer, token, buffer, size, 0, special)
        return buffer.raw[:count]

    def detokenize(self, tokens: Sequence[int], *, remove_special: bool, unparse_special: bool) -> bytes:
        """Return the bytes of a token sequence, with the leading-space rules of the vocabulary."""
        for token in tokens:
            self._check(token)
        return self._calls.here(lambda: self._detokenize(tokens, remove_special, unparse_special))

    def _detokenize(self, tokens: Sequence[int], remove_special: bool, unparse_special: bool) -> bytes:
        count = len(tokens)
        array = (ctypes.c_int32 * max(count, 1))(*tokens)
        size = 16 * count + 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            written = llama_cpp.llama_detokenize(
                self.pointer, array, count, buffer, size, remove_special, unparse_special
            )
            if written >= 0:
                return buffer.raw[:written]
            size = -written + 64

    def text(self, token: int) -> str:
        """Return the token as it stands in the file (`▁Hello`, `<0x0A>`, `<|im_start|>`)."""
        self._check(token)
        known = self._special_texts.get(token)
        return self.use(lambda pointer: _text(pointer, token)) if known is None else known

    @functools.cached_property
    def _special_texts(self) -> dict[int, str]:
        """Those of special tokens: a vocabulary may have 6,000, and all are asked for again and again."""
        ids = (*self.control_ids, *self.user_defined_ids)
        return self.use(lambda pointer: {token: _text(pointer, token) for token in ids})

    def _check(self, token: int) -> None:
        # llama.cpp aborts the process on an id outside the vocabulary.
        if isinstance(token, bool) or not isinstance(token, int):
            raise InputTypeError(f"A token id is {quoted(token)}; expected a whole number.")
        if not 0 <= token < self.n_tokens:
            raise OptionError(f"Token id {token} is outside the vocabulary (0 to {self.n_tokens - 1}).")

    def close(self) -> None:
        """Forget the pointer, so that later use is an error and not a crash.

        Returns when no call is in llama.cpp any more that an interrupt left behind.
        """
        self._pointer = None
        self._calls.finish()
        self._pieces.clear()
        self.__dict__.pop("texts", None)


def _text(pointer: int, token: int) -> str:
    return (llama_cpp.llama_vocab_get_text(pointer, token) or b"").decode("utf-8", "replace")


def _encode(text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        data = text
    elif isinstance(text, str):
        data = utf8(text)
    else:
        raise InputTypeError(f"The text is a {type(text).__name__}; expected str.")
    if len(data) > _MAX_BYTES - 64:
        raise OptionError(f"The text has {len(data):,} bytes; expected less than 2 GiB.")
    return data
