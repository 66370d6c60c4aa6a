"""jsonschema, loaded in a tenth of its time: the grammar of its `iri` formats is compiled when asked for."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from types import ModuleType

_SLOW = "rfc3987_syntax"  # its import compiles a grammar: 0.7 s; our own formats do not need it


@functools.cache
def load() -> None:
    """Import jsonschema, so that later imports of it take no time.

    It is done while a schema is compiled: that can be left by Ctrl-C, while a check of what was written
    when Ctrl-C came must be quick.
    """
    if "jsonschema" in sys.modules or _SLOW in sys.modules or importlib.util.find_spec(_SLOW) is None:
        importlib.import_module("jsonschema")

        return
    stand_in = ModuleType(_SLOW)
    stand_in.is_valid_syntax = _is_valid_syntax  # type: ignore[attr-defined]  # a module made here
    sys.modules[_SLOW] = stand_in
    try:
        importlib.import_module("jsonschema")
    finally:
        if sys.modules.get(_SLOW) is stand_in:
            del sys.modules[_SLOW]


def _is_valid_syntax(term: str, value: str) -> bool:
    """Do what rfc3987_syntax does: others in this process may ask jsonschema for `iri`."""
    return bool(importlib.import_module(_SLOW).is_valid_syntax(term, value))
