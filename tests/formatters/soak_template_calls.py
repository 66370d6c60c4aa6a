"""Every single call of a template with many draws of hostile values (some 20,000, about five minutes)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Filters, tests, globals, methods and operators stay in 2 s of CPU and 256 MB, and hear signals."""
    _try("60", "7", most=2, deaf=0.25)  # of CPU: within half a second beside one other program
    _try("20", "7", "500", "1", most=4, deaf=2)  # `{{ }}`: a signal ends what is written in Python


def _try(*given: str, most: float, deaf: float) -> None:
    program = Path(__file__).with_name("template_calls.py")
    done = subprocess.run([sys.executable, program, *given], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["bad"] == []
    assert found["worst"][0] < most, found["worst"]
    assert found["deaf"][0] < deaf, found["deaf"]
    print(found)


if __name__ == "__main__":
    main()
