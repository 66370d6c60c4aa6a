"""`llama-magic` from a shell: commands are found, mistakes are named, errors are one line."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from pkgutil import resolve_name

import pytest

from llama_magic.command import COMMANDS, Command, main
from llama_magic.errors import SourceError


def test_the_script_is_declared_and_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """pyproject.toml names `main`; without a command it says which there are, and each can be imported."""
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    assert resolve_name(scripts["llama-magic"]) is main
    assert main([]) == 0
    listed = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert f"  {name}" in listed
        assert callable(resolve_name(command.where))


def test_an_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt command ends with status 2 and the right word, on standard error."""
    assert main(["docter"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "there is no command 'docter'. Did you mean doctor?" in said.err
    assert main(["map", "rows.csv"]) == 2
    assert "'map'. In a script it is lm.map(rows, prompt, …)" in capsys.readouterr().err


def test_an_error_is_its_text_and_an_interrupt_is_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that fails shows message and remedy without a traceback; Ctrl-C is a shell's 130."""

    def fails(arguments: list[str]) -> int:
        raise SourceError(f"There is no {arguments[0]}.", remedy="Look again.")

    def stopped(arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("llama_magic.command.fails", fails, raising=False)
    monkeypatch.setattr("llama_magic.command.stopped", stopped, raising=False)
    for name in ("fails", "stopped"):
        monkeypatch.setitem(COMMANDS, name, Command("", f"llama_magic.command:{name}"))
    assert main(["fails", "file"]) == 2
    assert capsys.readouterr().err == "llama-magic fails: There is no file.\nLook again.\n"
    assert main(["stopped"]) == 130


def test_doctor_reports_and_takes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """`llama-magic doctor` prints the report of `%llama doctor`; its status says whether all is well."""
    status = main(["doctor"])
    said = capsys.readouterr().out
    assert "llama-cpp-python" in said
    assert status == (1 if "\n! " in said else 0)
    assert main(["doctor", "now"]) == 2


def test_output_that_nobody_takes(tmp_path: Path) -> None:
    """A reader that has gone (`| head`) ends it as SIGPIPE does, a full disk is named; no traceback."""
    read, write = os.pipe()
    os.close(read)
    with open("/dev/full", "w") as full, open(write, "w") as gone:
        for out, status, says in ((gone, 141, ""), (full, 2, "cannot be written: No space left on device")):
            done = subprocess.run(
                [sys.executable, "-m", "llama_magic"],
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
            assert done.returncode == status
            assert says in done.stderr
            assert done.stderr.count("\n") == bool(says)
