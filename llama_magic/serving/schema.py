"""`/openapi.json`: the paths, what their bodies may hold, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

from pydantic.json_schema import models_json_schema

from llama_magic.serving.bodies import BODIES, DONE, EVENTS, PAGES, Error
from llama_magic.serving.fields.common import Fields

_REF = "#/components/schemas/{model}"
_STATUSES = {
    "400": "The request cannot be honoured; the message names the field.",
    "401": "The key is missing or wrong.",
    "403": "Not from this host, or from this page.",
    "404": "There is no such model.",
    "408": "The body came too slowly.",
    "413": "The body is too large.",
    "503": "Too many requests, or the model was closed.",
}


def document(posts: Iterable[tuple[str, type[Fields], Any, tuple[str, ...]]]) -> dict[str, Any]:
    """Return the document, OpenAPI 3.1."""
    posts = list(posts)
    asked: list[type[Fields]] = [kind for _, kind, _, _ in posts]
    told = [*dict.fromkeys((*BODIES.values(), *EVENTS.values(), *PAGES.values(), Error))]
    validating: list[tuple[Any, Any]] = [(kind, "validation") for kind in dict.fromkeys(asked)]
    serializing: list[tuple[Any, Any]] = [(kind, "serialization") for kind in told]
    refs, schemas = models_json_schema([*validating, *serializing], ref_template=_REF)
    paths: dict[str, Any] = {}
    for path, kind, handle, _ in posts:
        paths[path] = {
            "post": {
                "summary": (handle.__doc__ or "").strip(),
                "operationId": handle.__name__,
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": refs[kind, "validation"]}},
                },
                "responses": _responses(_answers(path, refs), refs[Error, "serialization"]),
            }
        }
    for path, page in PAGES.items():
        content = {"application/json": {"schema": refs[page, "serialization"]}}
        operation = {
            "operationId": path.strip("/").replace("/", "_"),
            "responses": _responses(content, refs[Error, "serialization"]),
        }
        paths[path] = {"get": operation}
    return {
        "openapi": "3.1.0",
        "info": {"title": "llama_magic", "version": metadata.version("llama-magic")},
        "paths": paths,
        "components": {
            "schemas": schemas.get("$defs", {}),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _answers(path: str, refs: Mapping[Any, Any]) -> dict[str, Any]:
    """Return what a path answers with, whole and in events."""
    content = {"application/json": {"schema": refs[BODIES[path], "serialization"]}}
    if path in EVENTS:
        data, error = refs[EVENTS[path], "serialization"], refs[Error, "serialization"]
        content["text/event-stream"] = {"schema": _event(data, error, path in DONE)}
    return content


def _event(data: Any, error: Any, done: bool) -> dict[str, Any]:
    """Return the schema of one event of a stream: what it carries is JSON, but for a last `[DONE]`."""
    content = {"anyOf": [data, error]}
    text: dict[str, Any] = {
        "type": "string", "contentMediaType": "application/json", "contentSchema": content,
    }  # fmt: skip
    if done:
        text = {"anyOf": [text, {"const": "[DONE]"}]}
    return {"type": "object", "properties": {"event": {"type": "string"}, "data": text}}


def _responses(content: dict[str, Any], error: Any) -> dict[str, Any]:
    failed = {"application/json": {"schema": error}}
    return {
        "200": {"description": "What was asked for.", "content": content},
        **{status: {"description": words, "content": failed} for status, words in _STATUSES.items()},
    }
