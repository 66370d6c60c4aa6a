"""The saved lessons are readable without a kernel: as they are, as HTML and as Markdown."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbconvert import HTMLExporter, MarkdownExporter
from nbformat.sign import NotebookNotary

from llama_magic.model.results import RECEIPT_MIME

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))


# Each reads its template when it is made, which is half of the work of a conversion.
TO_HTML, TO_MARKDOWN = HTMLExporter(), MarkdownExporter()


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]{3,}", text)


def _visible(page: str) -> str:
    body = re.sub(r"<(style|script)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", " ", body))


def _saved(notebook: Any, kind: str) -> list[Any]:
    """Return what the outputs hold of a MIME type."""
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", [])]
    return [o["data"][kind] for o in outputs if kind in o.get("data", {})]


def _receipts(notebook: Any) -> list[dict[str, Any]]:
    found = _saved(notebook, RECEIPT_MIME)
    return [one for receipt in found for one in receipt.get("samples", [receipt])]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_answer_and_view_is_in_both_conversions(path: Path) -> None:
    """Each word of each answer and of each view stands in nbconvert's HTML and in its Markdown."""
    notebook = nbformat.read(path, as_version=4)
    page = set(_words(_visible(TO_HTML.from_notebook_node(notebook)[0])))
    text = set(_words(html.unescape(TO_MARKDOWN.from_notebook_node(notebook)[0])))
    said = [_visible(view) for view in _saved(notebook, "text/html")]
    assert len(said) >= 4
    for one in (*said, *(receipt["text"] for receipt in _receipts(notebook))):
        words = set(_words(one))
        assert words <= page, words - page
        assert words <= text, words - text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_saved_outputs_hold_nothing_live(path: Path) -> None:
    """Every code cell was run; no widget state, no script, no remote image, no time of a run."""
    notebook = nbformat.read(path, as_version=4)
    assert "widgets" not in notebook.metadata
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        assert cell.execution_count is not None, cell.source
        assert "execution" not in cell.metadata
        saved = json.dumps(cell.outputs)
        assert not re.search(r"<script|<iframe|widget-view|src=\\?\"http", saved), cell.source


def test_a_notebook_that_was_run_here_is_trusted_here(tmp_path: Path) -> None:
    """What `make demo` runs and `make lab` opens has Jupyter's signature; changed by others it has not."""
    source, target = tmp_path / "in.ipynb", tmp_path / "out" / "in.ipynb"
    cells = [nbformat.v4.new_code_cell("from IPython.display import HTML\nHTML('<style>p {}</style>')")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), source)
    env = os.environ | {"JUPYTER_DATA_DIR": str(tmp_path / "data")}
    script = NOTEBOOKS[0].parent / "run.py"
    subprocess.run([sys.executable, script, source, target], env=env, check=True, timeout=600)
    notary = NotebookNotary(data_dir=str(tmp_path / "data"))
    notebook = nbformat.read(target, as_version=4)
    assert notary.check_signature(notebook)
    assert not notary.check_signature(nbformat.read(source, as_version=4))
    notebook.cells[0].outputs[0].data["text/html"] = "<script>elsewhere()</script>"
    assert not notary.check_signature(notebook)


def test_the_quick_start_shows_every_mode() -> None:
    """The quick start holds saved answers of complete, chat and structured."""
    notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
    assert {receipt["mode"] for receipt in _receipts(notebook)} == {"complete", "chat", "structured"}
