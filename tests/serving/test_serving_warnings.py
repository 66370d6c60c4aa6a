"""What a request has that does nothing is told beside its answer, in a header."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from serving.conftest import Served, ask

PATHS: tuple[tuple[str, dict[str, Any], Callable[[Any], dict[str, Any]]], ...] = (
    ("/v1/chat/completions", ask(), lambda schema: {"json_schema": schema}),
    ("/v1/completions", {"prompt": "a"}, lambda schema: {"structured_outputs": {"json": schema}}),
    ("/completion", {"prompt": "a"}, lambda schema: {"json_schema": schema}),
    (
        "/v1/responses",
        {"input": "a"},
        lambda schema: {"text": {"format": {"type": "json_schema", "name": "x", "schema": schema}}},
    ),
)


@pytest.mark.parametrize(("path", "asked", "held"), PATHS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_misspelt_keyword_is_told(
    served: Callable[..., Served], path: str, asked: Any, held: Any, stream: bool
) -> None:
    """By `Warning` headers, one each, in ASCII, as Kubernetes tells of fields that it drops: the body is what
    it is without. A schema that is right has none."""
    here = served(answers=lambda _request: "{}")
    odd = {"type": "object", "properties": {'ä"': {"type": "integer", "minimun": 3}}, "requird": []}
    answer = here.client.post(path, json={**asked, **held(odd), "stream": stream})
    assert answer.status_code == 200
    first, second = sorted(answer.headers.get_list("warning"))
    assert first.startswith("299 - \"the schema's 'minimun' at /properties/\\\\xe4\\\" has no effect")
    assert second.startswith("299 - \"the schema's 'requird' at the root has no effect")
    assert second.endswith("did you mean 'required'?\"")
    right = here.client.post(path, json={**asked, **held({"type": "object"}), "stream": stream})
    assert right.headers.get_list("warning") == []
    assert set(right.headers) == set(answer.headers) - {"warning"}
