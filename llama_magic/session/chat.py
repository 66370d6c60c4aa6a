"""Conversations: turns that belong to notebook cells, branches that are never lost, a file for other tools.

A `Chat` knows messages and nothing of models. Whoever generates asks `messages_for` what to
send, and calls `commit` once there is an answer; until then the chat is as it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from llama_magic.errors import InputTypeError, OptionError, SourceError
from llama_magic.sources import read_whole, user_path, write_whole
from llama_magic.words.counting import counted
from llama_magic.words.shown import Shown

Message = dict[str, Any]
ROLES = ("system", "user", "assistant", "tool")
_BLOCK_ROLES = ("system", "user", "assistant")


def split_blocks(body: str) -> list[tuple[str, str]]:
    """Cut a chat cell's body into `(role, text)` blocks.

    A block opens at a line that starts, without indentation, with `system:`, `user:` or
    `assistant:` followed by a blank or the end of the line. Such lines count only where the
    first line that is not blank is one; any other body is one user turn, whatever its lines
    say. Blank lines around a block's text are not part of it. To keep a first line that
    only looks like an opening, indent it by one blank.
    """
    lines = body.split("\n")
    first = next((line for line in lines if line.strip()), "")
    if _opening(first) is None:
        return [("user", body)]
    blocks: list[tuple[str, list[str]]] = []
    for line in lines:
        if (opening := _opening(line)) is not None:
            blocks.append((opening[0], [opening[1]]))
        elif blocks:
            blocks[-1][1].append(line)
    return [(role, _trim(text)) for role, text in blocks]


def _opening(line: str) -> tuple[str, str] | None:
    role, colon, rest = line.partition(":")
    if colon and role in _BLOCK_ROLES and (not rest.strip() or rest[0] in " \t"):
        return role, rest.strip()
    return None


def _trim(lines: list[str]) -> str:
    start, end = 0, len(lines)
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return "\n".join(lines[start:end])


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
    completion: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Branch:
    """The chat as it was before its turns from position `at` on were set aside, and why they were."""

    turns: tuple[Turn, ...]
    at: int
    reason: str


@dataclass
class Chat(Shown):
    """One conversation. `turns` are the current ones; `branches` were replaced, oldest first."""

    name: str = "default"
    turns: list[Turn] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)

    @property
    def system(self) -> str | None:
        """The system prompt in force: the last that a turn set."""
        return _system(self.turns)

    @property
    def messages(self) -> list[Message]:
        """The conversation in OpenAI message form, system prompt first."""
        return _flatten(self.turns)

    @property
    def prompt(self) -> str | None:
        """The prompt really sent for the last turn, template included; None if it was not generated here."""
        completion = self.turns[-1].completion if self.turns else None
        return None if completion is None else str(completion.prompt)

    def messages_for(
        self,
        new: Sequence[Message],
        *,
        cell: str | None = None,
        system: str | None = None,
        fresh: bool = False,
    ) -> list[Message]:
        """Return what to send so that `new` follows the turns before `cell`'s own (if none, all turns)."""
        before = [] if fresh else self.turns[: self._place(cell)]
        return _flatten([*before, Turn(tuple(new), cell, system)])

    def commit(self, turn: Turn, *, fresh: bool = False) -> Turn:
        """Store a finished turn at its cell's place; what it replaces, beyond itself, becomes a branch."""
        at = 0 if fresh else self._place(turn.cell)
        replaced = self.turns[at:]
        alone = len(replaced) == 1 and replaced[0].cell is not None and replaced[0].cell == turn.cell
        if replaced and not alone:
            reason = "started afresh" if fresh else f"turn {at + 1} was run again"
            self.branches.append(Branch(tuple(self.turns), at, reason))
        self.turns[at:] = [turn]
        return turn

    def undo(self) -> Turn:
        """Take the last turn away and return it; a chat without turns is an `OptionError`."""
        if not self.turns:
            raise OptionError(f"The chat {self.name!r} has no turn to undo.")
        return self.turns.pop()

    def reset(self) -> None:
        """Forget every turn and every branch."""
        self.turns.clear()
        self.branches.clear()

    def fork(self, name: str, branch: int | None = None) -> Chat:
        """Return a copy under a new name; with `branch` (from 1) a copy of that branch, whole."""
        if branch is None:
            return Chat(name, list(self.turns), list(self.branches))
        return Chat(name, list(self.branch(branch).turns))

    def branch(self, number: int) -> Branch:
        """Return a branch by its number, from 1."""
        if not 1 <= number <= len(self.branches):
            has = f"has {len(self.branches)}" if self.branches else "has none"
            raise OptionError(f"There is no branch {number}; the chat {self.name!r} {has}.")
        return self.branches[number - 1]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write JSON: `{"messages": […]}` as OpenAI's, and our turns beside it under `llama_magic`."""
        target = user_path(path)
        data = {
            "messages": self.messages,
            "llama_magic": {
                "version": 1,
                "name": self.name,
                "turns": [_turn_to_dict(turn) for turn in self.turns],
                "branches": [
                    {"at": b.at, "reason": b.reason, "turns": [_turn_to_dict(turn) for turn in b.turns]}
                    for b in self.branches
                ],
            },
        }
        write_whole(target, [_as_json(data, target)], "The chat")
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str], name: str | None = None) -> Chat:
        """Read a chat from `save`'s file, or from any JSON list of messages or object with `messages`."""
        source = user_path(path)
        try:
            data = json.loads(read_whole(source, "The chat file").decode("utf-8-sig"))
        except ValueError as error:
            raise SourceError(f"{source} is not JSON: {error}.") from None
        except RecursionError:
            raise SourceError(
                f"{source} is no chat: its JSON is nested too deeply to be read.",
                remedy='Give a file with {"messages": [...]} or a list of messages.',
            ) from None
        messages = data.get("messages") if isinstance(data, dict) else data
        own = data.get("llama_magic") if isinstance(data, dict) else None
        checked = [check_message(message, source.name) for message in _as_list(messages, source.name)]
        chat = cls(name or source.stem, _turns_from_messages(checked))
        if isinstance(own, dict):
            turns = _turns_from_dicts(own.get("turns"), source.name)
            # Another tool may have edited the messages; then they are the truth.
            if _flatten(turns) == checked:
                chat.turns = turns
            chat.branches = [
                _branch_from_dict(item, source.name)
                for item in _as_list(own.get("branches", []), source.name)
            ]
        return chat

    def __str__(self) -> str:
        lines = [
            f"chat {self.name}: {counted(len(self.turns), 'turn')}, {counted(len(self.branches), 'branch')}"
        ]
        lines += [f"{message['role']}: {message.get('content') or ''}" for message in self.messages]
        if self.turns and self.turns[-1].interrupted:
            lines.append("(interrupted)")
        for number, branch in enumerate(self.branches, 1):
            lines.append(
                f"branch {number}: {counted(len(branch.turns) - branch.at, 'turn')} kept, {branch.reason}"
            )
        return "\n".join(lines)

    def _place(self, cell: str | None) -> int:
        """Return the position of the turn of `cell`, or the end."""
        if cell is not None:
            for position, turn in enumerate(self.turns):
                if turn.cell == cell:
                    return position
        return len(self.turns)


