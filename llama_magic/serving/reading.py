"""A request's body: read within limits, checked, and made an object; a mistake is named by its field."""

from __future__ import annotations

import asyncio
import codecs
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request

from llama_magic.model.other_names import CALLED_ELSEWHERE
from llama_magic.serving.fields.common import Fields
from llama_magic.serving.fields.elsewhere import HOSTED, INSTEAD
from llama_magic.serving.fields.idle import IDLE
from llama_magic.serving.refusals import Refusal
from llama_magic.words.harmless import one_line
from llama_magic.words.names import hint

_TAG = re.compile(
    r"Input tag ('.*') found using '\w+' does not match any of the expected tags: (.*)", re.DOTALL
)
M = TypeVar("M", bound=Fields)


async def read(request: Request, kind: type[M], *, most: int, seconds: float) -> M:
    """Return the body as a `kind`. Raises `Refusal`: too large, too slow, no JSON, a wrong field."""
    return parse(await read_bytes(request, most=most, seconds=seconds), kind)


async def read_bytes(request: Request, *, most: int, seconds: float) -> bytes:
    """Return the body, of at most `most` bytes, that has to come within `seconds`."""
    packed = request.headers.get("content-encoding", "").strip().lower()
    if packed not in ("", "identity"):
        raise Refusal(
            400, f"The body is packed ({one_line(packed, 50)}); expected plain JSON.", "Content-Encoding"
        )
    size, pieces = 0, []
    # A client that says how long it is may wait to be asked for it, and then is not to send it any more.
    waits = "expect" in request.headers
    large = Refusal(
        413, f"The body has more than {most:,} bytes.", headers={"connection": "close"} if waits else {}
    )
    if int(request.headers.get("content-length", 0)) > most:
        raise large
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                size += len(piece)
                if size > most:
                    raise large
                pieces.append(piece)
    except TimeoutError:
        raise Refusal(408, f"The body did not come within {seconds:g} seconds.") from None
    except ClientDisconnect:
        raise Refusal(400, "The client closed the connection in the middle of the body.") from None
    return b"".join(pieces)


def parse(data: bytes, kind: type[M]) -> M:
    """Return JSON as a `kind`."""
    data = data.removeprefix(codecs.BOM_UTF8)  # Windows writes files with one
    try:
        made = kind.model_validate_json(data)
    except ValidationError as error:
        raise _refusal(error, data, kind) from None
    if others := made.model_fields_set & kind.same.keys():
        _check_same(json.loads(data), sorted(others), kind)
    return made


def _check_same(body: Mapping[str, Any], others: Iterable[str], kind: type[Fields]) -> None:
    """Raise `Refusal` for another name of a field that says anything else than that."""
    for name in others:
        of, off = kind.same[name]
        value = body[name]
        said = [(ours, body[ours]) for ours in of if body.get(ours) is not None]
        if value is None or any(_equal(value, theirs) for theirs in (off, *(theirs for _, theirs in said))):
            continue
        if said:
            words = f"{name} and {said[0][0]} are one thing here, and say two: write {said[0][0]} alone."
        else:
            ours = next((one for one in of if one in kind.model_fields and one not in kind.same), of[0])
            words = f"{name} is not taken here. {kind.instead.get(name) or f'Write {ours}.'}"
        raise Refusal(400, words, param=name)


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _refusal(error: ValidationError, data: bytes, kind: type[Fields]) -> Refusal:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    if problems[0]["type"] == "json_invalid":
        return Refusal(
            400, f"The body is no JSON: {one_line(problems[0]['msg'].removeprefix('Invalid JSON: '), 200)}."
        )
    body = json.loads(data)
    if not isinstance(body, dict):
        return Refusal(400, f"The body is {_kind(body)}; expected an object.")
    # Of a union each branch complains: the one that came furthest knows best, and of a part its type.
    path, problem = max(((_path(p, body), p) for p in problems), key=_tells)
    name = _written(path)
    field = str(path[0]) if len(path) == 1 else ""
    instead = kind.instead.get(field) or INSTEAD.get(field)
    if (idle := IDLE.get(field)) and idle.value and field in kind.model_fields:
        return Refusal(400, f"{field} is taken as {idle.value} alone. {idle.why}", param=name)
    if instead and problem["type"] in ("extra_forbidden", "none_required"):
        return Refusal(400, f"{one_line(name, 200)} is not taken here. {instead}", param=name)
    if problem["type"] == "extra_forbidden":
        known = kind.model_fields.keys() - IDLE.keys() - kind.same.keys() if field else set()
        near = hint(str(path[-1]), known, CALLED_ELSEWHERE) if known else ""
        return Refusal(400, f"There is no field {one_line(name, 200)!r} here.{near}", param=name)
    if problem["type"] == "union_tag_not_found":
        return Refusal(400, f"{one_line(name, 200)}: Field required.", param=name)
    if problem["type"] == "union_tag_invalid" and "content" in path:
        instead = "Only text is read here: leave images, sound and files out, or say in words what they show."
    words = _TAG.sub(r"is \1; expected \2", problem["msg"])
    of = ":" if words == problem["msg"] else ""
    message = f"{one_line(name, 200) or 'The body'}{of} {one_line(words, 300)}."
    if path[:1] == ["tools"] and path[-1] == "type":
        instead = HOSTED.get(str(body["tools"][path[1]]["type"]))
    return Refusal(400, f"{message} {instead}" if instead else message, param=name or None)


def _tells(found: tuple[list[int | str], Any]) -> tuple[int, bool, bool, bool]:
    path, problem = found
    of_type = path[-1:] == ["type"] and problem["type"] in ("literal_error", "union_tag_invalid")
    right_kind = not problem["type"].endswith("_type")  # a branch of the value's own kind, and its fault
    return len(path), of_type, problem["type"] == "extra_forbidden", right_kind


def _path(problem: Any, body: Any) -> list[int | str]:
    """Return the steps of a place that lead into the body; pydantic names branches of unions between them."""
    loc = (*problem["loc"], *(["type"] if problem["type"].startswith("union_tag") else []))
    path: list[int | str] = []
    at = body
    for step, after in zip(loc, [*loc[1:], None], strict=True):
        if isinstance(at, dict) and after in at and not isinstance(at.get(step), (dict, list)):
            continue  # the name of a branch, which is also that of a field
        if (isinstance(at, dict) and step in at) or (isinstance(at, list) and isinstance(step, int)):
            if isinstance(at, list):
                assert isinstance(step, int)
                at = at[step] if step < len(at) else None
            else:
                at = at[step]
            path.append(step)
    if loc and loc[-1] != (path[-1] if path else None) and isinstance(at, dict):
        path.append(loc[-1])  # a field that is missing
    return path


def _written(path: list[int | str]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "true or false"}
    return names.get(type(value), "null")
