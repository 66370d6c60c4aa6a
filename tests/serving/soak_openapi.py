"""schemathesis on /openapi.json: requests made of the document, good and bad ones: no 5xx, every body fits.

It is installed into build/schemathesis, for it pins what we do not. Its program can be given:

    PYTHONPATH=tests python tests/serving/soak_openapi.py [EXAMPLES [ST]]
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import httpx
from scripted_gguf import build

import llama_magic as lm

FOLDER = Path(__file__).parents[2] / "build" / "schemathesis"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def program() -> Path:
    """Return schemathesis's program, installed once."""
    scripts = FOLDER / ("Scripts" if os.name == "nt" else "bin")
    if not (scripts / "st").exists():
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
        install = [str(scripts / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "schemathesis>=4"], check=True)
    return scripts / "st"


def main(examples: int = 10_000, which: str = "") -> int:
    """Return the program's exit status: 0 where all held."""
    st = which or str(program())
    with tempfile.TemporaryDirectory() as folder:
        file = build(Path(folder) / "tiny.gguf", {"a": "b"})
        with (
            lm.load(file.path, ctx=256, threads=1, name="tiny") as tiny,
            lm.serve(tiny, port=0) as server,  # a scripted one has no masks
        ):
            document = httpx.get(f"{server.url}/openapi.json").json()
            operations = sum(len(path) for path in document["paths"].values())
            each = str(-(-examples // operations))
            how = ["--max-examples", each, "--checks", CHECKS, "--phases", "coverage,fuzzing", "--seed", "1"]
            how += ["--continue-on-failure", "--suppress-health-check", "all", "--request-timeout", "60"]
            done = subprocess.run(
                [st, "run", f"{server.url}/openapi.json", *how, "--no-color"],
                capture_output=True,
                text=True,
                cwd=folder,
            )
            lines = [line[:300] for line in done.stdout.splitlines()]
            print("\n".join(lines[-200:]), done.stderr[-2000:])
            print(f"{operations} operations, {each} examples of each at least")
            alive = httpx.get(f"{server.url}/health").status_code == 200
            counted = re.findall(
                r'^http_requests_total.*status="(\d+)"} (\d+)', httpx.get(f"{server.url}/metrics").text, re.M
            )
    made = re.search(r"(\d[\d,]*) generated", done.stdout)
    answers: Counter[str] = Counter()
    for status, count in counted:
        answers[status] += int(count)
    print("requests by status:", dict(answers))
    print("test cases:", made[1] if made else "?", "- the server is", "well" if alive else "NOT well")
    return done.returncode or int(not alive)


if __name__ == "__main__":
    sys.exit(main(*(int(word) if word.isdecimal() else word for word in sys.argv[1:])))  # type: ignore[arg-type]
