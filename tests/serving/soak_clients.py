"""Real client libraries against our server, one conversation each, with tools and structured answers.

Each is installed into a folder of its own under build/clients: together pip finds no versions that agree, and
some pin what we do not. Some may be named, and the Python of a folder that has one given:

    PYTHONPATH=tests python tests/serving/soak_clients.py [NAME | NAME=PYTHON …]
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


def python(name: str) -> str:
    """Return the Python that has a library; it is installed once."""
    folder = FOLDER / name
    made = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    if not (folder / ".installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [made, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, name, *({"openai", "pydantic"} - {name})], check=True)
        (folder / ".installed").touch()
    return made


def talk(name: str, which: str, url: str, folder: str) -> bool:
    """Have one library talk to the server; return whether all held."""
    home = {"LLM_USER_PATH": folder, "HOME": folder, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    command = [which or python(name), str(HERE / "client_talks.py"), name, url]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, env={**os.environ, **home}, cwd=folder
    )
    print(f"{name}: {'ok' if not done.returncode else done.stderr.strip()[-1500:]}", flush=True)
    return not done.returncode


def main(*wanted: str) -> None:
    asked = {word.partition("=")[0]: word.partition("=")[2] for word in wanted or NAMES}
    model = scripted_model(answer, window=4096)
    with tempfile.TemporaryDirectory() as folder:
        file = build(Path(folder) / "tiny.gguf", {"a": "b"})
        with (
            lm.load(file.path, ctx=256, threads=1, name="tiny") as tiny,
            lm.serve(model, tiny, port=0) as server,
        ):
            failed = [name for name, which in asked.items() if not talk(name, which, server.url, folder)]
    assert not failed, f"{len(failed)} of {len(asked)} clients failed: {', '.join(failed)}"


if __name__ == "__main__":
    main(*sys.argv[1:])
