"""Every single call of a template with many draws of hostile values (some 20,000, about five minutes)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Filters, tests, globals, methods and operators stay in 2 s of CPU and 256 MB, and hear signals."""
    program = Path(__file__).with_name("template_calls.py")
    done = subprocess.run([sys.executable, program, "60", "7"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["bad"] == []
    assert found["worst"][0] < 2, found["worst"]
    assert found["deaf"][0] < 0.25, found["deaf"]  # of CPU: within half a second beside one other program
    print(found)


if __name__ == "__main__":
    main()
