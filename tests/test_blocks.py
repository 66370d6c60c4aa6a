"""What stands below a cell that raised one of our errors."""

from __future__ import annotations

from typing import Any

import pytest
from as_ipython import traceback_of

from llama_magic.errors import LlamaMagicError, OptionError


@pytest.mark.parametrize(
    ("cell", "place"),
    [
        ("fail()", ""),  # it can be no other
        ("x = 1\nfail()", "line 2: fail()"),
        ("def ask(q):\n    return fail()\n\nask(1)", "line 2, in ask: return fail()"),
        ("sorted([1],\n       key=lambda q: fail())", "line 2, in <lambda>: key=lambda q: fail())"),
        ("import json\njson.loads('1', parse_int=lambda q: fail())", "line 2, in <lambda>: json.loads("),
        (
            "from llama_magic.request.sampling import Sampling\nSampling(top_k=-5)",
            "line 2: Sampling(top_k=-5)",
        ),
        ("x = 1\n%llama nonsense", "line 2"),  # and not what IPython makes of it
        ("%load_ext llama_magic\nimport llama_magic as lm\nlm.load(ctx='x')", "line 3: lm.load(ctx='x')"),
    ],
)
def test_an_error_ends_with_the_users_line(ip: Any, cell: str, place: str) -> None:
    """It is the innermost line of the user's, whatever of ours or of Python's lies below or between."""

    def fail() -> None:
        raise OptionError("no such thing", remedy="do this")

    exec(compile("def call(): f()", "/lib/site-packages/x.py", "exec"), own := {"f": fail})
    ip.user_ns["fail"] = own["call"]
    fail.__code__ = fail.__code__.replace(co_filename=LlamaMagicError.__init__.__code__.co_filename)
    error = ip.run_cell(cell, store_history=True).error_in_exec
    assert isinstance(error, LlamaMagicError)
    block, *last = traceback_of(error)
    assert "Cell In[" not in block
    assert [x.split("], ", 1)[1][: len(place)] for x in last] == ([place] if place else [])
