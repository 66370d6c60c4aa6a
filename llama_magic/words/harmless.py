"""Model text is data: make every character of it visible and inert.

A control character, an ANSI or OSC escape, or a bidi control in an answer is shown by a
visible stand-in (`␛`, `⟨U+202E⟩`) and never sent to a terminal or a browser. Characters
that ordinary text needs stay as they are: line breaks, tabs, the joiners of emoji and of
Persian, variation selectors.
"""

from __future__ import annotations

import json
import re

# The characters of a class in a regular expression.
HIDDEN = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # C0 without tab, LF and CR; DEL; C1
    "\u00ad\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f"
)
_HIDDEN = re.compile(f"[{HIDDEN}]")


def _stand_in(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's control pictures
    return "\u2421" if code == 0x7F else f"⟨U+{code:04X}⟩"


def visible(text: str) -> str:
    """Return `text` with each control, bidi and invisible character replaced by a visible stand-in."""
    text = text.replace("\r\n", "\n").replace("\r", "\u240d")
    return _HIDDEN.sub(_stand_in, text)


def one_line(text: str, limit: int = 0) -> str:
    """Return visible text on one line (`↵` for a break); beyond `limit` characters cut with `…`."""
    text = visible(text).replace("\n", "↵").replace("\t", "→")
    return text if not limit or len(text) <= limit else text[: limit - 1] + "…"


def blanks_shown(text: str) -> str:
    """Return a token's text on one line with its blanks shown: `·` space, `↵` line break, `→` tab."""
    return one_line(text).replace(" ", "·")


def json_visible(text: str) -> str:
    """Return a JSON document with such characters as JSON's own escapes: its values stay the same."""
    return _HIDDEN.sub(lambda match: json.dumps(match.group())[1:-1], text)
