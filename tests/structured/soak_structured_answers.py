"""Answers of the demo model at temperature 1.5 under random schemas: `python … FROM TO`.

Eight at a time. Every answer that ends is valid for jsonschema, or broke a keyword that is named as
checked after the answer, and then it raised.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from structured_support import random_schema

import llama_magic as lm


def check(model: Any, seed: int) -> str:
    """Ask for one answer; return how it went."""
    from jsonschema import Draft202012Validator

    schema = random_schema(random.Random(seed))
    try:
        answer = model.structured("Give an example.", schema, temperature=1.5, top_p=1.0, max_tokens=64)
    except lm.SchemaError:
        return "no schema"
    except lm.StructuredOutputError as error:
        if error.completion is None or error.completion.finish_reason == "length":
            return "cut"
        return "refused by the check after" if model.constraint(schema).why_not(error.text) else "wrong"
    reference = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    errors = list(reference.iter_errors(answer.parsed))
    assert "dependencies" in json.dumps(schema) or not errors, (seed, answer.text)
    return "valid"


def main(first: int = 0, last: int = 2000) -> None:
    """Check the random schemas of these seeds; the first wrong answer raises."""
    begun = time.monotonic()
    with lm.load("smollm2", ctx=2048) as model, ThreadPoolExecutor(8) as pool:
        results: Counter[str] = Counter()
        for done, how in enumerate(pool.map(lambda seed: check(model, seed), range(first, last)), 1):
            assert how != "wrong", f"seed {first + done - 1}: a valid answer was refused"
            results[how] += 1
            if done % 100 == 0:
                print(f"{done}: {dict(results)}, {time.monotonic() - begun:.0f} s", flush=True)
    print(f"{last - first} schemas: {dict(results)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
