"""Nodes into what Jupyter stores: one rich form, `text/plain`, and for an answer its receipt."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

from llama_magic.display import hosts
from llama_magic.display.static import html as render_html
from llama_magic.display.static import markdown as render_markdown
from llama_magic.display.static import text as render_text
from llama_magic.display.static.doc import Node
from llama_magic.display.views.data import plain
from llama_magic.display.views.find import nodes
from llama_magic.model.earlier import Earlier, receipt_of_turn
from llama_magic.model.results import RECEIPT_MIME, Completion
from llama_magic.words.harmless import json_visible

_SURROGATES = re.compile("[\ud800-\udfff]")
Format = Literal["auto", "markdown", "text", "html", "json"]


def both(page: Sequence[Node]) -> dict[str, Any]:
    """Return nodes as what Jupyter stores: HTML, and plain text."""
    return {"text/html": render_html.page(page), "text/plain": render_text.page(page)}


def to_html(obj: Any) -> str:
    """Return `obj` as one static HTML fragment: escaped, without scripts or addresses."""
    return render_html.page(nodes(obj))


def to_markdown(obj: Any) -> str:
    """Return `obj` as Markdown without live HTML, images or mathematics."""
    return render_markdown.page(nodes(obj))


def to_text(obj: Any) -> str:
    """Return `obj` as plain text without control characters."""
    return render_text.page(nodes(obj))


def mimebundle(obj: Any, format: Format = "auto", earlier: Earlier | None = None) -> dict[str, Any]:
    """Return what an output cell stores of `obj`; of a turn in a chat without what was saved `earlier`.

    `auto` and `html` give static HTML, `markdown` Markdown, `text` neither, `json` the receipt
    (or the fields) as JSON. All but `json` hold `text/plain`; an answer holds its receipt as well.
    """
    receipt = _receipt(obj, earlier)
    if format == "json":
        data = receipt if receipt is not None else json_safe(plain(obj))
        text = json.dumps(data, ensure_ascii=False, indent=2, default=str)
        data = json.loads(text)
        return {"application/json": data, "text/plain": json_visible(text)} | _receipt_entry(receipt)
    page = nodes(obj)
    out: dict[str, Any] = {"text/plain": render_text.page(page)}
    if format == "markdown":
        out["text/markdown"] = render_markdown.page(page)
    elif format in ("auto", "html"):
        out["text/html"] = render_html.page(page)
    return out | _receipt_entry(receipt)


def _receipt(obj: Any, earlier: Earlier | None) -> Any:
    if isinstance(obj, Completion):
        return saved_receipt(obj, earlier)
    if isinstance(obj, (list, tuple)) and obj and all(isinstance(item, Completion) for item in obj):
        return {"version": 1, "samples": [saved_receipt(item, earlier) for item in obj]}
    return None


def _receipt_entry(receipt: Any) -> dict[str, Any]:
    return {} if receipt is None else {RECEIPT_MIME: receipt}


def saved_receipt(completion: Completion, earlier: Earlier | None = None) -> dict[str, Any]:
    """Return the receipt as it is saved: with a seed given, without what a warm KV cache changes."""
    made = completion.receipt if earlier is None else receipt_of_turn(completion, earlier)
    receipt: dict[str, Any] = json_safe(made)
    if completion.seeded:
        receipt["usage"].pop("cached_tokens", None)
    return receipt


def show(obj: Any, shell: Any = None, format: Format = "auto") -> None:
    """Publish `obj` as a static output; print its text where there is no IPython."""
    shell = shell if shell is not None else hosts.current_shell()
    hosts.publish(shell, mimebundle(obj, format))


def json_safe(value: Any) -> Any:
    """Return a copy of JSON data in which lone surrogates are U+FFFD: notebooks are saved as UTF-8."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, dict):
        return {json_safe(key): json_safe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_safe(item) for item in value]
    return value
