"""Another way on from any token of an answer: what stands there instead, and the answer that follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llama_magic.errors import InputTypeError, ModelClosedError, OptionError
from llama_magic.model.branching import Alternative
from llama_magic.model.results import Completion
from llama_magic.request import once
from llama_magic.request.fixed import Fixed
from llama_magic.request.request import piece_of
from llama_magic.request.text import TextStream
from llama_magic.request.tokenizer import going_on, no_such_token
from llama_magic.words.given import quoted

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.request.backend import Backend

_OF_THE_PROMPT = ("prefill", "overflow", "drop_thinking")


class Maker:
    """What an answer was made by, and so what a branch of it is made by. Copies and pickles as None.

    `start` begins the stream of what an assembler has prepared.
    """

    def __init__(
        self, backend: Backend, assembler: Assembler, start: Callable[[Backend, Assembler], Any]
    ) -> None:
        self._backend = backend
        # Not the assembler itself: an answer is kept in a history, and it would keep the error that ended
        # it, and with that every frame which the error went through. Nor its terms, which hold the prompt.
        self._asked_again = assembler.terms.again
        request, self._tokenizer = assembler.request, assembler.tokenizer
        self._head = once.TOKENS.hold(Fixed(request.prompt[: len(request.prompt) - len(request.begun)]))
        self._request = replace(request, prompt=(), text="", messages=(), handle=None)
        self._start = start

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()

    def fork(self, answer: Completion[Any], step: int, choice: object, options: Mapping[str, Any]) -> Any:
        """Return the branch of `answer` that has `choice` at a step, or its stream; see `Completion.fork`."""
        if self._backend.closed:
            raise ModelClosedError(f"The model {answer.model!r} was unloaded, so no branch can be written.")
        changes = dict(options)
        stream = changes.pop("stream", False)
        for name in _OF_THE_PROMPT:
            if name in changes:
                raise OptionError(f"{name} is about the prompt, and a branch keeps that of its answer.")
        begun = (*answer.token_ids[:step], *self._tokens(choice))
        if not begun:
            raise OptionError("The branch begins with nothing.", remedy="Ask the model again instead.")
        sampling = self._request.sampling
        base = {"n": 1, "seed": answer.seed if answer.seeded else None, "sampling": sampling}
        made = self._again({**base, **changes}, begun)
        made.branches = answer._branches
        branch = self._start(self._backend, made)
        return branch if stream else branch.run()

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return the text that each token makes certain; the last one brings what is never whole."""
        stream = TextStream()
        texts = [stream.decode(piece_of(self._tokenizer, self._request, token)) for token in ids]
        if rest := stream.flush():
            texts[-1] += rest
        return tuple(texts)

    def _again(self, changes: Mapping[str, Any], begun: Sequence[int]) -> Assembler:
        again = self._asked_again
        assert again is not None  # every call sets it
        made = again(changes, begun)
        if list(made.request.prompt[: -len(begun)]) != list(once.whole(self._head)):
            raise OptionError("The template is another now than the one that this answer was asked with.")
        return made

    def _tokens(self, choice: object) -> Sequence[int]:
        """Return what stands at the step in place of what was drawn."""
        tokenizer, request = self._tokenizer, self._request
        if isinstance(choice, Alternative):
            choice = choice.token_id
        if isinstance(choice, str):
            return going_on(tokenizer.tokenize, choice) if choice else ()
        if isinstance(choice, bool) or not isinstance(choice, int):
            raise InputTypeError(f"The token is {quoted(choice)}; expected an id, a text, or an alternative.")
        if not 0 <= choice < tokenizer.n_tokens:
            raise no_such_token(tokenizer, f"There is no token {choice}")
        if choice in tokenizer.eog_ids or choice in request.stop_texts:
            written = tokenizer.text(choice)
            raise OptionError(f"The token {written!r} ends the answer: nothing goes on from it.")
        return (choice,)
