"""Real clients without a front end: what nbclient, nbval, papermill and nbconvert store and show."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import hostile
import nbclient
import nbformat
import pytest
from as_ipython import traceback_of
from nbconvert import HTMLExporter, MarkdownExporter

import llama_magic as lm
from llama_magic.errors import LlamaMagicError
from llama_magic.testing import scripted_model

HERE = Path(__file__).parent
PATIENT: dict[str, Any] = {"timeout": 600, "startup_timeout": 600}  # a busy machine
IMPORTS = (
    f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
    "from display_answers import Script, answering, stream\nimport llama_magic.display as d"
)
SHOW = "r = d.show_stream(stream({answer}), title='chat', model_name='m'{more})"
CAPTURED = "%%capture cap\n" + SHOW.format(answer="'kept aside'", more="")
STOPPED = SHOW.format(answer="Script('so far', error=KeyboardInterrupt())", more="")


def notebook(*sources: str) -> Any:
    """Return a notebook of code cells."""
    cells = [nbformat.v4.new_code_cell(source) for source in (IMPORTS, *sources)]
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return nbformat.v4.new_notebook(cells=cells, metadata=spec)


@pytest.fixture(scope="module")
def executed() -> Any:
    """A notebook that nbclient ran: two answers, one captured, one stopped."""
    sources = (
        SHOW.format(answer="'The **answer** <b>x</b>'", more=""),
        SHOW.format(answer="'second'", more=", format='markdown'"),
        CAPTURED,
        "[sorted(out.data) for out in cap.outputs], cap.stdout",
        STOPPED,
    )
    book = notebook(*sources)
    return nbclient.NotebookClient(book, **PATIENT, allow_errors=True, coalesce_streams=True).execute()


def test_nbclient_stores_one_static_output(executed: Any) -> None:
    """HTML or Markdown, text and receipt; no widget, no stream, no state."""
    [output] = executed.cells[1].outputs
    assert set(output.data) == {"text/html", "text/plain", "application/vnd.llama-magic.v1+json"}
    assert "<strong>answer</strong> &lt;b&gt;x&lt;/b&gt;" in output.data["text/html"]
    [output] = executed.cells[2].outputs
    assert "text/markdown" in output.data
    assert "widgets" not in executed.metadata


def test_capture_takes_the_output(executed: Any) -> None:
    """`%%capture` leaves nothing in the cell and holds the static output."""
    assert executed.cells[3].outputs == []
    assert executed.cells[4].outputs[0].data["text/plain"] == (
        "([['application/vnd.llama-magic.v1+json', 'text/html', 'text/plain']], '')"
    )


def test_an_interrupted_cell_fails_with_its_text_kept(executed: Any) -> None:
    """The cell holds the text so far and an error of one line, without a traceback."""
    shown, error = executed.cells[5].outputs
    assert "so far" in shown.data["text/plain"]
    assert error.ename == "GenerationInterrupted"
    assert error.traceback == ["Interrupted: what was written is kept."]


def test_an_error_is_broken_at_blanks(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook's lines of 70, but for what has no blanks or begins with one; a terminal has its own."""
    path = "/a-b" * 30
    error = LlamaMagicError(f"{'seven ' * 12}of {path} here.\n  {'code ' * 20}", remedy="Do this.")
    first, *others, code, remedy = traceback_of(error)[0].split("\n")
    assert first == f"LlamaMagicError: {'seven ' * 8}seven"
    assert others == ["seven seven seven of", path, "here."]
    assert (code, remedy) == (f"  {'code ' * 20}", "Do this.")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert traceback_of(error) == [f"LlamaMagicError: {error}"]


class Tee:
    """What scripts put in place of standard output: it writes, and knows no more."""

    def write(self, _text: str) -> int:
        return 0

    def flush(self) -> None:
        pass


