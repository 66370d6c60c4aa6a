"""Options of a cell reach the call that it makes, each under its name and with what it means."""

from __future__ import annotations

from typing import Any

import pytest

from llama_magic.errors import OptionError
from llama_magic.magics._options import MODES

OF_THE_CELL = {"model", "out", "format", "quiet", "raw", "session", "new", "live", "schema"}
TEXTS = ("text", "escaped", "template", "grammar", "regex")
SAMPLE = {"choices": "a|b", "bias": "3=1", "stages": "top_k", **dict.fromkeys(TEXTS, "a")}  # else a number


@pytest.mark.parametrize("mode", ["complete", "chat", "structured"])
def test_every_option_of_a_mode_reaches_the_call(
    ip: Any, run: Any, model: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """All but what the cell itself does are keywords of the model's method, one by one."""
    taken: dict[str, Any] = {}
    ip.user_ns["a"] = 'root ::= "a"'  # --grammar names a variable

    def take(_self: Any, *args: Any, **options: Any) -> None:
        taken.update(options, messages=args[0])
        raise OptionError("taken")

    monkeypatch.setattr(type(model), mode, take)
    schema = " --schema name" if mode == "structured" else ""
    for option in MODES[mode].options:
        if option.key in OF_THE_CELL:
            continue
        taken.clear()
        value = option.choices[-1] if option.choices else SAMPLE.get(option.kind, "1")
        instruct = " --instruct" if mode == "complete" and option.key == "system" else ""
        line = f"%%llama {mode}{schema}{instruct} {option.flags[-1]} {value if option.takes_value else ''}"
        assert str(run(f"{line}\nhi").error_in_exec) == "taken"
        if option.key == "system" and mode != "complete":
            assert [message["content"] for message in taken["messages"]] == ["a", "hi"]
        else:
            assert option.key in taken, line
