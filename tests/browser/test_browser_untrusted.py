"""A notebook from elsewhere is not trusted: JupyterLab drops style sheets and scripts from what it saved."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from example_views import example_views

from browser.page import LIGHT, Page
from llama_magic.display import mimebundle

LESSONS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
# What a reader has of an output: its words as they are laid out, its keys, and the ground of each.
READ = """() => Array.from(document.querySelectorAll(".jp-OutputArea-output"), (node) => {
  const keys = Array.from(node.querySelectorAll("kbd, sub"));
  return [node.innerText, keys.map((key) => key.innerText),
    keys.map((key) => getComputedStyle(key).backgroundColor),
    Array.from(node.querySelectorAll("td"), (cell) => getComputedStyle(cell).textAlign)];
})"""

# Whether a word that is wider than the page is broken, in each view.
_BROKEN = """() => [...new Set(Array.from(document.querySelectorAll(".jp-OutputArea-output > .lm"),
  (view) => getComputedStyle(view).overflowWrap))]"""


def _outputs() -> list[dict[str, Any]]:
    """Return one output of each view, then all that the lessons have saved."""
    made = [mimebundle(view) for view in example_views().values()]
    for lesson in LESSONS:
        for cell in json.loads(lesson.read_text("utf-8"))["cells"]:
            made += [
                output["data"] for output in cell.get("outputs", ()) if "text/html" in output.get("data", {})
            ]
    return made


def _write(lab: Page, name: str) -> Path:
    path: Path = lab.server.write(name, ["1"])
    book = json.loads(path.read_text("utf-8"))
    book["cells"][0]["outputs"] = [
        {"output_type": "display_data", "metadata": {}, "data": data} for data in _outputs()
    ]
    path.write_text(json.dumps(book), "utf-8")
    return path


def test_an_untrusted_notebook_says_what_a_trusted_one_says(lab: Page, opened: Any) -> None:
    """Words, edges of tokens, shades and columns are equal, for every view and every saved lesson."""
    _write(lab, "from-elsewhere.ipynb")
    opened_here = _write(lab, "our-own.ipynb")
    trust = [sys.executable, "-m", "jupyter", "trust", str(opened_here)]
    subprocess.run(trust, env=os.environ | {"JUPYTER_DATA_DIR": str(lab.server.root / ".data")}, check=True)
    lab.open("from-elsewhere.ipynb")
    untrusted = lab.page.evaluate(READ)
    assert lab.page.locator(".jp-OutputArea-output script, .jp-OutputArea-output style").count() == 0
    assert lab.page.evaluate(_BROKEN) == ["break-word"]
    lab.shot("untrusted")
    _readable(lab)
    lab.open("our-own.ipynb")
    trusted = lab.page.evaluate(READ)
    assert len(untrusted) == len(_outputs())
    for one, other in zip(untrusted, trusted, strict=True):
        assert one[0].split("\n") == other[0].split("\n")
        assert one == other
    assert any("broccoli" in output[0] for output in untrusted)
    _readable(lab)


def _readable(lab: Page) -> None:
    """Assert that all text stands out, in both themes, also what is folded."""
    lab.page.evaluate("() => document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    for theme in (LIGHT, "JupyterLab Dark", LIGHT):
        lab.theme(theme)
        assert lab.contrast(".jp-OutputArea-output .lm") >= 4.5
