"""What IPython prints of an error in place of a traceback: one short block, and the user's line."""

from __future__ import annotations

import linecache
import sys
import sysconfig
import traceback
from pathlib import Path
from textwrap import TextWrapper, shorten
from types import CodeType

# As wide as JupyterLab shows an error at 1,000 pixels; what is longer it breaks in mid-word.
_NARROW = TextWrapper(70, break_long_words=False, break_on_hyphens=False, replace_whitespace=False)
# "<string>" is the `__init__` of a dataclass.
_OTHERS = (str(Path(__file__).parent), sysconfig.get_path("stdlib"), "<string>", "<frozen ")


def narrow(text: str) -> str:
    """Break a text at blanks, but for lines that begin with one; a terminal has lines of its own."""
    if getattr(sys.stdout, "isatty", bool)():  # standard output may be none, or an object that only writes
        return text
    return "\n".join(x if x[:1].isspace() else "\n".join(_NARROW.wrap(x)) for x in text.split("\n"))


def place_of(error: BaseException) -> list[str]:
    """Return a line that says which of the user's lines failed; none where it is the first of its cell.

    That is the innermost one outside of packages: a score or a tool of the user's may ask a model, too.
    """
    frames = ((frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__))
    own = [(code, line) for code, line in frames if _is_own(code.co_filename)]
    if not own or (own[-1][0].co_name == "<module>" and own[-1][1] == 1):
        return []
    code, line = own[-1]
    inside = "" if code.co_name == "<module>" else f", in {code.co_name}"
    place = f"{_file(code)}, line {line}{inside}"
    room = max(24, _NARROW.width - len(place) - len(": "))
    source = shorten(linecache.getline(code.co_filename, line), room, placeholder=" …")
    # What becomes of a magic's line is not the user's.
    return [f"{place}: {source}" if source and "get_ipython()" not in source else place]


def _is_own(path: str) -> bool:
    return not path.startswith(_OTHERS) and not {"site-packages", "dist-packages"} & {*Path(path).parts}


def _file(code: CodeType) -> str:
    """Return what IPython calls a cell, "Cell In[6]", or the path of another file."""
    core = sys.modules.get("IPython.core.getipython")  # only where there is one
    shell = core and core.get_ipython()
    name = shell and shell.compile.format_code_name(code.co_filename)
    return " ".join(name) if name else f"File {code.co_filename}"
