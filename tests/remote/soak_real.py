"""Real servers, all with SmolLM2 itself, and their greedy texts held against the engine's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

if __name__ == "__main__":
    os.environ["SERVED"] = "smollm2"
    sys.exit(pytest.main(["-q", str(Path(__file__).with_name("test_remote_real.py"))]))
