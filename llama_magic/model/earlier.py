"""A conversation that grows: an answer as it is saved refers to what answers saved before it hold.

Otherwise the answer of turn 200 would repeat 199 turns, and a notebook would grow with the square of
its turns. `restored` puts the receipts of a notebook together again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from llama_magic.model.growing import GrowingDigest
from llama_magic.model.results import BudgetPart, Completion
from llama_magic.model.shapes import flaw

_FEW = 12  # parts of a prompt that are told one by one
_TURNS = frozenset(("user", "assistant", "tool"))
_STAY = ("system", "developer")
Messages = Sequence[Mapping[str, Any]]


_SHARED = ("engine", "file", "sampling")  # of a receipt: mostly as in the turn before


@dataclass(frozen=True)
class Earlier:
    """What answers saved before hold of a chat: its messages before a turn, and the last of these answers.

    `own` is the number of the turn's own messages: those of the cell, and the answer. `told` is of the chat.
    """

    messages: Messages
    own: int
    last: Completion[Any] | None = None
    told: Digests | None = None


class Digests:
    """The digests of a chat that grows: what was read for the last of them is not read again.

    Any thread asks; each digest is that of all of the text, whatever was asked before.
    """

    def __init__(self) -> None:
        self._said: tuple[list[Any], list[Any], Any] = [], [], hashlib.sha256(b"[")
        self._prompt = GrowingDigest(hashlib.sha256)

    def __reduce__(self) -> Any:
        return Digests, ()  # what a hash has read cannot be copied out of this process

    def of_messages(self, messages: Messages) -> str:
        """Return `digest` of a conversation."""
        try:
            roles, contents = list(map(_ROLE, messages)), list(map(_CONTENT, messages))
        except KeyError:  # a message without a content
            return digest(messages)
        if not (_TEXTS.issuperset(map(type, roles)) and _TEXTS.issuperset(map(type, contents))):
            return digest(messages)  # what may change, or is equal to what is written otherwise
        of_roles, of_contents, read = self._said
        known = len(of_roles)
        if roles[:known] != of_roles or contents[:known] != of_contents:
            known, read = 0, hashlib.sha256(b"[")
        read = read.copy()
        said = list(zip(roles[known:], contents[known:], strict=True))
        if new := json.dumps(said, separators=(",", ":"))[1:-1]:
            read.update(f"{',' if known else ''}{new}".encode())
        self._said = roles, contents, read
        whole = read.copy()
        whole.update(b"]")
        return str(whole.hexdigest())

    def of_prompt(self, text: str) -> str:
        """Return the SHA-256 of a prompt."""
        return self._prompt.digest(text)


_ROLE, _CONTENT = itemgetter("role"), itemgetter("content")
_TEXTS = frozenset((str, type(None)))


def digest(messages: Messages) -> str:
    """Return the SHA-256 of a conversation: of `[[role, content], …]` as compact ASCII JSON."""
    return _sha256(json.dumps([_said(message) for message in messages], separators=(",", ":"), default=str))


def receipt_of_turn(completion: Completion[Any], earlier: Earlier) -> dict[str, Any]:
    """Return a receipt with its own turn alone, a reference to what came before, and the prompt's digest.

    File, engine and sampling are left out where they are those of the answer before, and the prompt's parts;
    so is the message of the answer where it says what `text` does.
    The receipt is whole where the prompt is not what came before and the turn, as after `truncate-prompt`.
    """
    sent, own = completion.messages[: -earlier.own], completion.messages[-earlier.own :]
    left_out = len(earlier.messages) - len(sent)
    kept = without_oldest(earlier.messages, left_out)
    if earlier.last is None or (list(sent) != kept and list(map(_said, sent)) != list(map(_said, kept))):
        return completion.receipt
    own_budget = replace(completion.budget, parts=())
    receipt = replace(completion, prompt="", messages=own, budget=own_budget).receipt
    told = earlier.told or Digests()
    reference = {"messages": len(earlier.messages), "sha256": told.of_messages(earlier.messages)}
    before = {**earlier.last.made_with, "sampling": earlier.last.sampling.to_dict()}
    same = [key for key in _SHARED if key in receipt and receipt[key] == before.get(key)]
    return {
        **{key: value for key, value in receipt.items() if key not in ("prompt", *same)},
        "prompt_sha256": told.of_prompt(completion.prompt),
        "budget": {key: value for key, value in receipt["budget"].items() if key != "parts"},
        "earlier": {**reference, **({"left_out": left_out} if left_out else {}), "same": same},
        "messages": list(own[:-1] if own[-1] == _answer(receipt) else own),
    }


def restored(receipts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the receipts of a notebook, in its order, each with all messages that were sent for it.

    One that refers to what is not there stays as it is, with `earlier` in it, and so does a damaged one.
    """
    conversations: dict[str, tuple[list[Any], dict[str, Any]]] = {}
    found: list[dict[str, Any]] = []
    for receipt in map(dict, receipts):
        if flaw(receipt, of_a_turn=True) is not None:
            found.append(receipt)
            continue
        own = list(receipt.get("messages", ()))
        reference = receipt.get("earlier")
        known = ([], {}) if reference is None else conversations.get(reference["sha256"])
        if known is not None:
            before, last = known
            if reference is not None:
                receipt |= {key: last[key] for key in reference["same"] if key in last}
                if not own or own[-1].get("role") != "assistant":
                    own.append(_answer(receipt))
                receipt["messages"] = [*without_oldest(before, reference.get("left_out", 0)), *own]
                del receipt["earlier"]
            conversations[digest([*before, *own])] = ([*before, *own], receipt)
        found.append(receipt)
    return found


def without_oldest(messages: Messages, count: int) -> list[Mapping[str, Any]]:
    """Return a conversation without its `count` oldest messages; system and developer messages stay."""
    if count <= 0:
        return list(messages)
    kept = []
    for message in messages:
        if count > 0 and message.get("role") not in _STAY:
            count -= 1
        else:
            kept.append(message)
    return kept


def gathered(parts: Sequence[BudgetPart]) -> tuple[BudgetPart, ...]:
    """Return the parts of a prompt, those of many earlier messages as one."""
    turns = [part for part in parts if part.kind in _TURNS] if len(parts) > _FEW else []
    if len(turns) < 3:
        return tuple(parts)
    *old, last = turns
    first = next(at for at, part in enumerate(parts) if part is old[0])
    one = BudgetPart("earlier turns", "earlier", sum([part.tokens for part in old]))
    rest = [part for part in parts[first:] if part.kind not in _TURNS or part is last]
    return (*parts[:first], one, *rest)


def _answer(receipt: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": receipt["text"]}


def _said(message: Mapping[str, Any]) -> list[Any]:
    return [message.get("role"), message.get("content")]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