@pytest.mark.parametrize("out", [None, Tee()], ids=["none", "an object that writes alone"])
def test_an_output_that_is_no_stream_is_no_terminal(out: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A map shows nothing on its way, errors and tables have their words: each raised AttributeError."""
    monkeypatch.setattr("sys.stdout", out)
    runs = lm.map(["a", "b"], model=scripted_model(lambda request: "said"))
    assert [run.completion.text for run in runs] == ["said", "said"]
    assert "said" in str(runs)
    assert str(LlamaMagicError("No.", remedy="Do this.")) == "No.\nDo this."
    assert traceback_of(LlamaMagicError("No.")) == ["LlamaMagicError: No."]


def test_a_long_map_leaves_nothing_of_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its progress is shown in one place while it runs, and that place is empty in what is saved."""
    source = (
        "import llama_magic as lm\nfrom llama_magic.display.live import watching\n"
        "from llama_magic.testing import scripted_model\nwatching._SELDOM = 0.0\n"
        "runs = lm.map(['a', 'b', 'c'], model=scripted_model(lambda request: 'said'))\nlen(runs)"
    )
    client = nbclient.NotebookClient(notebook(source, "%%capture kept\n" + source), **PATIENT)
    seen: list[str] = []
    update = client.process_message

    def noted(message: Any, *more: Any) -> Any:
        seen.append(str(message["content"].get("data")))
        return update(message, *more)

    monkeypatch.setattr(client, "process_message", noted)
    book = client.execute()
    *places, result = book.cells[1].outputs
    assert [set(place.data.values()) for place in places] == [{""}]
    assert result.data["text/plain"] == "3"
    assert " of 3 rows" in "".join(seen)
    assert book.cells[2].outputs == []
    nbformat.validate(book)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # nbconvert's, of an output that it cannot show
        for exporter in (HTMLExporter(), MarkdownExporter()):
            assert "of 3 rows" not in exporter.from_notebook_node(book)[0]


def test_nbconvert_shows_every_answer(executed: Any) -> None:
    """HTML and Markdown of the saved notebook hold the answers and figures, and no widget."""
    for exporter in (HTMLExporter(), MarkdownExporter()):
        text, _ = exporter.from_notebook_node(executed)
        for words in ("answer</strong>", "second", "100 prompt + 3 written of 4,096 tokens", "so far"):
            assert words in text
        assert "widget-view" not in text


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_nbconvert_of_hostile_answers_is_dead(form: str) -> None:
    """All hundred texts through nbconvert's HTML: no element, handler or address of theirs is in the page."""
    from display_answers import completion
    from test_display_render import Reader

    from llama_magic.display import mimebundle

    book = notebook()
    book.cells[0].outputs = [
        nbformat.v4.new_output("display_data", data=mimebundle(completion(text, mode="chat"), form))  # type: ignore[arg-type]
        for text in hostile.TEXTS
    ]
    empty, _ = HTMLExporter().from_notebook_node(notebook())
    html, _ = HTMLExporter().from_notebook_node(book)
    before, after = Reader(empty), Reader(html)
    live = {
        "script",
        "iframe",
        "object",
        "embed",
        "img",
        "svg",
        "video",
        "audio",
        "form",
        "base",
        "input",
        "link",
        "meta",
    }
    counts = [sum(tag in live for tag, _ in page.tags) for page in (before, after)]
    assert counts[0] == counts[1]
    for tag, attributes in (element for element in after.tags if element not in before.tags):
        assert not [name for name in attributes if name.startswith("on")], tag
        assert "evil" not in str(attributes.get("src")) + str(attributes.get("style"))
        assert not str(attributes.get("href") or "").lower().startswith(("javascript", "data", "vbscript"))
    for word in (word for text in hostile.TEXTS for word in hostile.words(text)):
        assert word in after.text


def test_nbval_and_papermill_pass(tmp_path: Path, executed: Any) -> None:
    """nbval compares strictly and finds the same outputs again; papermill stores what nbclient stores."""
    path = tmp_path / "lesson.ipynb"
    executed.cells = executed.cells[:4]
    nbformat.write(executed, path)
    run = [sys.executable, "-m", "pytest", "-q", "-p", "nbval.plugin", "--nbval", "-p", "no:cacheprovider"]
    run += ["--nbval-kernel-startup-timeout=600"]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # not a dozen others
    done = subprocess.run([*run, str(path)], cwd=tmp_path, capture_output=True, text=True, env=alone)
    assert "4 passed" in done.stdout, done.stdout
    out = tmp_path / "out.ipynb"
    run = [sys.executable, "-m", "papermill", "--no-progress-bar", "--start-timeout=600", str(path), str(out)]
    subprocess.run(run, cwd=tmp_path, capture_output=True, check=True)
    again = nbformat.read(out, as_version=4)
    assert [c.outputs for c in again.cells] == [c.outputs for c in executed.cells]
