"""Answers and rows that hold values whose methods raise, without end, or like arrays: all is shown."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pytest
from pydantic import (
    BaseModel,
    BeforeValidator,
    WithJsonSchema,
    computed_field,
    create_model,
    field_serializer,
    model_serializer,
)

import llama_magic as lm
from llama_magic.testing import scripted_model


class Serializer(BaseModel):
    a: bool

    @field_serializer("a")
    def written(self, value: bool) -> Any:
        raise KeyError(value)


class Whole(BaseModel):
    a: bool

    @model_serializer
    def written(self) -> Any:
        return object()


class Computed(BaseModel):
    a: bool

    @computed_field  # type: ignore[prop-decorator]
    @property
    def share(self) -> int:
        return 1 // 0


class Dump(BaseModel):
    a: bool

    def model_dump(self, *args: Any, **options: Any) -> Any:
        raise OSError("dump")


class Words(BaseModel):
    a: bool

    def __repr__(self) -> str:
        raise ValueError("words")

    __str__ = __repr__


class Truth(BaseModel):
    a: bool

    def __bool__(self) -> bool:
        raise ValueError("truth")

    def __len__(self) -> int:
        raise ValueError("length")

    def __eq__(self, other: object) -> bool:
        raise ValueError("equal")

    __hash__ = None  # type: ignore[assignment]


class Item(BaseModel):
    a: bool
    item: int = 5


@dataclasses.dataclass
class Data:
    a: bool

    def __post_init__(self) -> None:
        self.a = _endless()


def _endless() -> Any:
    made: list[Any] = []
    made.append(made)
    return made


class _Odd:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError("no words")


VALUES: dict[str, Callable[[], Any]] = {
    "array": lambda: np.array([1, 2]),
    "empty array": lambda: np.array([]),
    "matrix": lambda: np.zeros((300, 300)),
    "scalar": lambda: np.float32(0.5),
    "frame": lambda: pd.DataFrame({"x": [1, 2]}),
    "series": lambda: pd.Series([1, 2]),
    "gap": lambda: pd.NaT,
    "bytes": lambda: b"\xff\x00",
    "surrogate": lambda: "\ud800",
    "number": lambda: 10**5000,
    "nan": lambda: Decimal("NaN"),
    "endless": _endless,
    "odd": _Odd,
    "class": lambda: np.int64,
    "member": lambda: enum.Enum("Made", "a").a,  # type: ignore[attr-defined]
    "keys": lambda: {(1, 2): {3}},
    "function": lambda: len,
}


def _holding(make: Callable[[], Any]) -> Any:
    kind: Any = Annotated[object, BeforeValidator(lambda _: make()), WithJsonSchema({"type": "boolean"})]
    return create_model("Holder", a=(kind, ...))


TYPES: dict[str, Any] = {
    **{made.__name__: made for made in (Serializer, Whole, Computed, Dump, Words, Truth, Item, Data)},
    **{name: _holding(make) for name, make in VALUES.items()},
}


@pytest.fixture(scope="module")
def model() -> Any:
    made = scripted_model(['{"a": true}'] * 1000)
    yield made
    made.close()


def shown(value: Any) -> Any:
    """The bundle of a value, shown as IPython does."""
    return value._repr_mimebundle_()


@pytest.mark.parametrize("name", TYPES)
def test_answers_of_any_type_are_shown(name: str, model: Any) -> None:
    """Whatever an instance does when looked at, its answer is shown: alone, in a map, in a sweep."""
    spec = TYPES[name]
    answer = model.structured("x", spec)
    assert '"a": true' in shown(answer)["text/plain"]
    assert answer.receipt["text"] == '{"a": true}'
    runs = lm.map([{"text": "x"}], "{{ text }}", schema=spec, model=model)
    assert runs[0].error is None
    assert shown(runs)["text/plain"]
    assert len(runs.to_pandas()) == 1
    sweep = lm.sweep("x", over={"schema": [spec, bool]}, model=model)
    assert spec.__name__ in shown(sweep)["text/plain"]


@pytest.mark.parametrize("name", VALUES)
def test_rows_and_axes_of_any_value_are_shown(name: str, model: Any) -> None:
    """Whatever a column or an axis holds, the results are shown, counted, compared and made a table."""
    value = VALUES[name]()
    runs = lm.map([{"text": "x", "wanted": value}], "{{ text }}", model=model, score="wanted")
    assert shown(runs)["text/plain"]
    assert shown(runs.confusion("wanted"))
    sweep = lm.sweep("x {{ v is string }}", over={"v": [value, "a"]}, model=model, n=2)
    assert len(sweep.axes["v"]) == 2
    assert shown(sweep)["text/plain"]
    assert shown(sweep.summary())
    assert len(sweep.where(v=value)) == 2
