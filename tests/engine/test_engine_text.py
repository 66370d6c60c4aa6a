"""TextStream and Sampling: the parts of the engine that need no model."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.request.sampling import Sampling, check_seed
from llama_magic.request.stages import DEFAULT_ORDER, MAX_SEED
from llama_magic.request.text import TextStream


def _run(pieces: list[bytes], stops: tuple[str, ...]) -> tuple[str, str | None]:
    stream = TextStream(stops)
    text = "".join(stream.decode(piece) for piece in pieces)
    return text + stream.flush(), stream.stop


def _cuts(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(c % (len(data) + 1) for c in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


_TEXTS = st.text(alphabet="abAB é漢🦙\n", max_size=24)
_DATA = st.one_of(_TEXTS.map(str.encode), st.binary(max_size=24))
_STOPS = st.lists(st.text(alphabet="abAé漢🦙\n", min_size=1, max_size=4), max_size=3).map(tuple)


@given(_DATA, st.lists(st.integers(0, 100), max_size=12), _STOPS)
def test_text_does_not_depend_on_how_bytes_are_cut(
    data: bytes, cuts: list[int], stops: tuple[str, ...]
) -> None:
    """Any cut of the same bytes gives the same text and the same stop string."""
    assert _run(_cuts(data, cuts), stops) == _run([data[i : i + 1] for i in range(len(data))], stops)


@given(_TEXTS, st.lists(st.integers(0, 100), max_size=12), _STOPS)
def test_stop_string_that_is_complete_first_ends_the_text(
    text: str, cuts: list[int], stops: tuple[str, ...]
) -> None:
    """The text ends before the stop string with the smallest end, the earliest start among equals."""
    found = [(text.find(s) + len(s), text.find(s), s) for s in stops if s in text]
    expected = (text[: min(found)[1]], min(found)[2]) if found else (text, None)
    assert _run(_cuts(text.encode(), cuts), stops) == expected


@given(_DATA)
def test_bytes_come_out_as_python_decodes_them(data: bytes) -> None:
    """Without stop strings the text is `bytes.decode("utf-8", "replace")`."""
    assert _run([data[i : i + 1] for i in range(len(data))], ())[0] == data.decode("utf-8", "replace")


def test_stop_string_never_leaks_and_text_comes_early() -> None:
    """`DEFGHIJ` arriving as DEF, G, HI, J is never shown; what cannot be part of it comes at once."""
    stream = TextStream(["DEFGHIJ"])
    shown = [stream.decode(p) for p in (b"abcDEF", b"G", b"HI", b"J", b"k")]
    assert shown == ["abc", "", "", "", ""]
    assert (stream.stop, stream.flush()) == ("DEFGHIJ", "")
    stream = TextStream(["DEFGHIJ"])
    assert [stream.decode(p) for p in (b"DEF", b"x", b"D")] == ["", "DEFx", ""]
    assert stream.flush() == "D"


def test_character_split_over_tokens_waits_for_its_end() -> None:
    """Four byte tokens of an emoji are one character; half of one becomes U+FFFD at the end."""
    stream = TextStream()
    assert [stream.decode(bytes([b])) for b in "🦙".encode()] == ["", "", "", "🦙"]
    assert stream.decode("🦙".encode()[:2]) == ""
    assert stream.flush() == "�"


# --- Sampling -----------------------------------------------------------------------------------


def test_defaults_are_llama_cpps() -> None:
    """Without any option the recipe is that of llama.cpp's `common_params_sampling`."""
    s = Sampling()
    assert (s.temperature, s.top_k, s.top_p, s.min_p, s.typical_p) == (0.8, 40, 0.95, 0.05, 1.0)
    assert (s.repeat_penalty, s.repeat_last_n, s.dry_base, s.dry_allowed_length) == (1.0, 64, 1.75, 2)
    assert s.samplers == DEFAULT_ORDER


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"temperature": math.nan}, "temperature"),
        ({"top_p": 1.5}, "from 0 to 1"),
        ({"top_k": -2}, "top_k"),
        ({"mirostat": 3}, "mirostat"),
        ({"samplers": "top_k;top_q"}, "top_p"),
        ({"samplers": "top_k;top_k"}, "twice"),
        ({"logit_bias": {5: math.nan}}, "token 5 is nan"),
        ({"logit_bias": {5: math.inf}}, "token 5 is inf"),
        ({"temprature": 1.0}, "Did you mean temperature"),
    ],
)
def test_wrong_values_are_named(changes: dict[str, object], words: str) -> None:
    """A value that cannot be meant is an OptionError that names parameter or nearest name."""
    with pytest.raises(OptionError, match=words):
        Sampling().replace(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": "hot"}, {"temperature": True}, {"temperature": None}, {"top_k": 1.5},
        {"logit_bias": {"x": 1}}, {"logit_bias": 5}, {"samplers": 3}, {"samplers": [1]},
        {"dry_sequence_breakers": [1]}, {"dry_sequence_breakers": 1}, {"mirostat": "on"},
    ],
)  # fmt: skip
def test_wrong_types_are_one_kind_of_error(changes: dict[str, object]) -> None:
    """A value of the wrong type is an InputTypeError or OptionError, never a bare Python error."""
    with pytest.raises((InputTypeError, OptionError)):
        Sampling().replace(**changes)


def test_recipe_is_json_ready() -> None:
    """`to_dict` holds lists and strings that JSON can carry, -inf included."""
    import json

    data = Sampling(logit_bias={3: -math.inf}, samplers="top_k;temperature").to_dict()
    assert json.loads(json.dumps(data, allow_nan=False))["logit_bias"] == [[3, "-inf"]]
    assert data["samplers"] == ["top_k", "temperature"]


def test_seeds_are_taken_as_they_are() -> None:
    """0 and 2**32 - 2 are seeds; -1, llama.cpp's "draw one" and other types are refused."""
    assert (check_seed(0), check_seed(MAX_SEED)) == (0, 2**32 - 2)
    for wrong in (-1, 2**32 - 1):
        with pytest.raises(OptionError):
            check_seed(wrong)
    for other in (True, 1.0, "7"):
        with pytest.raises(InputTypeError):
            check_seed(other)
