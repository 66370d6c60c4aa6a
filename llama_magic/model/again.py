"""The call of a receipt, asked again: what it says is all that an equal answer needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from llama_magic.errors import InputTypeError, OptionError, shown_briefly
from llama_magic.model.asked import KEYED, OF_A_CALL, Beside
from llama_magic.model.keyed import from_text
from llama_magic.model.options import StructuredOptions, shows
from llama_magic.model.results import Completion
from llama_magic.model.shapes import Receipt, check
from llama_magic.model.stream import Stream
from llama_magic.model.thinking import Thinking
from llama_magic.request.request import first_seed
from llama_magic.request.sampling import Sampling
from llama_magic.words.counting import counted
from llama_magic.words.given import quoted
from llama_magic.words.signature import refusing

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.call import Calls
    from llama_magic.structured import Constraint


@refusing
class Repeating:
    """What `Model` can be asked to write again."""

    _calls: Calls

    def _open(self) -> None:
        """Raise `ModelClosedError` where the model is closed."""
        raise NotImplementedError

    @shows(StructuredOptions)
    @shown_briefly("The call")
    def rerun(self, answer: Any, *, stream: bool = False, **changes: Any) -> Any:
        """Ask again what an answer, or a receipt, says was asked; `changes` are options of a call.

        Nothing changed, a seeded answer of the same file and engine comes out equal, token for token; an
        unseeded one is given the seed that it drew. Of one of several samples all are written again, and
        this one is returned (with `n` changed, all). Of a structured answer the one attempt is repeated.
        """
        self._open()
        receipt, held = receipt_of(answer)
        made: Stream[Any] = Stream(self._calls.backend, again(self._calls, receipt, changes, held))
        if stream:
            return made
        done = made.run()
        return sample_of(receipt, done) if isinstance(done, list) and "n" not in changes else done

    @shown_briefly("The repetition")
    def repeated(self, receipt: Any) -> list[Completion[Any]]:
        """Return the answers of the call that a receipt is of, written again; no history is told of them."""
        self._open()
        told, held = receipt_of(receipt)
        changes: dict[str, Any] = {"timeout": None}
        if told["finish_reason"] in ("interrupted", "timeout") and held is None:  # no need to go further
            changes["max_tokens"] = max(1, len(told["token_ids"]))
        made = again(self._calls, told, changes, held)
        made.listed = False
        done: Any = Stream(self._calls.backend, made).run()
        return done if isinstance(done, list) else [done]


def sample_of(receipt: Receipt, written: Sequence[Completion[Any]]) -> Completion[Any]:
    """Return the answer that a receipt is of. Raises `OptionError` where its call has not so many."""
    sample = receipt.get("sample", 0)
    if sample >= len(written):
        many = counted(len(written), "answer")
        raise OptionError(f"It is said to be sample {sample} (from 0) of a call of {many}.")
    return written[sample]


_NEEDED = ("mode", "messages", "sampling", "seed", "token_ids", "budget")


def receipt_of(answer: object) -> tuple[Receipt, Constraint | None]:
    """Return the receipt of an answer, an entry of the history or a line of an export, and its constraint.

    Raises `InputTypeError` for what is none of these.
    """
    answer = getattr(answer, "completion", answer)
    if isinstance(answer, Completion):
        return answer.receipt, answer._constraint
    if isinstance(answer, Mapping) and isinstance(answer.get("receipt"), Mapping):  # a line of an export
        answer = answer["receipt"]
    if isinstance(answer, Mapping) and "earlier" in answer:
        raise InputTypeError(
            "This receipt refers to answers that were saved before it.",
            remedy="lm.verify takes the whole notebook; a record keeps each receipt whole.",
        )
    if isinstance(answer, Mapping) and all(name in answer for name in _NEEDED):
        return check(answer), None
    if isinstance(answer, Mapping) and "samples" in answer:
        raise InputTypeError(
            "This is the receipt of several samples.", remedy='Pass one of them: receipt["samples"][0].'
        )
    raise InputTypeError(f"Got {quoted(answer)}; expected an answer or its receipt.")


def again(calls: Calls, receipt: Receipt, changes: Mapping[str, Any], held: Constraint | None) -> Assembler:
    """Prepare the call that a receipt is of, with some options changed.

    `held` is its constraint where that is at hand; else it is compiled from the receipt. Of a structured
    answer this is the one attempt that the receipt tells of.
    """
    asked = receipt.get("asked", {})
    seed = asked.get("seed", first_seed(receipt["seed"], receipt.get("sample", 0)))
    options: dict[str, Any] = {name: asked[name] for name in OF_A_CALL if name in asked}
    options |= {"seed": seed, "max_tokens": receipt["budget"]["max_tokens"]}
    options |= {"sampling": Sampling(**receipt["sampling"]), **changes}
    begun = tuple(receipt["token_ids"][: receipt.get("begun", 0)])
    if begun and "prefill" in asked:
        options, begun = {"prefill": asked["prefill"], **options}, ()
    if held is None and "constraint" in asked:
        kinds = {name: value for name, value in asked["constraint"].items() if name != "kind"}
        held = calls.constraint(from_text(kinds.pop("schema", None)), **kinds)
    if not receipt["messages"]:
        if not asked.get("prompt") and "prompt" not in receipt:
            raise InputTypeError("The receipt is damaged: its prompt is missing, and it has no messages.")
        prompt = asked.get("prompt") or receipt["prompt"].removesuffix(calls.written(begun))
        return calls.text(prompt, held, options, receipt["mode"], begun=begun)
    kept = {f.name: asked[f.name] for f in fields(Beside) if f.name in asked}
    beside = Beside(**kept | {name: from_text(kept[name]) for name in KEYED if name in kept})
    thinking = None
    if receipt["mode"] == "structured":
        thinking = Thinking.choose(calls.formatter, beside.thinking, beside.template_variables)
    return calls.chat(receipt["mode"], _messages(receipt), held, options, beside, thinking, begun=begun)


def _messages(receipt: Receipt) -> list[dict[str, Any]]:
    """Return the conversation that was asked, the answer left out."""
    asked = receipt.get("asked", {})
    if "messages" in asked:
        return list(asked["messages"])
    messages = list(receipt["messages"])
    last = messages.pop()
    if "prefill" in asked and not receipt.get("begun"):  # it was added to, and stands before the answer
        messages.append({**last, "content": asked["prefill"]})
    return messages
