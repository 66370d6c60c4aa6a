"""Every n-th operation on disk and network fails, of everything that writes; `make test` tries some."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from faults import ALL

if __name__ == "__main__":
    os.environ[ALL] = "1"
    sys.exit(
        pytest.main(["-q", "-p", "no:cacheprovider", str(Path(__file__).with_name("test_sources_faults.py"))])
    )
