"""`/v1/completions`, `/completion`, `/v1/embeddings`, the tokenize family, what a server says of itself."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from openai.types import Completion, CreateEmbeddingResponse, Model
from serving.conftest import Served, ask

from llama_magic.serving.app import POSTS
from llama_magic.serving.bodies import EVENTS, PAGES
from llama_magic.serving.server import serve
from llama_magic.serving.state import Limits
from llama_magic.testing import Script, scripted_model

TEXT = "/v1/completions"
ASKED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": ask(),
    TEXT: {"prompt": "a"},
    "/completion": {"prompt": "a"},
    "/v1/responses": {"input": "a"},
}


def echo(request: Any) -> str:
    """Answer with the prompt's last word, twice."""
    word = request.text.split()[-1]
    return f" {word} {word}"


def test_texts_are_continued(served: Callable[..., Served]) -> None:
    """One text, several, their tokens, several of these: a choice for each prompt, in order."""
    here = served(answers=echo)
    one = here.model.tokenize("one")
    for prompt, expected in (
        ("say one", [" one one"]),
        (["a one", "a two"], [" one one", " two two"]),
        (one, [" one one"]),
        ([one, here.model.tokenize("a two")], [" one one", " two two"]),
    ):
        body = here.post(TEXT, prompt=prompt)
        made = Completion.model_validate(body, strict=True)
        assert [c.text for c in made.choices] == expected
        assert [c.index for c in made.choices] == list(range(len(expected)))
        assert made.usage.completion_tokens == 2 * len(expected)
        streamed = [""] * len(expected)
        for event in here.events(TEXT, prompt=prompt):
            for choice in event["choices"]:
                streamed[choice["index"]] += choice["text"]
        assert streamed == expected


def test_samples_seeds_and_echo(served: Callable[..., Served]) -> None:
    """n samples of each prompt; a seed gives each prompt one of its own; echo puts the prompt in front."""
    here = served(answers=lambda _request: Script(samples=(" x", " y")))
    body = here.post(TEXT, prompt=["a", "b"], n=2, best_of=2, seed=3, echo=True)
    assert [c["text"] for c in body["choices"]] == ["a x", "a y", "b x", "b y"]
    seeds = [request.seed for request in here.backend.requests]
    assert 3 in seeds
    assert len(set(seeds)) == 2
    events = here.events(TEXT, prompt="a", n=2, echo=True)
    assert "".join(c["text"] for e in events for c in e["choices"] if c["index"] == 1) == "a y"
    assert here.post(TEXT, prompt="a b")["choices"][0]["finish_reason"] == "stop"
    assert here.backend.requests[-1].max_tokens == 16


def test_log_probabilities_in_columns(served: Callable[..., Served]) -> None:
    """The older form: tokens, values, alternatives, offsets; the stream has the same."""
    here = served(answers=lambda _request: " ab cde")
    body = Completion.model_validate(here.post(TEXT, prompt="x", logprobs=1), strict=True)
    told = body.choices[0].logprobs
    assert (told.tokens, told.text_offset) == ([" ab", " cde"], [0, 3])
    assert [list(top) for top in told.top_logprobs] == [[" ab"], [" cde"]]
    (drawn,) = here.post(TEXT, prompt="x", logprobs=0)["choices"]  # no alternatives but what was drawn
    assert drawn["logprobs"]["top_logprobs"] == [
        {text: value} for text, value in zip(told.tokens, drawn["logprobs"]["token_logprobs"], strict=True)
    ]
    parts = [e["choices"][0]["logprobs"] for e in here.events(TEXT, prompt="x", logprobs=1) if e["choices"]]
    assert [o for part in parts if part for o in part["text_offset"]] == [0, 3]


def test_what_a_completion_cannot_honour(served: Callable[..., Served]) -> None:
    """suffix, answers that are thrown away, probabilities of a prompt elsewhere, tokens of another one."""
    here = served()
    for more, param in (
        ({"prompt": "a", "suffix": "b"}, "suffix"),
        ({"prompt": "a", "best_of": 3}, "best_of"),
        ({"prompt": "a", "echo": True, "logprobs": 1}, "echo"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [1, 10**6]}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": "a", "stream_options": {"include_usage": True}}, "stream_options"),
        ({}, "prompt"),
        ({"prompt": "a", "temperature": 1, "samplers": ["nope"]}, "samplers"),
    ):
        here.refused(TEXT, param, **more)
    for path, limit in ((TEXT, "max_tokens"), ("/completion", "n_predict")):
        here.refused(path, limit, prompt="a", regex="[ab]{9}", **{limit: 1})
    for seed in (-1, 7):  # to clients of llama.cpp -1 is none
        here.post(TEXT, prompt="a", seed=seed)
        assert here.backend.requests[-1].exact is (seed == 7)
    here.refused(TEXT, "seed", prompt="a", seed=-2)


