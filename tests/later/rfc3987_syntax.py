"""Stands before the package of this name: its grammar is compiled when the first IRI is looked at.

That takes 1.2 s of CPU, and the package does it when it is imported: by jsonschema, so by nbformat, so by
each program that opens a notebook. `tests/conftest.py` puts this folder first on the path of the tests and
of their children.
"""

from __future__ import annotations

import functools
import importlib
import sys
from pathlib import Path
from typing import Any


@functools.cache
def _package() -> Any:
    """Import the real one, which lies further behind on the path."""
    own, path = sys.modules.pop(__name__), list(sys.path)
    sys.path[:] = [place for place in path if Path(place).resolve() != Path(__file__).parent.resolve()]
    try:
        return importlib.import_module(__name__)
    finally:
        sys.path[:] = path
        sys.modules[__name__] = own


def is_valid_syntax(term: str, value: str) -> bool:
    """Return whether a text is such a term."""
    return bool(_package().is_valid_syntax(term, value))
