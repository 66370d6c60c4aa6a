"""Text to tokens and back, by the rules that prompts need: BOS once, message text never control."""

from __future__ import annotations

import functools
import itertools
import operator
import re
from collections.abc import Iterable, Iterator, Sequence

from llama_magic.engine.native import Vocab
from llama_magic.engine.segments import FROM, Segments
from llama_magic.formatters import Guards
from llama_magic.request.tokenizer import LEAD, PIECE, TooManyTokensError, at_least, going_on

# Between two letters and a space no released pre-tokenizer looks across, and where no token of the
# vocabulary reaches across either, the tokens on both sides do not depend on each other.
_CUT = re.compile(r"(?<=[A-Za-z]) (?=[A-Za-z])")
_ACROSS = re.compile(rb"[A-Za-z](?:\xc4\xa0|\xe2\x96\x81| )[A-Za-z]")


_SHORT = 64  # characters of a piece between marks whose tokens are remembered for the rest of its prompt
_KNOWN = 4096  # such pieces


class Vocabulary:
    """The tokenizer of a loaded model. Thread-safe; also what constrained decoding asks of one."""

    exact = True

    def __init__(self, native: Vocab, fingerprint: str) -> None:
        self.native = native
        self.fingerprint = fingerprint
        self.n_tokens = native.n_tokens
        self.bos_id = native.bos_id
        self.add_bos = native.add_bos
        self._halved: dict[str, list[str]] = {}

    @property
    def eog_ids(self) -> Sequence[int]:
        return self.native.eog_ids

    @functools.cached_property
    def eos_id(self) -> int:
        ends = [self.native.eos_id, self.native.eot_id, *self.eog_ids]
        return next((token for token in ends if token is not None), 0)

    def look(self) -> None:
        """Ask llama.cpp now for what every use needs: which tokens are no text, and how they are written."""
        self.native.look()
        _ = self.control_texts

    # --- whole prompts ----------------------------------------------------------------------

    def encode(self, text: str, most: int | None = None) -> list[int]:
        """Return the tokens of a prompt: special tokens parsed, BOS in front once if the file asks for it.

        Raises TooManyTokensError where there are certainly more than `most`, and a long text is left.
        """
        return self._once(self._tokens(text, begins=True, parse_special=True, most=most))

    def at_least(self, text: str, start: int = 0) -> int:
        """Return a number of tokens that `text` has at least, without tokenizing it; 0 where none is known.

        Costs about 50 ms at most: of a longer text a beginning (`MEASURED`) is looked at.
        """
        # A text of one piece is tokenized sooner than the longest token is looked for.
        if len(text) - start <= PIECE:
            return 0
        return at_least(text, self.native.longest, self.native.lost, start)

    def _tokens(self, text: str, *, begins: bool, parse_special: bool, most: int | None) -> list[int]:
        """Tokenize a text, a long one in pieces; `begins` says that nothing stands before it."""
        # Of a short text at the end of too many tokens 0 is known: it is counted, and so are all.
        if most is not None and (least := self.at_least(text)) > max(0, most):
            raise TooManyTokensError(least)
        known = self._segments if parse_special and len(text) >= FROM else None
        if known is not None and len(cut := known.cut(text)) > 1:
            return self._of_segments(known, text, cut, begins, most)
        tokenize = functools.partial(self.native.tokenize, add_special=False, parse_special=parse_special)
        tokens: list[int] = []
        at = 0
        for piece in self._pieces(text) if len(text) > PIECE else (text,):
            if begins and at == 0:
                tokens += self.native.tokenize(piece, add_special=True, parse_special=parse_special)
            else:
                tokens += going_on(tokenize, piece, self._leads[parse_special])
            at += len(piece)
            self._stop(tokens, text, at, most)
        return tokens

    def _stop(self, tokens: list[int], text: str, at: int, most: int | None) -> None:
        """Stop at more than `most` tokens, where much is left to read: else all is counted, part by part."""
        if most is not None and len(tokens) > most and len(text) - at > PIECE:
            raise TooManyTokensError(len(tokens) + self.at_least(text, at))

    # --- prompts that come again, a turn longer ------------------------------------------------

    @functools.cached_property
    def _segments(self) -> Segments | None:
        """What remembers the tokens between two marks; None where a mark is not alone in what it does."""
        native = self.native
        if native.add_eos or native.strips or not native.cuts_at_specials:
            return None
        texts = {token: self.text(token).replace("▁", " ") for token in native.parsed_ids}
        return Segments([texts[token] for token in native.control_ids], texts.values())

    def _of_segments(
        self, known: Segments, text: str, cut: list[str], begins: bool, most: int | None
    ) -> list[int]:
        """Tokenize a text that is `cut` before its marks: all but the first piece begin with one."""
        first, *others = cut
        tokens: list[int] = []
        if first or begins:  # where nothing stands before it, there may be a BOS
            tokens = self._tokens(first, begins=begins, parse_special=True, most=most)
        at = len(first)
        for segment in others:
            tokens += known.tokens(segment, self._marked)
            at += len(segment)
            self._stop(tokens, text, at, most)
        return tokens

    def _marked(self, segment: str) -> list[int]:
        """Tokenize a text that begins with a mark; no space is put before it."""
        tokenize = functools.partial(self.native.tokenize, add_special=False, parse_special=True)
        if len(segment) <= PIECE:
            return tokenize(segment)
        first, *others = self._pieces(segment)
        return tokenize(first) + [
            token for piece in others for token in going_on(tokenize, piece, self._leads[True])
        ]

    @functools.cached_property
    def _leads(self) -> tuple[list[int], list[int]]:
        """The tokens of a line break, and those where special tokens are parsed."""
        tokenize = functools.partial(self.native.tokenize, LEAD, add_special=False)
        return tokenize(parse_special=False), tokenize(parse_special=True)

    def _pieces(self, text: str) -> Iterator[str]:
        """Cut a text where that does not change its tokens."""
        start = 0
        while self._can_cut and (cut := _CUT.search(text, start + PIECE)) is not None:
            yield text[start : cut.start()]
            start = cut.start()
        yield text[start:]

    @functools.cached_property
    def _can_cut(self) -> bool:
        native = self.native
        if native.longest == 0 or native.add_eos:
            return False
        if any(_ACROSS.search(text) for text in native.texts):
            return False
        # What stands before a piece in its stead must not be drawn into it.
        lead = self._leads[False]
        return native.tokenize(f"{LEAD} a", add_special=False, parse_special=False)[: len(lead)] == lead

    def apart(self, text: str) -> int | None:
        """Return the first place in a part of a prompt where both sides are tokenised by themselves."""
        return None if self._segments is None else self._segments.first(text)

    def encode_parts(
        self, parts: Iterable[tuple[str, bool]], most: int | None = None, *, begins: bool = True
    ) -> list[int]:
        """Return the tokens of a prompt in parts `(text, literal)`; not `begins`: of the rest of one.

        Ordinary parts are joined before they are tokenised, so the tokens are those of the
        whole text. A literal part is message text that looks like a control token: it is cut
        where no special token can match (parsing "off" still matches user-defined tokens).
        Raises TooManyTokensError like `encode`.
        """
        runs: list[tuple[str, bool]] = []
        written = [(text, bool(literal)) for text, literal in parts if text]
        for literal, run in itertools.groupby(written, key=operator.itemgetter(1)):
            if literal:
                runs += [(piece, True) for text, _ in run for piece in self._disarm(text)]
            else:
                runs.append(("".join(text for text, _ in run), False))
        tokens: list[int] = []
        known: dict[tuple[str, bool], list[int]] = {}  # forged marks come again and again
        for i, (text, literal) in enumerate(runs):
            more = known.get((text, literal))
            if more is None:
                left = None if most is None else most - len(tokens)
                first = begins and i == 0
                more = self._tokens(text, begins=first, parse_special=not literal, most=left)
                if not first and len(text) <= _SHORT and len(known) < _KNOWN:
                    known[text, literal] = more
            tokens += more
        if not begins:
            return tokens
        if not runs:
            tokens = self.native.tokenize("", add_special=True, parse_special=True)
        return self._once(tokens)

    def _once(self, tokens: list[int]) -> list[int]:
        """Drop a BOS that the text wrote itself, after the one that the vocabulary adds."""
        if self.add_bos:
            while len(tokens) > 1 and tokens[0] == tokens[1] == self.bos_id:
                del tokens[0]
        return tokens

    def _disarm(self, text: str) -> list[str]:
        """Cut `text` so that no piece holds the text of a special token; what holds none stays whole.

        Blanks are none.
        """
        pieces, at = list[str](), 0
        for start, end in self._guards.find(text):
            pieces += [text[at:start], *self._halves(text[start:end])]
            at = end
        return [piece for piece in (*pieces, text[at:]) if piece]

    @functools.cached_property
    def _guards(self) -> Guards:
        return Guards(self.special_texts)

    def _halves(self, mark: str) -> list[str]:
        """Return both halves of a special token's text, its characters where a half is such a text, too."""
        halves = self._halved.get(mark)
        if halves is None:
            halves = [mark[: len(mark) // 2], mark[len(mark) // 2 :]]
            halves = self._halved[mark] = list(mark) if any(map(self._guards.find, halves)) else halves
        return halves

    @functools.cached_property
    def special_texts(self) -> frozenset[str]:
        """Texts of control and user-defined tokens, two characters or longer."""
        ids = self.native.control_ids | self.native.user_defined_ids
        return frozenset(t for t in (self.native.text(i) for i in ids) if len(t) > 1)

    @functools.cached_property
    def control_texts(self) -> frozenset[str]:
        """Texts of the tokens that can open or close something: control tokens and ends of generation."""
        ids = self.native.control_ids | set(self.eog_ids)
        return frozenset(t for t in (self.native.text(i) for i in ids) if len(t) > 1)

    # --- the other way ----------------------------------------------------------------------

    def decode(self, tokens: Sequence[int], *, special: bool = True) -> str:
        """Return the text of tokens; a BOS that `encode` would add is left out."""
        data = self.native.detokenize(tokens, remove_special=self.add_bos, unparse_special=special)
        return data.decode("utf-8", "replace")

    def piece(self, token: int) -> bytes:
        """Return the bytes of one token, control tokens as they are written."""
        return self.native.piece(token, special=True)

    def text(self, token: int) -> str:
        """Return a token as it stands in the file (`▁Hello`, `<0x0A>`, `<|im_start|>`)."""
        return self.native.text(token)

    @property
    def longest(self) -> int:
        """Bytes of the longest token, 0 where there is no such bound."""
        return self.native.longest

    @property
    def control_ids(self) -> frozenset[int]:
        return self.native.control_ids

    @property
    def user_defined_ids(self) -> frozenset[int]:
        return self.native.user_defined_ids

    def special_id(self, text: str) -> int | None:
        """Return the id of the control or user-defined token that is written `text`, if there is one."""
        if len(text) > self._longest_special + 8:  # with blanks around it
            return None
        tokens = self.native.tokenize(text, add_special=False, parse_special=True)
        if len(tokens) == 1 and tokens[0] in (self.native.control_ids | self.native.user_defined_ids):
            return tokens[0]
        return None

    @functools.cached_property
    def _longest_special(self) -> int:
        return max(map(len, self.special_texts), default=0)

    # --- what constrained decoding asks (structured.TokenVocabulary) -------------------------

    @property
    def vocab_ptr(self) -> int:
        return self.native.pointer

    @property
    def tokenize_fptr(self) -> int:
        return self.native.tokenize_function

    def token_bytes(self, token: int) -> bytes:
        return self.native.piece(token, special=False)

    def is_control(self, token: int) -> bool:
        return token in self.native.control_ids or not self.native.piece(token, special=False)

    def tokenize(self, text: str | bytes) -> list[int]:
        return self.native.tokenize(text, add_special=False, parse_special=False)
