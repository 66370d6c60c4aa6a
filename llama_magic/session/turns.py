"""The turns of a conversation, and how they stand in a file."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from llama_magic.errors import InputTypeError
from llama_magic.request.messages import assistant_message
from llama_magic.words.given import quoted

if TYPE_CHECKING:
    from llama_magic.model.results import Completion

Message = dict[str, Any]
ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True)
class Turn:
    """What one cell added: `messages` (the answer last), and the system prompt it set, if any.

    `cell` is the identity of the notebook cell, None in a terminal. `completion` is there
    in the kernel that generated it and None after a load from a file.
    """

    messages: tuple[Message, ...]
    cell: str | None = None
    system: str | None = None
    interrupted: bool = False
    completion: Completion | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Branch:
    """The chat as it was before its turns from position `at` on were taken off it, and why they were."""

    turns: tuple[Turn, ...]
    at: int
    reason: str


def answer_message(completion: Completion) -> Message:
    """Return the assistant message that a `Completion` stands for."""
    return assistant_message(completion.text, completion.tool_calls, completion.thinking)


def check_message(message: object, where: str = "messages") -> Message:
    """Return a message if it has a known role and a text; other keys are kept."""
    if not isinstance(message, dict):
        raise InputTypeError(f"{where} holds {quoted(message)}; expected objects with role and content.")
    if message.get("role") not in ROLES:
        raise InputTypeError(f"{where} has the role {message.get('role')!r}; expected {', '.join(ROLES)}.")
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(_part_text(part, where) for part in content)
    if not isinstance(content, str) and not (content is None and message.get("tool_calls")):
        raise InputTypeError(f"{where} has the content {quoted(content)}; expected a text.")
    return {**message, "content": content}


def _part_text(part: object, where: str) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    raise InputTypeError(f"{where} has a content part {quoted(part)}; expected parts of type text.")


def system_of(turns: Sequence[Turn]) -> str | None:
    for turn in reversed(turns):
        if turn.system is not None:
            return turn.system
    return None


def flatten(turns: Sequence[Turn]) -> list[Message]:
    """Return the conversation, system prompt first. Its messages are those of the turns, to be read alone."""
    system = system_of(turns)
    head: list[Message] = [] if not system else [{"role": "system", "content": system}]
    return [*head, *itertools.chain.from_iterable([turn.messages for turn in turns])]


def turns_from_messages(messages: Sequence[Message]) -> list[Turn]:
    """Cut messages into turns: each ends where a user's message follows one of another role."""
    turns: list[Turn] = []
    system: str | None = None
    current: list[Message] = []
    for message in messages:
        if message["role"] == "system" and not turns and not current:
            system = message["content"]
            continue
        if message["role"] == "user" and current and current[-1]["role"] != "user":
            turns.append(Turn(tuple(current)))
            current = []
        current.append(message)
    if current or system:
        turns.append(Turn(tuple(current)))
    if turns:
        turns[0] = replace(turns[0], system=system)
    return turns


def turn_to_dict(turn: Turn) -> dict[str, Any]:
    data: dict[str, Any] = {"messages": list(turn.messages)}
    if turn.cell is not None:
        data["cell"] = turn.cell
    if turn.system is not None:
        data["system"] = turn.system
    if turn.interrupted:
        data["interrupted"] = True
    if turn.completion is not None:
        data |= {"model": turn.completion.model, "seed": turn.completion.seed}
    return data


def turns_from_dicts(items: object, where: str) -> list[Turn]:
    return [_turn_from_dict(item, where) for item in as_list(items, where)]


def _turn_from_dict(item: object, where: str) -> Turn:
    if not isinstance(item, dict):
        raise InputTypeError(f"{where} holds the turn {quoted(item)}; expected an object with messages.")
    cell, system = item.get("cell"), item.get("system")
    if not all(value is None or isinstance(value, str) for value in (cell, system)):
        raise InputTypeError(
            f"{where} holds a turn with cell {cell!r} and system {quoted(system)}; expected texts."
        )
    messages = tuple(check_message(message, where) for message in as_list(item.get("messages"), where))
    return Turn(messages, cell, system, bool(item.get("interrupted", False)))


def branch_from_dict(item: object, where: str) -> Branch:
    at = item.get("at") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(at, int):
        raise InputTypeError(
            f"{where} holds the branch {quoted(item)}; expected an object with turns and at."
        )
    return Branch(tuple(turns_from_dicts(item.get("turns"), where)), at, str(item.get("reason", "")))


def as_list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputTypeError(f'{where} holds no list of messages; expected {{"messages": [...]}} or a list.')
    return value