def _as_json(data: dict[str, Any], target: Path) -> bytes:
    """Return `data` as UTF-8; halves of surrogate pairs, which UTF-8 has not, as JSON's own escapes."""
    try:
        text = json.dumps(data, ensure_ascii=False, indent=1) + "\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise InputTypeError(
            f"The chat cannot be written to {target}: a message holds what JSON has not ({error})."
        ) from None
    # "backslashreplace" writes \udcff, which inside a JSON string is the escape of that very character.
    return text.encode("utf-8", "backslashreplace")


def answer_message(completion: Any) -> Message:
    """Return the assistant message that a `Completion` stands for."""
    message: Message = {"role": "assistant", "content": completion.text}
    if completion.tool_calls:
        message["tool_calls"] = [dict(call) for call in completion.tool_calls]
    return message


def check_message(message: object, where: str = "messages") -> Message:
    """Return a message if it has a known role and a text; other keys are kept."""
    if not isinstance(message, dict):
        raise InputTypeError(f"{where} holds {message!r}; expected objects with role and content.")
    if message.get("role") not in ROLES:
        raise InputTypeError(f"{where} has the role {message.get('role')!r}; expected {', '.join(ROLES)}.")
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(_part_text(part, where) for part in content)
    if not isinstance(content, str) and not (content is None and message.get("tool_calls")):
        raise InputTypeError(f"{where} has the content {content!r}; expected a text.")
    return {**message, "content": content}


def _part_text(part: object, where: str) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    raise InputTypeError(f"{where} has a content part {part!r}; expected parts of type text.")


def _system(turns: Sequence[Turn]) -> str | None:
    return next((turn.system for turn in reversed(turns) if turn.system is not None), None)


def _flatten(turns: Sequence[Turn]) -> list[Message]:
    system = _system(turns)
    head: list[Message] = [] if not system else [{"role": "system", "content": system}]
    return head + [dict(message) for turn in turns for message in turn.messages]


def _turns_from_messages(messages: Sequence[Message]) -> list[Turn]:
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


def _turn_to_dict(turn: Turn) -> dict[str, Any]:
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


def _turns_from_dicts(items: object, where: str) -> list[Turn]:
    return [_turn_from_dict(item, where) for item in _as_list(items, where)]


def _turn_from_dict(item: object, where: str) -> Turn:
    if not isinstance(item, dict):
        raise InputTypeError(f"{where} holds the turn {item!r}; expected an object with messages.")
    cell, system = item.get("cell"), item.get("system")
    if not all(value is None or isinstance(value, str) for value in (cell, system)):
        raise InputTypeError(
            f"{where} holds a turn with cell {cell!r} and system {system!r}; expected texts."
        )
    messages = tuple(check_message(message, where) for message in _as_list(item.get("messages"), where))
    return Turn(messages, cell, system, bool(item.get("interrupted", False)))


def _branch_from_dict(item: object, where: str) -> Branch:
    at = item.get("at") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(at, int):
        raise InputTypeError(f"{where} holds the branch {item!r}; expected an object with turns and at.")
    return Branch(tuple(_turns_from_dicts(item.get("turns"), where)), at, str(item.get("reason", "")))


def _as_list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputTypeError(f'{where} holds no list of messages; expected {{"messages": [...]}} or a list.')
    return value
