"""Numbers, sets and decimals of the demo model, 200 seeds each: every answer ends by itself and is valid."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

import llama_magic as lm

CASES: list[tuple[str, Any]] = [
    ("How tall is Mount Everest in km?", float),
    ("In which year did the first world war begin?", int),
    ("How likely is rain, from 0 to 1?", Annotated[float, Field(ge=0, le=1)]),
    ("Which colours are in the flag of Italy?", set[Literal["red", "green", "blue", "white"]]),
    # To the one above the model answers [] at once; here it must write, and may not write one twice.
    ("Which colours are in a flag?", Annotated[set[Literal["red", "green", "blue"]], Field(min_length=2)]),
    ("Price of a car with cents, as a number?", Decimal),
]


def main(seeds: int = 200) -> None:
    """Ask for each with every seed; the first answer that is cut or no instance raises."""
    with lm.load("smollm2", ctx=1024, threads=1) as model:
        for prompt, schema in CASES:
            longest, seen, adapter = 0, set[str](), TypeAdapter(schema)
            for seed in range(seeds):
                answer = model.structured(prompt, schema, max_tokens=64, seed=seed)
                assert answer.finish_reason == "stop", (schema, seed, answer.text)
                # pydantic reads a decimal's number as a float first; ours has the digits as written.
                text = json.dumps(answer.text.strip('"')) if schema is Decimal else answer.text
                assert answer.parsed == adapter.validate_json(text), (schema, seed, answer.text)
                seen.add(answer.text)
                longest = max(longest, len(answer.token_ids))
            print(
                f"{schema}: {seeds} end by themselves, in at most {longest} tokens ({len(seen)} texts)",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
