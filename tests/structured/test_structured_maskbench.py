"""Real-world schemas (maskbench): every label, by the masks and the check after."""

from __future__ import annotations

import gzip
import json
import random
import time
from typing import Any

import pytest
from structured_support import DATA

from llama_magic import structured
from llama_magic.errors import SchemaError

PATH = DATA / "maskbench.jsonl.gz"


def labelled() -> list[Any]:
    """Return all schemas, each with texts that are valid and texts that are not."""
    with gzip.open(PATH, "rt") as file:
        return [json.loads(line) for line in file]


def measure(rows: list[Any]) -> dict[str, Any]:
    """Return how many schemas are wholly right with the check and by the mask, and compile times in ms."""
    right = masked = invalid = 0
    disordered = []
    chance = random.Random(1)
    times = []
    for row in rows:
        begun = time.process_time()
        try:
            constraint = structured.compile(row["schema"])
        except SchemaError:
            continue
        times.append((time.process_time() - begun) * 1e3)
        texts = [(json.dumps(test["data"], ensure_ascii=False), test["valid"]) for test in row["tests"]]
        by_mask = [constraint.mask_accepts(text) for text, _ in texts]
        both = [ok and constraint.accepts(text) for ok, (text, _) in zip(by_mask, texts, strict=True)]
        masked += by_mask == [valid for _, valid in texts]
        right += both == [valid for _, valid in texts]
        invalid += sum(ok and not valid for ok, (_, valid) in zip(both, texts, strict=True))
        taken = [test["data"] for test, ok in zip(row["tests"], both, strict=True) if ok and test["valid"]]
        mixed = [json.dumps(shuffled(data, chance)) for data in taken]
        disordered += [row.get("name", row["schema"]) for text in mixed if not constraint.accepts(text)]
    times.sort()
    return {
        "right": right,
        "masked": masked,
        "invalid": invalid,
        "disordered": disordered,
        "p50": times[len(times) // 2],
        "p99": times[int(len(times) * 0.99)],
    }


def shuffled(value: Any, chance: random.Random) -> Any:
    """Return the same value with the keys of every object in another order."""
    if isinstance(value, dict):
        members = [(name, shuffled(item, chance)) for name, item in value.items()]
        return dict(chance.sample(members, len(members)))
    return [shuffled(item, chance) for item in value] if isinstance(value, list) else value


@pytest.mark.skipif(not PATH.exists(), reason="the shared data is not beside this repository")
def test_maskbench() -> None:
    """Of every sixteenth schema all but one are wholly right, 90 % by the mask alone; nothing invalid passes.

    No valid instance is refused for the order of its keys.
    """
    rows = labelled()[9::16]
    found = measure(rows)
    assert found["invalid"] == 0
    assert found["disordered"] == []
    assert found["right"] >= len(rows) - 1
    assert found["masked"] >= 0.9 * len(rows)


def test_maskbench_in_small() -> None:
    """The measure itself tells right from wrong."""
    rows = [
        {"schema": {"type": "integer"}, "tests": [{"data": 1, "valid": True}, {"data": "x", "valid": False}]},
        {"schema": {"uniqueItems": True}, "tests": [{"data": [1, 1], "valid": False}]},
        {"schema": {"type": "integer"}, "tests": [{"data": "x", "valid": True}, {"data": 1, "valid": False}]},
    ]
    found = measure(rows)
    assert (found["right"], found["masked"], found["invalid"]) == (2, 1, 1)


def test_keys_in_any_order_where_objects_declare_them_differently() -> None:
    """Equal names in another order elsewhere, parts put together by `allOf`, 60 keys, and a union."""
    names = [f"key{i}" for i in range(60)]
    up = {"properties": {name: {"type": "integer"} for name in names}}
    down = {"properties": {name: {"type": "integer"} for name in reversed(names)}}
    halves = {"allOf": [{"properties": {n: {"type": "integer"} for n in names[i::3]}} for i in (2, 0, 1)]}
    odd = {"anyOf": [{"type": "object", **down, "required": names[:5]}, {"type": "string"}]}
    schema = {"type": "object", "properties": {"a": up, "b": down, "c": halves, "d": odd}}
    constraint = structured.compile(schema)
    chance = random.Random(5)
    for _ in range(2):
        value = {part: dict.fromkeys(chance.sample(names, 60 if part == "d" else 40), 1) for part in "dbca"}
        assert constraint.accepts(json.dumps(value))
        value["c"]["key1"] = "x"
        assert not constraint.accepts(json.dumps(value))
