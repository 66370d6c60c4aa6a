"""The tokens of a vocabulary that are no text. Each token is asked for what it is, at the first look."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import llama_cpp
import numpy as np

from llama_magic.engine.native import backend

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")
# Asked for each of up to 262,144 tokens: a call that keeps the GIL and converts nothing takes half the time.
_attribute = ctypes.PyDLL(None, handle=backend.LIBRARY._handle).llama_vocab_get_attr
_attribute.restype = ctypes.c_int32
_AT_ONCE = 8192  # of them, some 1.5 ms; then other threads have a turn
_USER_DEFINED = 1 << 4  # enum llama_token_attr
_CONTROL = 1 << 3
_PARSED = 1 << 0 | _CONTROL | _USER_DEFINED  # unknown, control, user-defined: looked for before all else
_STRIPS = 1 << 7 | 1 << 8  # takes the white space before or after it away


class Specials:
    """The side of a `Vocab` that knows them. `named_end` is the id of EOS as the file has it, or "".

    `drops_end` says that llama.cpp takes some token for it where the file names none.
    """

    n_tokens: int
    named_end: str
    drops_end: bool

    def use(self, call: Callable[[int], T]) -> T:
        """Return what a short `call` makes of the `llama_vocab *`."""
        raise NotImplementedError

    def look(self) -> None:
        """Ask for all of them now."""
        _ = self.control_ids, self.user_defined_ids, self.parsed_ids, self._ends

    @cached_property
    def control_ids(self) -> frozenset[int]:
        return self._of(_CONTROL)

    @cached_property
    def user_defined_ids(self) -> frozenset[int]:
        return self._of(_USER_DEFINED)

    @cached_property
    def parsed_ids(self) -> frozenset[int]:
        """Those that llama.cpp looks for in a text before all else."""
        return self._of(_PARSED)

    @cached_property
    def strips(self) -> bool:
        """Whether some take the white space beside them away."""
        return bool(self._of(_STRIPS))

    @property
    def eog_ids(self) -> tuple[int, ...]:
        return self._ends[0]

    @property
    def eos_id(self) -> int | None:
        return self._ends[1]

    @cached_property
    def _ends(self) -> tuple[tuple[int, ...], int | None]:
        """The ends of generation, and the one that is EOS."""
        # They are control tokens or named in the file, so only those few need be asked.
        names = ("eos", "eot", "fim_pad", "fim_rep", "fim_sep")
        eos, *others = (self.named(getattr(llama_cpp, f"llama_vocab_{name}")) for name in names)
        found = self.control_ids | self.user_defined_ids
        found |= {token for token in (eos, *others) if token is not None}
        is_end = llama_cpp.llama_vocab_is_eog
        ends = self.use(lambda pointer: tuple(i for i in sorted(found) if is_end(pointer, i)))
        # A BPE file that names no token as its end gets token 11, a comma perhaps: GPT-2's time had it so.
        if self.drops_end and self.named_end != str(eos) and len(ends) > 1:
            return tuple(i for i in ends if i != eos), None
        return ends, eos

    def named(self, getter: Callable[[Any], int]) -> int | None:
        """Return the token that the file names for something."""
        token = int(self.use(getter))
        return token if 0 <= token < self.n_tokens else None

    def _of(self, bits: int) -> frozenset[int]:
        return frozenset(np.flatnonzero(self._attributes & bits).tolist())

    @cached_property
    def _attributes(self) -> NDArray[np.int32]:
        found = np.empty(self.n_tokens, np.int32)
        for start in range(0, self.n_tokens, _AT_ONCE):
            tokens = range(start, min(start + _AT_ONCE, self.n_tokens))

            def ask(pointer: int, tokens: range = tokens) -> NDArray[np.int32]:
                asked = map(_attribute, itertools.repeat(ctypes.c_void_p(pointer)), tokens)
                return np.fromiter(asked, np.int32, len(tokens))

            found[tokens.start : tokens.stop] = self.use(ask)
        return found
