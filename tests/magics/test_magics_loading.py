"""What loading costs, and the ways IPython has of loading."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from llama_magic.testing import scripted_loader

MEASURE = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
config = Config()
config.HistoryManager.enabled = False
ip = InteractiveShell.instance(config=config)
before = set(sys.modules)
ip.run_line_magic("load_ext", "llama_magic")
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_loading_is_silent_and_imports_nothing_heavy() -> None:
    """No llama.cpp, widgets, numpy, pydantic, jinja2 or hub, no engine, model or source."""
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    modules = set(json.loads(done.stdout))
    heavy = {
        "llama_cpp",
        "ipywidgets",
        "anywidget",
        "numpy",
        "pydantic",
        "huggingface_hub",
        "jinja2",
        "llguidance",
    }
    assert not {name.split(".")[0] for name in modules} & heavy
    assert not {"llama_magic.engine", "llama_magic.model.model", "llama_magic.sources"} & modules
    assert "llama_magic.magics" in modules


def test_load_unload_reload(ip: Any, run: Any, session: Any) -> None:
    """%load_ext, %reload_ext and %unload_ext work in any order and print nothing."""
    from llama_magic import magics

    magics.unregister(ip)
    for line in ("%load_ext llama_magic", "%load_ext llama_magic", "%reload_ext llama_magic"):
        run(line)
        assert ip.find_line_magic("llama") is not None
    assert run("%%llama complete\nx").success
    run("%unload_ext llama_magic")
    assert ip.find_line_magic("llama") is None
    run("%reload_ext llama_magic")
    assert run("%llama models").success
    assert len(session.history) == 1


def test_lazy_magics() -> None:
    """`c.MagicsManager.lazy_magics` loads the extension at the first use, for line and cell alike."""
    import atexit

    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    for cell in ("%llama sampler", "%%llama complete\nx"):
        config = Config()
        config.HistoryManager.enabled = False
        config.MagicsManager.lazy_magics = {"llama": "llama_magic"}
        shell = InteractiveShell(config=config)
        atexit.unregister(shell.atexit_operations)
        scripted_loader(shell=shell)
        assert shell.run_cell(cell).success
        shell.run_line_magic("unload_ext", "llama_magic")
        shell.atexit_operations()
