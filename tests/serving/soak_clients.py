"""Real client libraries against our server, one conversation each, with tools and structured answers.

They are installed into build/clients, for some of them pin what we do not. The Python of such a folder can be
given:

    PYTHONPATH=tests python tests/serving/soak_clients.py [PYTHON]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from scripted_gguf import build

import llama_magic as lm
from llama_magic.testing import scripted_model

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / "build" / "clients"
NAMES = ("openai", "langchain-openai", "litellm", "llm", "inspect-ai")
CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "sky"}}\n</tool_call>'
CITY = '{"name": "Lyon", "people": 3}'


def answer(request: Any) -> str:
    """Greet, call, say what came of it, or write a city, as the request asks."""
    if "<tool_response>" in request.text:
        return "Blue."
    if '"City"' in request.text:  # a schema as a tool
        return CALL.replace("look", "City").replace('{"at": "sky"}', CITY)
    if request.tools:
        return CALL
    return CITY if "JSON" in request.text else "Hello there."


def python() -> Path:
    """Return the Python that has the libraries; they are installed once."""
    made = FOLDER / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not made.exists():
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
        install = [str(made), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *NAMES], check=True)
    return made


def main() -> None:
    which = sys.argv[1] if len(sys.argv) > 1 else str(python())
    model = scripted_model(answer, window=4096)
    with tempfile.TemporaryDirectory() as folder:
        file = build(Path(folder) / "tiny.gguf", {"a": "b"})
        with (
            lm.load(file.path, ctx=256, threads=1, name="tiny") as tiny,
            lm.serve(model, tiny, port=0) as server,
        ):
            failed = 0
            for name in NAMES:
                env = {
                    **os.environ,
                    "LLM_USER_PATH": folder,
                    "HOME": folder,
                    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                }
                command = [which, str(HERE / "client_talks.py"), name, server.url]
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=600, env=env, cwd=folder
                )
                failed += done.returncode != 0
                print(f"{name}: {'ok' if not done.returncode else done.stderr.strip()[-1500:]}", flush=True)
    assert not failed, f"{failed} of {len(NAMES)} clients failed"


if __name__ == "__main__":
    main()
