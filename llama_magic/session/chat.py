"""Conversations: turns that belong to notebook cells, branches that are never lost, a file for other tools.

A `Chat` knows messages and nothing of models. Whoever generates asks `messages_for` what to
send, and calls `commit` once there is an answer; until then the chat is as it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_magic.errors import InputTypeError, OptionError, SourceError
from llama_magic.model.earlier import Digests
from llama_magic.session.turns import (
    Branch,
    Message,
    Turn,
    answer_message,
    as_list,
    branch_from_dict,
    check_message,
    flatten,
    system_of,
    turn_to_dict,
    turns_from_dicts,
    turns_from_messages,
)
from llama_magic.sources import read_whole, user_path, write_whole
from llama_magic.words.counting import counted
from llama_magic.words.files import decoded
from llama_magic.words.shown import Shown

if TYPE_CHECKING:
    from llama_magic.model.results import Completion


@dataclass
class Chat(Shown):
    """One conversation. `turns` are the current ones; `branches` were replaced, oldest first.

    `told` are its digests, for what is saved of it.
    """

    name: str = "default"
    turns: list[Turn] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    told: Digests = field(default_factory=Digests, repr=False, compare=False)

    @property
    def system(self) -> str | None:
        """The system prompt in force: the last that a turn set."""
        return system_of(self.turns)

    @property
    def messages(self) -> list[Message]:
        """A copy of the conversation in OpenAI message form, system prompt first."""
        return [dict(message) for message in flatten(self.turns)]

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
        return flatten([*before, Turn(tuple(new), cell, system)])

    def saved_before(
        self, *, cell: str | None = None, system: str | None = None, fresh: bool = False
    ) -> tuple[list[Message], Completion | None]:
        """Return the messages before `cell`'s own turn, and the last answer of them.

        Where answers of this kernel do not hold them all, there is nothing.
        """
        before = [] if fresh else self.turns[: self._place(cell)]
        last = before[-1] if before else None
        if last is None or last.completion is None or system not in (None, system_of(before)):
            return [], None
        told = list(last.completion.messages[-len(last.messages) :])
        return (flatten(before), last.completion) if told == list(last.messages) else ([], None)

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

    def edit(self, number: int) -> Turn:
        """Go back to before turn `number` (from 1) and return it; the chat as it was is kept as a branch."""
        if not 1 <= number <= len(self.turns):
            has = f"has {counted(len(self.turns), 'turn')}" if self.turns else "has none"
            raise OptionError(f"There is no turn {number}; the chat {self.name!r} {has}.")
        turn = self.turns[number - 1]
        self.branches.append(Branch(tuple(self.turns), number - 1, f"turn {number} was edited"))
        del self.turns[number - 1 :]
        return turn

    def take(self, answer: Completion) -> Turn:
        """Let a branch of an answer (`answer.fork`, the pen) stand as that turn's answer; return the turn.

        The chat as it was, with the turns that followed, is kept as a branch, and what stood there can be
        taken back. What no turn's answer grew into is an `OptionError`.
        """
        at = self.turn_of(answer)
        if at is None:
            raise OptionError(
                f"No turn of the chat {self.name!r} has an answer that this one is a branch of.",
                remedy="Give a branch of one of its answers: answer.fork(step, choice), or what the pen "
                "wrote.",
            )
        turn = self.turns[at]
        if turn.completion is answer:
            return turn
        self.branches.append(Branch(tuple(self.turns), at, f"turn {at + 1} took another answer"))
        messages = (*turn.messages[:-1], answer_message(answer))
        cut = answer.finish_reason == "interrupted"
        taken = replace(turn, messages=messages, completion=answer, interrupted=cut)
        self.turns[at:] = [taken]
        return taken

    def turn_of(self, answer: Completion) -> int | None:
        """Return the place (from 0) of the turn whose answer this is or may become; None if of none."""
        for at in reversed(range(len(self.turns))):
            if any(answer is one for held in self._answered(at) for one in _grown(held)):
                return at
        return None

    def _answered(self, at: int) -> list[Completion | None]:
        """Return the answers that a turn has and had, after the same turns and to the same question."""
        before, turn = tuple(self.turns[:at]), self.turns[at]
        kept = [branch.turns for branch in self.branches if branch.turns[:at] == before]
        others = [turns[at] for turns in kept if at < len(turns)]
        return [one.completion for one in (turn, *others) if one.messages[:-1] == turn.messages[:-1]]

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
        """Write JSON: `{"messages": […]}` as OpenAI's, and our turns beside it under `llama_magic`.

        To a path that ends with .jsonl it is one line.
        """
        target = user_path(path)
        data = {
            "messages": self.messages,
            "llama_magic": {
                "version": 1,
                "name": self.name,
                "turns": [turn_to_dict(turn) for turn in self.turns],
                "branches": [
                    {"at": b.at, "reason": b.reason, "turns": [turn_to_dict(turn) for turn in b.turns]}
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
        text = ""
        try:
            text = decoded(read_whole(source, "The chat file"))
            data = json.loads(text)
        except ValueError as error:
            if _is_json(text.partition("\n")[0]):
                raise SourceError(
                    f"{source} holds JSON line by line; expected one conversation.",
                    remedy="Take one in Python: rows = [json.loads(line) for line in open(path)], then "
                    "model.chat(rows[0]['messages']), or lm.map([row['messages'] for row in rows]).",
                ) from None
            raise SourceError(f"{source} is not JSON: {error}.") from None
        except RecursionError:
            raise SourceError(
                f"{source} is no chat: its JSON is nested too deeply to be read.",
                remedy='Give a file with {"messages": [...]} or a list of messages.',
            ) from None
        messages = data.get("messages") if isinstance(data, dict) else data
        own = data.get("llama_magic") if isinstance(data, dict) else None
        checked = [check_message(message, source.name) for message in as_list(messages, source.name)]
        chat = cls(name or source.stem, turns_from_messages(checked))
        if isinstance(own, dict):
            turns = turns_from_dicts(own.get("turns"), source.name)
            # Another tool may have edited the messages; then they are the truth.
            if flatten(turns) == checked:
                chat.turns = turns
            chat.branches = [
                branch_from_dict(item, source.name) for item in as_list(own.get("branches", []), source.name)
            ]
        return chat

    def __str__(self) -> str:
        lines = [
            f"chat {self.name}: {counted(len(self.turns), 'turn')}, {counted(len(self.branches), 'branch')}"
        ]
        lines += [_line(message) for message in self.messages]
        if self.turns and self.turns[-1].interrupted:
            lines.append("(interrupted)")
        for number, branch in enumerate(self.branches, 1):
            lines.append(
                f"branch {number}: {counted(len(branch.turns) - branch.at, 'turn')} kept, {branch.reason}"
            )
        return "\n".join(lines)

    def _place(self, cell: str | None) -> int:
        """Return the position of the turn of `cell`, or the end."""
        cells = [] if cell is None else [turn.cell for turn in self.turns]
        return cells.index(cell) if cell in cells else len(self.turns)


def _grown(answer: Completion | None) -> Iterator[Completion]:
    """Give an answer and all that grew from it."""
    left = [] if answer is None else [answer]
    while left:
        one = left.pop()
        yield one
        left += one.branches


def _line(message: Message) -> str:
    """Return a message in words: its text, and the tools that it calls."""
    bodies = (call.get("function", call) for call in message.get("tool_calls") or ())
    calls = [f"{body.get('name')}({body.get('arguments')})" for body in bodies]
    return f"{message['role']}: {' '.join((message.get('content') or '', *calls)).strip()}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _as_json(data: dict[str, Any], target: Path) -> bytes:
    """Return `data` as UTF-8; halves of surrogate pairs, which UTF-8 has not, as JSON's own escapes."""
    try:
        indent = None if target.suffix == ".jsonl" else 1
        text = json.dumps(data, ensure_ascii=False, indent=indent) + "\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise InputTypeError(
            f"The chat cannot be written to {target}: a message holds what JSON has not ({error})."
        ) from None
    # "backslashreplace" writes \udcff, which inside a JSON string is the escape of that very character.
    return text.encode("utf-8", "backslashreplace")