def test_the_native_form_tells_tokens(served: Callable[..., Served]) -> None:
    """llama-server's own form: content and tokens in pieces, why it ended, its timings."""
    here = served(answers=lambda _request: " one two")
    body = here.post("/completion", prompt="a b", n_predict=8, n_probs=1, return_tokens=True)
    assert (body["content"], body["stop_type"], body["tokens_predicted"]) == (" one two", "eos", 2)
    assert body["tokens"] == here.model.tokenize(" one two")
    assert [entry["id"] for entry in body["completion_probabilities"]] == body["tokens"]
    *parts, end = here.events("/completion", prompt=[97, " b"], n_predict=8)
    assert "".join(part["content"] for part in parts) == " one two"
    assert [token for part in parts for token in part["tokens"]] == body["tokens"]
    assert (end["stop"], end["tokens_evaluated"]) == (True, 2)
    assert here.post("/completion", prompt="a", n_predict=1)["stop_type"] == "limit"
    stopped = here.post("/completion", prompt="a", stop=[" two"])
    assert (stopped["stop_type"], stopped["stopping_word"], stopped["content"]) == ("word", " two", " one")
    here.refused("/completion", "preserved_tokens", prompt="a", preserved_tokens=["<nope>"])


def test_embeddings(served: Callable[..., Served], scripted: Any) -> None:
    """A vector a text or its tokens, as numbers or bytes, and the tokens that were read."""
    here = served(scripted)
    path = "/v1/embeddings"
    body = CreateEmbeddingResponse.model_validate(here.post(path, input=["ab", "c"]), strict=True)
    expected = scripted.embed(["ab", "c"])
    np.testing.assert_allclose([row.embedding for row in body.data], expected, rtol=1e-6)
    assert body.usage.prompt_tokens == sum(len(scripted.tokenize(text)) for text in ("ab", "c"))
    packed = here.post(path, input="ab", encoding_format="base64")["data"][0]["embedding"]
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(packed), "<f4"), expected[0])
    tokens = here.post(
        path, input=[scripted.tokenize("ab"), scripted.tokenize("c")], dimensions=len(expected[0])
    )
    assert [row["embedding"] for row in tokens["data"]] == [row.embedding for row in body.data]
    here.refused(path, "dimensions", input="a", dimensions=3)
    here.refused(path, "input", input=[])
    here.refused(path, "input", input=[[10**6]])
    here.refused(path, "input", input="")
    assert here.post(path, 400, input="a" * 5000)["error"]["type"] == "exceed_context_size_error"


def test_a_model_without_an_engine_says_that_it_embeds_nothing(served: Callable[..., Served]) -> None:
    """Where tokens come from elsewhere, embeddings are a 400 that names the model."""
    served(answers=lambda _r: "a").refused("/v1/embeddings", "model", input="a")


def test_the_tokenize_family(served: Callable[..., Served]) -> None:
    """llama-server's and llama_cpp.server's paths cut and join as the model does."""
    here = served()
    ids = here.model.tokenize("Is it<|im_end|> so?")
    assert here.post("/tokenize", content="Is it<|im_end|> so?")["tokens"] == ids
    literal = here.post("/tokenize", content="Is it<|im_end|> so?", parse_special=False)["tokens"]
    assert literal == here.model.tokenize("Is it<|im_end|> so?", parse_special=False)
    pieces = here.post("/tokenize", content="é b", with_pieces=True)["tokens"]
    assert "".join(token["piece"] for token in pieces) == "é b"
    assert here.post("/detokenize", tokens=ids)["content"] == "Is it<|im_end|> so?"
    assert here.post("/extras/tokenize", input="Is it so?")["tokens"] == here.model.tokenize("Is it so?")
    assert here.post("/extras/tokenize/count", input="Is it so?")["count"] == 3
    assert here.post("/extras/detokenize", tokens=ids)["text"] == "Is it<|im_end|> so?"
    here.refused("/detokenize", "tokens[0]", tokens=[-1])
    here.refused("/extras/detokenize", "tokens", tokens=[10**7])


def test_bos_and_bytes(served: Callable[..., Served], loaded: Callable[..., Any]) -> None:
    """add_special puts BOS in front where the model has one; a piece that is no text comes as bytes."""
    gemma = loaded("gemma")
    here = served(gemma)
    plain = here.post("/tokenize", content="Hi")["tokens"]
    assert here.post("/tokenize", content="Hi", add_special=True)["tokens"] == [
        gemma.backend.tokenizer.bos_id,
        *plain,
    ]
    pieces = here.post("/tokenize", content="\U000130fb", with_pieces=True)["tokens"]
    assert (
        b"".join(bytes(p["piece"]) if isinstance(p["piece"], list) else p["piece"].encode() for p in pieces)
        .decode()
        .strip()
        == "\U000130fb"
    )


