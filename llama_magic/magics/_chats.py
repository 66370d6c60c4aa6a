"""The verbs of conversations: which there are, and what is done with one."""

from __future__ import annotations

from typing import Any

from llama_magic.errors import OptionError
from llama_magic.magics._actions import check_action
from llama_magic.magics._kernel import Kernel
from llama_magic.magics._options import VERBS
from llama_magic.magics._parse import LineCommand
from llama_magic.magics._readers import whole_number
from llama_magic.magics._records import answer_of
from llama_magic.session.blocks import join_blocks
from llama_magic.session.chat import Chat
from llama_magic.words.names import likeliest
from llama_magic.words.tables import Table, brief


def chats(kernel: Kernel, command: LineCommand) -> Any:
    """List the conversations of this kernel."""
    rows = tuple(
        (name, len(chat.turns), len(chat.branches), "yes" if any(t.interrupted for t in chat.turns) else "",
         _last_user(chat))
        for name, chat in kernel.session.chats.items()
    )  # fmt: skip
    return Table(
        ("chat", "turns", "branches", "interrupted", "last question"),
        rows,
        empty="No chat yet. %%llama chat begins one.",
    )


def _last_user(chat: Chat) -> str:
    asked = (str(m.get("content") or "") for m in reversed(chat.messages) if m["role"] == "user")
    return brief(next(asked, ""))


def chat(kernel: Kernel, command: LineCommand) -> Any:
    """Show a conversation, or do with it what is asked."""
    name, *rest = command.words
    action, rest = (rest[0], rest[1:]) if rest else ("show", [])
    check_action("chat NAME", action, rest)
    branch = command.options.get("branch")
    _check_chat_options(action, command)
    session = kernel.session
    if action == "load":
        session.chats[name] = Chat.load(rest[0], name)
        return session.chats[name]
    _check_is_chat(name, kernel)
    found = session.chat(name, create=False)
    if action == "fork":
        if rest[0] in session.chats:
            raise OptionError(
                f"There is a chat {rest[0]!r} already.", remedy="Choose another name for the fork."
            )
        session.chats[rest[0]] = found.fork(rest[0], branch)
        return session.chats[rest[0]]
    if action == "show":
        found = found if branch is None else found.fork(f"{name}, branch {branch}", branch)
        if command.options.get("prompt"):
            if found.prompt is None:
                raise OptionError(
                    f"No turn of the chat {name!r} was generated in this kernel, so no prompt was sent."
                )
            print(found.prompt)
            return None
    elif action == "save":
        print(f"Saved to {found.save(rest[0])}.")
    elif action == "edit":
        _edit(kernel, found, rest[0])
    elif action == "take":
        found.take(answer_of(kernel, rest[0]))
    elif action == "undo":
        found.undo()
    elif action == "reset":
        found.reset()
    return found


def _check_is_chat(name: str, kernel: Kernel) -> None:
    """Refuse an action where a chat is to be named, and the beginning of a text."""
    chats = kernel.session.chats
    if name in chats or likeliest(name, chats):
        return  # or what is said of an unknown chat
    if name in {action.name for action in VERBS["chat"].actions}:
        known = f"Chats: {', '.join(chats)}." if chats else "There is none yet."
        raise OptionError(
            f"{name} stands where a chat is named.", remedy=f"Write %llama chat NAME {name}. {known}"
        )


def _edit(kernel: Kernel, chat: Chat, number: str) -> None:
    """Put a turn of a chat into the next cell, which takes its place when it is run."""
    turn = chat.edit(whole_number("The turn", number, 1))
    asked = [(m["role"], str(m.get("content") or "")) for m in turn.messages[:-1]]
    body = join_blocks([*([("system", turn.system)] if turn.system else []), *asked])
    line = "%%llama chat" + ("" if chat.name == "default" else f' --session "{chat.name}"')
    if "{{" in body:
        line += " --raw"  # its braces were filled
    kernel.shell.set_next_input(f"{line}\n{body}")


def _check_chat_options(action: str, command: LineCommand) -> None:
    homes = {"prompt": ("show",), "branch": ("show", "fork")}
    for key, actions in homes.items():
        if key in command.options and action not in actions:
            raise OptionError(f"--{key} goes with {' and '.join(actions)}, not with {action}.")
