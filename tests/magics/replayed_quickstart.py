"""Runs cells of the quick start from a record, where there is no llama.cpp: arguments are RECORD and CELLS.

CELLS is a JSON file of cells. Prints as JSON what each cell ended with, and what was imported.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.modules["llama_cpp"] = None  # type: ignore[assignment]  # an import of it fails

from IPython.core.interactiveshell import InteractiveShell  # noqa: E402 - llama_cpp is barred first

from llama_magic.model.results import Completion  # noqa: E402 - llama_cpp is barred first


def main() -> None:
    record, cells = sys.argv[1:]
    shell = InteractiveShell.instance()
    shell.run_cell("%load_ext llama_magic").raise_error()
    shell.run_cell(f'%llama replay "{record}" --only').raise_error()
    ended = []
    for source in json.loads(Path(cells).read_text("utf-8")):
        began = time.perf_counter()
        result = shell.run_cell(source, store_history=True)
        value = result.result
        words = value.text if isinstance(value, Completion) else repr(value)
        error = str(result.error_in_exec or "")
        ended.append({"value": words, "error": error, "seconds": time.perf_counter() - began})
    answer = shell.user_ns["answer"]
    print("RESULT" + json.dumps({"cells": ended, "parsed": repr(answer.parsed), "replayed": answer.replayed}))


if __name__ == "__main__":
    main()