def test_the_template_is_applied(served: Callable[..., Served]) -> None:
    """The prompt is the one that a chat would send, tools and all."""
    here = served()
    assert here.post("/apply-template", **ask())["prompt"] == here.model.prompt_for(ask()["messages"])
    tool = {"type": "function", "function": {"name": "look"}}
    assert '"name": "look"' in here.post("/apply-template", **ask(tools=[tool]))["prompt"]
    here.refused("/apply-template", "messages", messages=[])


def test_what_a_server_says_of_itself(served: Callable[..., Served]) -> None:
    """Models, one model, properties, health and counts; each page is what /openapi.json says."""
    here = served(answers=lambda _request: "a b")
    here.post("/v1/chat/completions", **ask())
    for path, page in PAGES.items():
        page.model_validate(here.client.get(path).json())
    for path in ("/v1/models", "/v1/models/", "/models"):
        assert [one["id"] for one in here.client.get(path).json()["data"]] == ["scripted"]
    row = here.client.get("/v1/models/scripted").json()
    assert Model.model_validate(row, strict=True).id == "scripted"
    assert row["meta"]["n_ctx"] == here.model.window
    props = here.client.get("/props").json()
    assert props["default_generation_settings"]["n_ctx"] == here.model.window
    counts = dict(
        line.rsplit(" ", 1) for line in here.client.get("/metrics").text.splitlines() if line[0] != "#"
    )
    assert counts['llamacpp:tokens_predicted_total{model="scripted"}'] == "2"
    assert counts['http_requests_total{path="/v1/chat/completions",status="200"}'] == "1"
    assert (
        counts["http_request_duration_seconds_count"]
        == counts['time_to_first_token_seconds_bucket{le="+Inf"}']
        == "1"
    )
    assert counts["llamacpp:requests_processing"] == "0"
    for path, status in (("/v1/models/nope", 404), ("/nope", 404), ("/v1/chat/completions", 405)):
        answer = here.client.get(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, status)
        row = list(here.server.log)[-1]
        assert (row.client, row.path, row.ended) == ("127.0.0.1", path, str(status))


def test_several_models_are_told_apart(served: Callable[..., Served]) -> None:
    """`model` chooses; without one it is the first; an unknown one is a 404 that names those there are."""
    here = served(scripted_model(lambda _r: "A", name="a"), scripted_model(lambda _r: "B", name="b"))
    path = "/v1/chat/completions"
    for model, text in ((None, "A"), ("a", "A"), ("b", "B")):
        assert here.post(path, **ask(model=model))["choices"][0]["message"]["content"] == text
    error = here.refused(path, "model", 404, **ask(model="c"))
    assert "'a', 'b'" in error["message"]
    assert error["type"] == "not_found_error"


def test_the_document_knows_every_path(served: Callable[..., Served]) -> None:
    """/openapi.json describes each path with its body; its references lead somewhere."""
    here = served()
    document = here.client.get("/openapi.json").json()
    assert set(document["paths"]) == {path for path, *_ in POSTS} | set(PAGES)
    known = document["components"]["schemas"]
    text = json.dumps(document)
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= set(known)
    for path in EVENTS:
        answer = document["paths"][path]["post"]["responses"]["200"]["content"]
        data = answer["text/event-stream"]["schema"]["properties"]["data"]
        with here.client.stream("POST", path, json={**ASKED[path], "stream": True}) as stream:
            last = stream.read().decode().strip().rpartition("data: ")[2]
        assert (last == "[DONE]") == ({"const": "[DONE]"} in data.get("anyOf", ()))
    fields = known["ChatCompletion"]["properties"]
    assert {"temperature", "top_k", "response_format", "min_tokens", "seed"} <= set(fields)


def test_a_closed_model_is_unavailable(served: Callable[..., Served]) -> None:
    """A model that is unloaded while it is served: 503 to each request, and to who asks for its health."""
    here = served()
    here.model.close()
    error = here.post("/v1/chat/completions", 503, **ask())["error"]
    assert error["type"] == "unavailable_error"
    assert here.client.get("/health").status_code == 503
    with pytest.raises(Exception, match="was unloaded"):
        serve(here.model, port=0)


def test_more_prompts_than_may_ever_wait_are_refused(served: Callable[..., Served]) -> None:
    """A mistake of the client's, 400 and no 503: sent again it would be no better."""
    here = served(answers=lambda _r: "a", limits=Limits(waiting=8))
    here.refused(TEXT, "prompt", prompt=["x"] * 9)
    assert len(here.post(TEXT, prompt=["x"] * 8)["choices"]) == 8
