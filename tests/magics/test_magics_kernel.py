"""The magics in a real ipykernel: what a saved notebook holds, and that cells are known by their ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

SETUP = """
from llama_magic.testing import scripted_model
%load_ext llama_magic
from llama_magic.session import session
told = scripted_model(["The **first** answer.", "Second <b>answer</b>."], shell=get_ipython())
"""


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("LLAMA_MAGIC_CACHE", str(tmp_path / "cache"))


def run_notebook(*cells: str, allow_errors: bool = False) -> list[Any]:
    """Run cells with nbclient after the set-up cell; return the outputs of each."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in (SETUP, *cells)]
    how = {
        "timeout": 600,
        "startup_timeout": 600,
        "coalesce_streams": True,
    }  # a busy kernel sends a printed line in pieces
    NotebookClient(notebook, kernel_name="python3", allow_errors=allow_errors, **how).execute()
    assert notebook.cells[0].outputs == []
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata
    return [cell.outputs for cell in notebook.cells[1:]]


def test_a_saved_notebook_holds_each_answer_once() -> None:
    """One output a cell, with text and receipt; `_`, `-o`, `{{ }}` work across cells; errors are brief."""
    first, value, bound, shown, wrong = run_notebook(
        "%%llama complete --seed 3\nBegin",
        "print(type(_).__name__, _.text)",
        "word = 'x'\nget_ipython().run_cell_magic('llama', 'complete -o r', 'Say {{ word }}')",
        "print(r.text, told.backend.requests[-1].text)",
        "%%llama complete --sed 3\nx",
        allow_errors=True,
    )
    assert [output.output_type for output in first] == ["display_data"]
    data = first[0].data
    assert "The **first** answer." in data["text/plain"]
    assert data["application/vnd.llama-magic.v1+json"]["seed"] == 3
    assert value[0].text == "Completion The **first** answer.\n"
    assert [output.output_type for output in bound] == ["display_data"]
    assert "Second &lt;b&gt;answer&lt;/b&gt;." in bound[0].data["text/html"]
    assert shown[0].text == "Second <b>answer</b>. Say x\n"
    assert [output.output_type for output in wrong] == ["error"]
    assert wrong[0].ename == "OptionError"
    assert wrong[0].traceback == [
        "OptionError: %%llama has no option --sed. Did you mean --seed?\n%%llama? lists them."
    ]


def test_an_error_stops_run_all() -> None:
    """Without allow_errors the run fails at the magic."""
    with pytest.raises(CellExecutionError, match="There is no verb"):
        run_notebook("%llama lod", "raise AssertionError('never reached')")


def execute(client: Any, code: str, cell: str | None = None) -> str:
    """Run a cell with a front end's metadata; return what it wrote to standard output."""
    content = {
        "code": code,
        "silent": False,
        "store_history": True,
        "allow_stdin": False,
        "stop_on_error": True,
    }
    metadata = {} if cell is None else {"cellId": cell}
    message = client.session.msg("execute_request", content, metadata=metadata)
    client.shell_channel.send(message)
    written = []
    while True:
        reply = client.get_iopub_msg(timeout=600)
        if reply["parent_header"].get("msg_id") != message["header"]["msg_id"]:
            continue
        if reply["msg_type"] == "stream":
            written.append(reply["content"]["text"])
        if reply["msg_type"] == "error":
            raise AssertionError(reply["content"])
        if reply["msg_type"] == "status" and reply["content"]["execution_state"] == "idle":
            return "".join(written)


def test_cells_are_known_by_the_id_in_the_request(client: Any) -> None:
    """JupyterLab's and VS Code's `cellId` makes a rerun replace its turn; without one it appends."""
    execute(client, SETUP, "setup")
    show = "print([m['content'] for m in session.current().chats['default'].messages if m['role'] == 'user'])"
    execute(client, "%%llama\nQ1", "c1")
    execute(client, "%%llama\nQ2", "c2")
    assert execute(client, show, "show") == "['Q1', 'Q2']\n"
    execute(client, "%%llama\nQ1 again", "c1")
    assert execute(client, show, "show") == "['Q1 again']\n"
    execute(client, "%%llama\nno id")
    execute(client, "%%llama\nno id")
    assert execute(client, show, "show") == "['Q1 again', 'no id', 'no id']\n"
