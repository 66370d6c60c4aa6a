"""schemathesis on /openapi.json: requests made of the document, good and bad ones: no 5xx, every body fits.

It is installed into build/schemathesis, for it pins what we do not. Its program can be given. What was tried
is kept there, so that a run that was broken off goes on where it was:

    PYTHONPATH=tests python tests/serving/soak_openapi.py [EXAMPLES [ST]]
"""

from __future__ import annotations

import itertools
import json
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
KEPT = FOLDER / "tried.json"
EACH = 150  # examples of a path at a time
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
    """Return how many runs of the program found something: 0 where all held."""
    st, failed = which or str(program()), 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    tried = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        file = build(Path(folder) / "tiny.gguf", {"a": "b"})
        with (
            lm.load(file.path, ctx=256, threads=1, name="tiny") as tiny,
            lm.serve(tiny, port=0) as server,  # a scripted one has no masks
        ):
            paths = list(httpx.get(f"{server.url}/openapi.json").json()["paths"])
            for turn, path in itertools.product(range(1000), paths):
                if sum(tried.values()) >= examples or f"{turn} {path}" in tried:
                    continue
                made = run(st, server.url, path, turn, folder)
                failed += made is None
                tried[f"{turn} {path}"] = made or 0
                KEPT.write_text(json.dumps(tried))
            print("requests by status, of this run:", statuses(server.url))
            alive = httpx.get(f"{server.url}/health").status_code == 200
    print(f"{sum(tried.values()):,} examples - the server is", "well" if alive else "NOT well")
    if not failed and alive:
        KEPT.unlink()
    return failed + int(not alive)


def run(st: str, url: str, path: str, turn: int, folder: str) -> int | None:
    """Try one path: first each bound of the document, then examples by chance; None where one failed."""
    phase = ["--phases", "fuzzing", "--max-examples", str(EACH)] if turn else ["--phases", "coverage"]
    how = ["--checks", CHECKS, "--seed", str(turn), "--continue-on-failure", "--request-timeout", "60"]
    command = [st, "run", f"{url}/openapi.json", "--include-path", path, *phase, *how]
    command += ["--suppress-health-check", "all", "--generation-database", "none", "--no-color"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    made = re.search(r"(\d[\d,]*) generated", done.stdout)
    count = int(made[1].replace(",", "")) if made else 0
    print(f"{turn} {path}: {count}", flush=True)
    if done.returncode:
        print(
            "\n".join(line[:300] for line in done.stdout.splitlines()[-100:]), done.stderr[-2000:], flush=True
        )
        return None
    return count


def statuses(url: str) -> dict[str, int]:
    """Return how many requests a server answered with each status."""
    counted = re.findall(
        r'^http_requests_total.*status="(\d+)"} (\d+)', httpx.get(f"{url}/metrics").text, re.M
    )
    answers: Counter[str] = Counter()
    for status, count in counted:
        answers[status] += int(count)
    return dict(answers)


if __name__ == "__main__":
    sys.exit(main(*(int(word) if word.isdecimal() else word for word in sys.argv[1:])))  # type: ignore[arg-type]
