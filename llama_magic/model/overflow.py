"""Makes a prompt fit its window, as the caller chose: refused, oldest turns left out, or cut.

What cannot fit by arithmetic alone is neither rendered nor tokenized. System and developer messages
stay wherever they stand, and so does the last turn: the last user's message and all that follows it.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from llama_magic.errors import ContextOverflowError, InputTypeError
from llama_magic.model.guard import Guard
from llama_magic.model.left_out import named, renumbered
from llama_magic.model.prompt import Prompt, from_text, is_begun
from llama_magic.model.results import BudgetPart
from llama_magic.request.filled import Filled, spans_of
from llama_magic.request.tokenizer import MEASURED, PIECE, Tokenizer, TooManyTokensError
from llama_magic.words.counting import counted

Render = Callable[[Sequence[Any]], Prompt]  # raises TooManyTokensError
_STAYS = ("system", "developer")
_CONTENT = itemgetter("content")


@dataclass(frozen=True)
class Fit:
    """What it takes to fit one prompt: the guard, the tokens asked for, the tokenizer."""

    guard: Guard
    max_tokens: int | None
    tokenizer: Tokenizer

    @property
    def room(self) -> int:
        """Tokens that a prompt may have."""
        return self.guard.window - self.guard.reserve(self.max_tokens)

    def text(self, text: object) -> tuple[Prompt, int]:
        """Return a raw prompt that fits, and the tokens reserved; `truncate-prompt` cuts its beginning."""
        try:
            prompt = from_text(self.tokenizer, text, self.guard.window)
            return prompt, self.guard.check(prompt, self.max_tokens)
        except (TooManyTokensError, ContextOverflowError) as problem:
            error, counted_out = self._error(problem, text), isinstance(problem, ContextOverflowError)
        if self.guard.overflow != "truncate-prompt" or not isinstance(text, str):
            raise error
        prompt = from_text(self.tokenizer, self._tail(text))
        bos = self.tokenizer.add_bos and prompt.ids[0] == self.tokenizer.bos_id
        first = prompt.ids[:1] if bos else []
        room = self.room - len(first)
        if room < 1:
            raise error
        ids = [*first, *prompt.ids[max(len(first), len(prompt.ids) - room) :]]
        kept = self.tokenizer.decode(ids)
        cut = counted(error.prompt_tokens - len(ids), "token")
        if not counted_out:
            cut = counted(len(text) - len(kept), "character")
        note = f"Cut the first {cut} of the prompt to fit the window of {self.guard.window:,}."
        parts = (BudgetPart("prompt", "prompt", len(ids)),)
        notes = (*prompt.notes, note)
        done = replace(prompt, ids=ids, told="", text=kept, parts=parts, notes=notes, shortened=True)
        return done, self.guard.check(done, self.max_tokens)

    def messages(self, messages: Sequence[Any], render: Render) -> tuple[Prompt, int]:
        """Return the prompt of a conversation that fits, and the tokens reserved; notes say what is gone."""
        try:
            return self._try(messages, render)
        except ContextOverflowError as error:
            if self.guard.overflow == "drop-oldest":
                return self._drop(messages, render, error)
            if self.guard.overflow == "truncate-prompt":
                return self._cut(messages, render, error)
            raise

    def _try(self, messages: Sequence[Any], render: Render) -> tuple[Prompt, int]:
        try:
            least = self._least(messages) if _may_be_long(messages) else 0
            least += self._least_begun(messages[-1]) if is_begun(messages) else 0
            if least > self.guard.window:
                raise TooManyTokensError(least)
            prompt = render(messages)
        except TooManyTokensError as problem:
            raise self._error(problem, messages) from None
        return prompt, self.guard.check(prompt, self.max_tokens)

    def _error(self, problem: TooManyTokensError | ContextOverflowError, prompt: Any) -> ContextOverflowError:
        if isinstance(problem, ContextOverflowError):
            return problem
        return self.guard.too_long(problem.least, self.max_tokens, _most_of(prompt))

    def _least(self, messages: Sequence[Any]) -> int:
        # Templates leave out the thinking of past answers; all else is written whole, white space apart.
        written = (_texts(message) for message in messages if _role(message) != "assistant")
        looked_at, size = list[str](), 0
        for text in itertools.chain.from_iterable(written):
            looked_at.append(_stripped(text))
            size += len(looked_at[-1])
            if size >= MEASURED:
                break
        return self.tokenizer.at_least("".join(looked_at))

    def _least_begun(self, message: Any) -> int:
        """Return it for the beginning of an answer, which is written as it stands, thinking apart."""
        text = "".join(_texts(message))
        ended = text.rfind("</think>")
        return self.tokenizer.at_least(_stripped(text[ended + len("</think>") :] if ended >= 0 else text))

    def _tail(self, text: str) -> str:
        """Return the end of a text that has all tokens that could fit, and not much more."""
        longest = self.tokenizer.longest
        return text[-self.guard.window * longest :] if longest else text

    def _drop(
        self, messages: Sequence[Any], render: Render, error: ContextOverflowError
    ) -> tuple[Prompt, int]:
        """Leave out the oldest exchanges: the fewest that make it fit, in whole steps where many are kept.

        A chat that goes on would else lose one exchange each turn, and all the rest be read anew each time.
        """
        old = _exchanges(messages)
        best: tuple[Prompt, int] | None = None
        low, high = 1, len(old)
        while low <= high:
            count = (low + high) // 2
            try:
                best, high = self._without(old[:count], messages, render), count - 1
            except ContextOverflowError as last:
                if count == len(old):
                    raise self._even_so(last, count) from None
                low = count + 1
        if best is None:
            raise error
        step = _step(len(old) - low)
        if (rounded := -(-low // step) * step) > low:
            with contextlib.suppress(ContextOverflowError):  # of a template to which less is more
                best = self._without(old[:rounded], messages, render)
        return best

    def _without(
        self, exchanges: Sequence[Sequence[int]], messages: Sequence[Any], render: Render
    ) -> tuple[Prompt, int]:
        dropped = sorted(itertools.chain.from_iterable(exchanges))
        gone = set(dropped)
        roles = Counter(_role(messages[index]) for index in dropped)
        kept = [m for i, m in enumerate(messages) if i not in gone]
        prompt, limit = self._try(kept, lambda chat: renumbered(render(chat), roles))
        what = named(roles, _of(messages[dropped[0]], "content"))
        note = f"Left out {what} to fit the window of {self.guard.window:,} tokens."
        return replace(prompt, notes=(*prompt.notes, note), shortened=True), limit

    @staticmethod
    def _even_so(error: ContextOverflowError, count: int) -> ContextOverflowError:
        what = "the oldest exchange" if count == 1 else f"all {count} older exchanges"
        return ContextOverflowError(
            f"Even without {what}: {error.said[0]}",
            prompt_tokens=error.prompt_tokens,
            max_tokens=error.max_tokens,
            window=error.window,
            parts=error.parts,
            remedy=error.said[1],
        )

    def _cut(
        self, messages: Sequence[Any], render: Render, error: ContextOverflowError
    ) -> tuple[Prompt, int]:
        """Cut the beginning of the longest text of a user or tool, by the fewest characters that help."""
        sizes = [
            (sum(map(len, texts)), index)
            for index, message in enumerate(messages)
            if (texts := _texts(message)) and _role(message) in ("user", "tool")
        ]
        if not sizes:
            raise error
        length, place = max(sizes)
        content = "".join(_texts(messages[place]))
        message = _fields(messages[place])
        low, high = max(1, length - len(self._tail(content))), length - 1  # characters cut off
        best: tuple[Prompt, int, int] | None = None
        while low <= high:
            cut = (low + high) // 2
            shorter = [*messages[:place], {**message, "content": content[cut:]}, *messages[place + 1 :]]
            try:
                prompt, limit = self._try(shorter, render)
            except ContextOverflowError:
                low = cut + 1
                continue
            best, high = (prompt, limit, cut), cut - 1
        if best is None:
            raise error
        prompt, limit, cut = best
        which = "the last message" if place == len(messages) - 1 else f"messages[{place}]"
        note = (
            f"Cut the first {counted(cut, 'character')} of {which} to fit the window of "
            f"{self.guard.window:,} tokens; it begins now with {content[cut : cut + 20]!r}."
        )
        return replace(prompt, notes=(*prompt.notes, note), shortened=True), limit


def _most_of(prompt: Any) -> str:
    """Name the longest text of a prompt, a variable where one is most of it, and how long it is."""
    if isinstance(prompt, str):
        texts = [("one text", prompt)]
    else:
        contents = [(f"messages[{index}]", _texts(message)) for index, message in enumerate(prompt)]
        texts = [(label, text) for label, held in contents for text in held]
    if not texts:
        return counted(len(prompt), "token")
    label, text = max(texts, key=lambda pair: len(pair[1]))
    size = len(text)
    if 10 * size < sum(len(text) for _, text in texts):
        return f"{counted(len(texts), 'message' if len(texts) <= len(prompt) else 'text')} together"
    for name, start, end in spans_of(text):
        if 2 * (end - start) > len(text):
            label, size = f"{{{{ {name} }}}}", end - start
    return f"{label}, {counted(size, 'character')}"


def _may_be_long(messages: Sequence[Any]) -> bool:
    """Say whether a list of messages may hold more text than is tokenized sooner than it is looked at."""
    if not isinstance(messages, (list, tuple)):
        return False
    try:  # nearly always dicts with texts, hundreds of them in a long chat
        contents = [*map(_CONTENT, messages)]
        return sum(map(len, contents)) > PIECE or not {*map(type, contents)} <= {str, Filled}
    except Exception:  # whatever the object of a stranger raises: the look at it says what it is
        return True


def _texts(message: Any) -> list[str]:
    """Return the texts of a message's content, which is one, or has parts."""
    content = _of(message, "content")
    parts = content if isinstance(content, (list, tuple)) else [content]
    texts = (part if isinstance(part, str) else _of(part, "text") for part in parts)
    return [text for text in texts if isinstance(text, str)]


