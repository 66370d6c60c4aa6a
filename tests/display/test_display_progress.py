"""The progress of a load: on its way, and what is left of it."""

from __future__ import annotations

import io

import pytest
from front_ends import LAB, shell

from llama_magic import errors
from llama_magic.display import LoadProgress
from llama_magic.words.progress import Progress
from llama_magic.words.tables import Table


def test_load_progress_is_replaced_by_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """One display: progress first, then the card in its place."""
    monkeypatch.setattr("llama_magic.display.live.progress.DELAY", 0.0)
    lab = shell(LAB)
    with LoadProgress(lab) as bar:
        bar(Progress("download", 5, 10, unit="B"))
        assert "downloading" in lab.display_pub.shown()[0]["text/plain"]
        bar.done(Table(("a",), (("card",),)))
    assert [out["text/plain"] for out in lab.display_pub.shown()] == ["a\ncard"]


def test_load_progress_without_a_card_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error on the way takes the progress away."""
    monkeypatch.setattr("llama_magic.display.live.progress.DELAY", 0.0)
    lab = shell(LAB)

    def fails() -> None:
        with LoadProgress(lab) as bar:
            bar(Progress("download", 5, 10))
            raise errors.SourceError("gone")

    with pytest.raises(errors.SourceError):
        fails()
    assert lab.display_pub.shown() == [{"text/plain": ""}]


def test_load_progress_says_nothing_on_its_way_where_nobody_looks() -> None:
    """A batch client gets the card only."""
    batch = shell()
    with LoadProgress(batch) as bar:
        bar(Progress("load", 5, 10, unit="%"))
        bar.done(Table(("a",), (("card",),)))
    assert [data["text/plain"] for data, _, _ in batch.display_pub.sent] == ["a\ncard"]


@pytest.mark.parametrize("screen", [True, False])
def test_load_progress_writes_over_a_line_of_a_terminal_only(
    screen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the log of a script (`ipython x.ipy > log`) each step stood behind the last one."""
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: screen)
    monkeypatch.setattr("sys.stdout", out)
    with LoadProgress(shell(kernel=False), delay=0) as bar:
        bar(Progress("load", 5, 10, unit="%"))
    assert ("\rloading" in out.getvalue()) == screen
    assert screen or not out.getvalue()
