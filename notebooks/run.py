"""Run a notebook from start to end, showing its outputs in the terminal as they come.

python notebooks/run.py IN.ipynb OUT.ipynb
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.sign import NotebookNotary


class Shown(NotebookClient):
    """A notebook client that prints what each cell puts out."""

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        text = _text(msg)
        if text:
            print(text, end="" if text.endswith("\n") else "\n", flush=True)
        return super().process_message(msg, cell, cell_index)


def _text(msg: dict[str, Any]) -> str:
    content = msg["content"]
    if msg["msg_type"] == "stream":
        return str(content["text"])
    if msg["msg_type"] in ("display_data", "execute_result"):
        return str(content["data"].get("text/plain", ""))
    if msg["msg_type"] == "error":
        return "\n".join(content["traceback"])
    if msg["msg_type"] == "execute_input":
        return "\n" + "\n".join(f"    {line}" for line in content["code"].splitlines()) + "\n"
    return ""


def _joined(outputs: list[Any]) -> list[Any]:
    """Return outputs with what one stream wrote in a row as one, for where a kernel cuts it is chance.

    What showed how far a cell was, and is empty now, is left out.
    """
    joined: list[Any] = []
    for output in outputs:
        if joined and output.output_type == "stream" and joined[-1].get("name") == output.name:
            joined[-1].text += output.text
        elif output.output_type != "display_data" or any(output.data.values()):
            joined.append(output)
    return joined


def main(source: str, target: str) -> int:
    """Execute `source`, write it with its outputs to `target`, and sign that; 1 if a cell failed."""
    notebook = nbformat.read(source, as_version=4)
    place = {"metadata": {"path": str(Path(source).parent)}}
    client = Shown(notebook, timeout=600, kernel_name="python3", record_timing=False, resources=place)
    client.extra_arguments = ["--log-level=ERROR"]  # else ipykernel 7 warns of the TCP that nbclient chooses
    status = 0
    try:
        client.execute()
    except CellExecutionError as error:
        print(error, file=sys.stderr)
        status = 1
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)
    NotebookNotary().sign(notebook)  # what was run here is trusted here: JupyterLab shows all of its outputs
    print(f"\nThe executed notebook is {target}; `make lab` opens it in JupyterLab.")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
