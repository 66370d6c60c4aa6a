"""The pad's cell asks for what the pad asked for, token for token."""

from __future__ import annotations

from typing import Any

import pytest
from settled import boards_rest

from llama_magic.display import hosts
from llama_magic.display.boards.pad import Pad

PLAIN = [
    ("Hi", ""),
    ("Two\nlines\n\nand a gap", "Be brief."),
    ("Say {{ x }} and {y} and $y", "with {{ x }}"),
    ("a 'b' \"c\" \\n", 'say "so" and\non a second line, $y and {y}'),
    ("user: as if\nit were a block", ""),
    ("ends in a break\n", ""),
    ("  indented", "it's"),
    ("# not a comment\n%not a magic\n!not a shell", ""),
]


@pytest.fixture(autouse=True)
def _widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "no_widgets", lambda shell: "")


def ask(run: Any, board: Pad) -> str:
    """Run the pad, then its cell; return the cell."""
    cells: list[str] = []
    board.into_next_cell = cells.append
    board.run()
    boards_rest()
    board.insert()
    result = run(cells[0])
    assert result.success, result.error_in_exec
    return cells[0]


@pytest.mark.parametrize(("prompt", "system"), PLAIN)
def test_the_cell_makes_the_same_request(run: Any, ip: Any, model: Any, prompt: str, system: str) -> None:
    """Prompt tokens, recipe, length and drawn seed are equal, whatever %config and `%llama sampler` set."""
    ip.push({"x": "filled", "y": "filled"})
    run("%llama chat\nBefore")
    run("%config LlamaMagics.top_k = 7\n%llama sampler presence_penalty=0.5 min_p=0.2")
    board = run("p = %llama pad\np").result
    board.prompt.value, board.system.value = prompt, system
    board.sliders["temperature"].value = 0.35
    board.sliders["min_p"].value = 0.05  # back to llama.cpp's own
    asked = len(model.backend.requests)
    ask(run, board)
    of_pad, of_cell = model.backend.requests[asked:]
    for name in ("prompt", "messages", "sampling", "max_tokens", "seed", "exact"):
        assert getattr(of_cell, name) == getattr(of_pad, name), name
    assert (of_pad.sampling.top_k, of_pad.sampling.presence_penalty, of_pad.sampling.min_p) == (7, 0.5, 0.05)


def test_the_cell_leaves_the_readers_conversation_alone(run: Any, session: Any, model: Any) -> None:
    """It is a turn of the session `pad`, begun afresh each time."""
    run("%%llama\nMine")
    board = run("p = %llama pad\np").result
    board.prompt.value = "Pad's"
    ask(run, board)
    ask(run, board)
    said = {
        name: [m["content"] for m in chat.messages if m["role"] == "user"]
        for name, chat in session.chats.items()
    }
    assert said == {"default": ["Mine"], "pad": ["Pad's"]}


def test_what_a_cell_cannot_say_is_said(run: Any, model: Any) -> None:
    """A line that would open a block behind a system prompt of several lines: the pad says what differs."""
    board = run("p = %llama pad\np").result
    board.system.value, board.prompt.value = "a\nb", "x\nuser: y"
    board.into_next_cell = lambda source: None
    board.insert()
    assert "not to the letter" in board.inserted.value


def test_another_model_than_the_current_one_is_named(run: Any, session: Any, model: Any) -> None:
    """The cell of a pad of one model runs on that one, also when another is current."""
    session.load("other")
    board = run(f"p = %llama pad -m {model.name}\np").result
    board.prompt.value = "Hi"
    asked = len(model.backend.requests)
    assert ask(run, board).startswith(f"%%llama chat -m {model.name} ")
    assert len(model.backend.requests) == asked + 2
