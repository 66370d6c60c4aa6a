"""How a conversation looks."""

from __future__ import annotations

from llama_magic.display.static.doc import Answer, Head, Line, Node
from llama_magic.display.views import turns
from llama_magic.display.views.view import view
from llama_magic.session.chat import Chat
from llama_magic.words.counting import counted


@view.register(Chat)
def chat(c: Chat) -> list[Node]:
    """Show a conversation, turn by turn."""
    out: list[Node] = [Head("chat", f"session {c.name}, {counted(len(c.turns), 'turn')}")]
    for message in c.messages:
        role = str(message["role"])
        out.append(Head(role))
        if role == "tool" or message.get("tool_calls"):
            out.extend(turns.steps([message]))
        else:
            out.append(Answer(str(message.get("content") or ""), markdown=role != "user"))
    if c.turns and c.turns[-1].interrupted:
        out.append(Line("The last answer was stopped before its end.", dim=True))
    for number, branch in enumerate(c.branches, 1):
        kept = counted(len(branch.turns) - branch.at, "turn")
        out.append(Line(f"branch {number}: {kept} kept, {branch.reason}", dim=True))
    if len(out) == 1:
        out.append(Line("No turns yet.", dim=True))
    return out