def _stripped(text: str) -> str:
    """Return `text.strip()`; of a huge text a beginning, which is as good for a bound and no copy of all."""
    return text[:MEASURED].strip() or text.strip()


def _of(message: Any, name: str) -> Any:
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)


def _fields(message: Any) -> dict[str, Any]:
    if isinstance(message, Mapping):
        return dict(message)
    names = ("role", "content", "name", "tool_call_id", "tool_calls")
    return {name: value for name in names if (value := getattr(message, name, None)) is not None}


def _role(message: Any) -> str:
    role = _of(message, "role")
    return str(getattr(role, "value", role))


def _exchanges(messages: Sequence[Any]) -> list[list[int]]:
    """Return the indices of each exchange before the last turn, oldest first, without what always stays.

    An exchange is what users say and all answers and tool results to it.
    """
    if not isinstance(messages, (list, tuple)):
        raise InputTypeError(f"The messages are a {type(messages).__name__}; expected a list of dicts.")
    exchanges: list[list[int]] = []
    before = ""
    for index, message in enumerate(messages):
        role = _role(message)
        if role in _STAYS:
            continue
        if not exchanges or (role == "user" and before != "user"):
            exchanges.append([])
        exchanges[-1].append(index)
        before = role
    return exchanges[:-1]


def _step(kept: int) -> int:
    """Return how many exchanges go at once where `kept` fit: the power of 2 in a quarter of them; or one.

    It is the same turn after turn, so the prompts of a chat begin alike until the next step.
    """
    return 1 << max(0, (kept // 4).bit_length() - 1)
