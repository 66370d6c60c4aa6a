"""Structured answers: tokens a second against other libraries and our own free decode.

    python benchmarks/bench_structured.py [--rounds N] [--threads N] [MODEL.gguf …]

Each side writes the same five kinds of object, greedily and warm, in a process of its own. Tokens are those
of the text that came out, by the model's tokenizer. Where other work runs, `--threads 1` is the steadier
comparison: llama.cpp's threads wait for each other at every node.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from harness import Bench, Options, Side, installed, main

MAX_TOKENS = 300
TEXT = {"type": "string", "maxLength": 40}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


SCHEMAS: dict[str, dict[str, Any]] = {
    "flat": _object(name=TEXT, city=TEXT, age={"type": "integer", "minimum": 0, "maximum": 120}, email=TEXT),
    "nested": _object(
        person=_object(name=TEXT, address=_object(street=TEXT, town=TEXT)), active={"type": "boolean"}
    ),
    "list": _object(
        items={
            "type": "array",
            "minItems": 20,
            "maxItems": 20,
            "items": _object(id={"type": "integer", "minimum": 0, "maximum": 99}, ok={"type": "boolean"}),
        }
    ),
    "enums": _object(
        colour={"enum": ["red", "green", "blue", "yellow"]},
        size={"enum": ["small", "medium", "large"]},
        state={"enum": ["new", "used", "refurbished"]},
        grade={"enum": ["A", "B", "C", "D"]},
    ),
    "long strings": _object(
        summary={"type": "string", "minLength": 200, "maxLength": 400},
        quote={"type": "string", "minLength": 100, "maxLength": 200},
    ),
}
PROMPT = "Write a JSON object about a person, a place or a thing. Schema: {schema}"


def _each(write: Callable[[dict[str, Any], str], str], count: Callable[[str], int]) -> dict[str, float]:
    """Write each kind of object twice, and return tokens a second of the second."""
    figures = {}
    for kind, schema in SCHEMAS.items():
        prompt = PROMPT.format(schema=json.dumps(schema))
        write(schema, prompt)
        began = time.perf_counter()
        text = write(schema, prompt)
        figures[kind] = count(text) / (time.perf_counter() - began)
    return figures


def ours(options: Options) -> dict[str, float]:
    import llama_magic as lm

    with lm.load(options.model, ctx=2048, threads=options.threads) as model:

        def write(schema: dict[str, Any], prompt: str) -> str:
            try:
                answer = model.structured(prompt, schema, temperature=0, max_tokens=MAX_TOKENS)
            except lm.StructuredOutputError as error:
                answer = error.completion
            return str(answer.text)

        return _each(write, lambda text: len(model.tokenize(text)))


def free(options: Options) -> dict[str, float]:
    import llama_magic as lm

    with lm.load(options.model, ctx=2048, threads=options.threads) as model:

        def write(_schema: dict[str, Any], prompt: str) -> str:
            messages = [{"role": "user", "content": prompt}]
            return str(model.chat(messages, temperature=0, max_tokens=100, ignore_eos=True).raw_text)

        return _each(write, lambda text: len(model.tokenize(text)))


def _llama(options: Options) -> Any:
    from llama_cpp import Llama

    threads = options.threads
    return Llama(options.model, n_ctx=2048, n_threads=threads, n_threads_batch=threads, verbose=False)


def _counter(llm: Any) -> Callable[[str], int]:
    return lambda text: len(llm.tokenize(text.encode(), add_bos=False, special=False))


def llama_cpp(options: Options) -> dict[str, float]:
    llm = _llama(options)

    def write(schema: dict[str, Any], prompt: str) -> str:
        out = llm.create_chat_completion(
            [{"role": "user", "content": prompt}],
            temperature=0,
            max_tokens=MAX_TOKENS,
            response_format={"type": "json_object", "schema": schema},
        )
        return str(out["choices"][0]["message"]["content"])

    return _each(write, _counter(llm))


def guidance(options: Options) -> dict[str, float]:
    from guidance import assistant, models, user
    from guidance import json as gen_json

    base = models.LlamaCpp(options.model, n_ctx=2048, n_threads=options.threads, echo=False)
    llm = _llama(options)  # for its tokenizer

    def write(schema: dict[str, Any], prompt: str) -> str:
        lm = base
        with user():
            lm = lm + prompt
        with assistant():
            lm = lm + gen_json(name="out", schema=schema, temperature=0.0, max_tokens=MAX_TOKENS)
        return str(lm["out"])

    return _each(write, _counter(llm))


def outlines(options: Options) -> dict[str, float]:
    import outlines as library

    llm = _llama(options)
    model = library.from_llamacpp(llm)

    def write(schema: dict[str, Any], prompt: str) -> str:
        chat = library.inputs.Chat([{"role": "user", "content": prompt}])
        return str(model(chat, library.json_schema(schema), temperature=0, max_tokens=MAX_TOKENS))

    return _each(write, _counter(llm))


BENCH = Bench(
    "structured",
    "Structured answers, against ours",
    "tokens a second",
    [
        Side("llama_magic", ours),
        Side("llama_magic, free", free),
        Side("llama-cpp-python", llama_cpp, peer="llama-cpp-python"),
        Side("guidance", guidance, peer="guidance"),
        Side("outlines", outlines, peer="outlines"),
    ],
)

if __name__ == "__main__":
    main(BENCH, installed()[:1])
