"""Structured answers: tokens per second against llama-cpp-python, guidance and our own free decode.

    python benchmarks/bench_structured.py [--threads N] [--rounds N] [--guidance PYTHON]

Each system writes the same five kinds of object on the demo model, greedily and warm, turn by turn in one
run, so that the ratios count on a noisy machine. guidance needs an environment of its own (it pins another
llguidance); without its interpreter that column is left out. Tokens are counted by one tokenizer on the
text that came out; "drawn" counts those of ours that were not forced. Where other work runs, `--threads 1`
is the steadier comparison: llama.cpp's threads wait for each other at every node.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any

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

# Run by another interpreter: reads a line {"schema", "prompt"}, answers {"text", "seconds"}.
_LLAMA_CPP = """
import json, sys, time
from llama_cpp import Llama
llm = Llama(sys.argv[1], n_ctx=2048, n_threads=int(sys.argv[2]), verbose=False)
for line in sys.stdin:
    job = json.loads(line)
    began = time.perf_counter()
    out = llm.create_chat_completion(
        [{"role": "user", "content": job["prompt"]}], temperature=0, max_tokens=job["max_tokens"],
        response_format={"type": "json_object", "schema": job["schema"]})
    print(json.dumps({"text": out["choices"][0]["message"]["content"],
                      "seconds": time.perf_counter() - began}), flush=True)
"""
_GUIDANCE = """
import json, sys, time
from guidance import assistant, models, user, json as gen_json
base = models.LlamaCpp(sys.argv[1], n_ctx=2048, n_threads=int(sys.argv[2]), echo=False)
for line in sys.stdin:
    job = json.loads(line)
    began = time.perf_counter()
    lm = base
    with user():
        lm = lm + job["prompt"]
    with assistant():
        lm = lm + gen_json(name="out", schema=job["schema"], temperature=0.0, max_tokens=job["max_tokens"])
    print(json.dumps({"text": lm["out"], "seconds": time.perf_counter() - began}), flush=True)
"""


class Other:
    """Another system in a process of its own."""

    def __init__(self, python: str, script: str, path: str, threads: int) -> None:
        self._process = subprocess.Popen(
            [python, "-c", script, path, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def write(self, schema: dict[str, Any], prompt: str) -> tuple[str, float]:
        job = {"schema": schema, "prompt": prompt, "max_tokens": MAX_TOKENS}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["text"], answer["seconds"]


def main(threads: int, rounds: int, guidance_python: str | None) -> None:
    """Print tokens per second by kind of object, and our ratio to each system."""
    import llama_magic as lm

    model = lm.load("smollm2", ctx=2048, **({"threads": threads} if threads else {}))
    threads = model.options["threads"]
    others = {"llama-cpp-python": Other(sys.executable, _LLAMA_CPP, str(model.path), threads)}
    if guidance_python:
        others["guidance"] = Other(guidance_python, _GUIDANCE, str(model.path), threads)
    drawn: list[float] = []

    def ours(schema: dict[str, Any], prompt: str) -> tuple[str, float]:
        try:
            answer = model.structured(prompt, schema, temperature=0, max_tokens=MAX_TOKENS)
        except lm.StructuredOutputError as error:
            answer = error.completion
        usage = answer.usage
        drawn.append(1 - usage.forced_tokens / usage.completion_tokens)
        return answer.text, answer.timings.total_s

    def free(_schema: dict[str, Any], prompt: str) -> tuple[str, float]:
        messages = [{"role": "user", "content": prompt}]
        answer = model.chat(messages, temperature=0, max_tokens=100, ignore_eos=True)
        return answer.raw_text, answer.timings.total_s

    systems = {"ours": ours, "ours, free": free, **{name: other.write for name, other in others.items()}}
    print(f"smollm2, {threads} threads, medians of {rounds} rounds; tokens per second")
    print("kind".ljust(14) + "".join(f"{name:>18}" for name in (*systems, "ratios of ours", "drawn/free")))
    for kind, schema in SCHEMAS.items():
        prompt = PROMPT.format(schema=json.dumps(schema))
        speeds: dict[str, list[float]] = {name: [] for name in systems}
        drawn.clear()
        for round_ in range(rounds + 1):
            for name, write in systems.items():
                text, seconds = write(schema, prompt)
                if round_:  # the first round warms up
                    speeds[name].append(len(model.tokenize(text)) / seconds)
        ratio = {
            name: statistics.median(a / b for a, b in zip(speeds["ours"], speeds[name], strict=True))
            for name in systems
        }
        cells = [f"{statistics.median(values):.1f}" for values in speeds.values()]
        ratios = " ".join(f"{ratio[name]:.2f}" for name in list(systems)[1:])
        per_draw = statistics.median(drawn) * ratio["ours, free"]
        print(
            kind.ljust(14) + "".join(f"{cell:>18}" for cell in (*cells, ratios, f"{per_draw:.2f}")),
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--guidance", metavar="PYTHON")
    options = parser.parse_args()
    main(options.threads, options.rounds, options.guidance)
