"""Nodes into what Jupyter stores: one rich form, `text/plain`, and for an answer its receipt."""

from __future__ import annotations

import json
from typing import Any, Literal

from llama_magic.display import render_html, render_markdown, render_text, views
from llama_magic.display.escape import json_safe, json_visible
from llama_magic.results import RECEIPT_MIME, Completion

Format = Literal["auto", "markdown", "text", "html", "json"]


def to_html(obj: Any) -> str:
    """Return `obj` as one static HTML fragment: escaped, without scripts or addresses."""
    return render_html.page(views.nodes(obj))


def to_markdown(obj: Any) -> str:
    """Return `obj` as Markdown without live HTML, images or mathematics."""
    return render_markdown.page(views.nodes(obj))


def to_text(obj: Any) -> str:
    """Return `obj` as plain text without control characters."""
    return render_text.page(views.nodes(obj))


def mimebundle(obj: Any, format: Format = "auto") -> dict[str, Any]:
    """Return what an output cell stores of `obj`.

    `auto` and `html` give static HTML, `markdown` Markdown, `text` neither, `json` the receipt
    (or the fields) as JSON. All but `json` hold `text/plain`; an answer holds its receipt as well.
    """
    receipt = _receipt(obj)
    if format == "json":
        data = receipt if receipt is not None else json_safe(views.plain(obj))
        text = json.dumps(data, ensure_ascii=False, indent=2, default=str)
        data = json.loads(text)
        return {"application/json": data, "text/plain": json_visible(text)} | _receipt_entry(receipt)
    out: dict[str, Any] = {"text/plain": to_text(obj)}
    if format == "markdown":
        out["text/markdown"] = to_markdown(obj)
    elif format in ("auto", "html"):
        out["text/html"] = to_html(obj)
    return out | _receipt_entry(receipt)


def _receipt(obj: Any) -> Any:
    if isinstance(obj, Completion):
        return saved_receipt(obj)
    if isinstance(obj, (list, tuple)) and obj and all(isinstance(item, Completion) for item in obj):
        return {"version": 1, "samples": [saved_receipt(item) for item in obj]}
    return None


def _receipt_entry(receipt: Any) -> dict[str, Any]:
    return {} if receipt is None else {RECEIPT_MIME: receipt}


def saved_receipt(completion: Completion) -> dict[str, Any]:
    """Return the receipt as it is saved: with a seed given, without what a warm KV cache changes."""
    receipt: dict[str, Any] = json_safe(completion.receipt)
    if completion.seeded:
        receipt["usage"].pop("cached_tokens", None)
    return receipt
