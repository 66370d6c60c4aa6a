"""A saved sequence in a file of its own format.

    magic      8 bytes  "LMKVSEQ\\n"
    version    uint32   1
    length     uint32   of the header in bytes
    header     JSON     model, n_vocab, context, n_tokens, exact_length, stretches [[start, end, bytes], …]
    tokens     int32    n_tokens of them
    states     bytes    of each stretch, as llama.cpp wrote them
    checksum   32 bytes SHA-256 of everything before

All numbers are little-endian. Nothing in it is executed: no pickle. The checksum is verified
before llama.cpp sees a byte, and a file for another model or context is refused by name.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_magic.doors import verb
from llama_magic.engine import system_report
from llama_magic.engine.kv.store import Stretch
from llama_magic.engine.moves import SavedSequence
from llama_magic.errors import SourceError
from llama_magic.sources import read_whole, user_path, write_whole
from llama_magic.words import amounts
from llama_magic.words.counting import counted

if TYPE_CHECKING:
    from llama_magic.engine.native import ContextOptions, WeightsOptions
    from llama_magic.request.tokenizer import Tokenizer

MAGIC = b"LMKVSEQ\n"
VERSION = 1
_HEAD = struct.Struct("<8sII")
_MAX_HEADER = 1 << 20
_CHECKSUM = 32
# What of a context decides what its cells hold.
_OPTIONS = (
    "type_k", "type_v", "flash_attn", "swa_full", "rope_scaling", "rope_freq_base", "rope_freq_scale",
    "yarn_ext_factor", "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow", "yarn_orig_ctx",
)  # fmt: skip


@dataclass(frozen=True)
class Fingerprint:
    """What a saved sequence belongs to: the model file, its vocabulary, the context's options."""

    model: str
    n_vocab: int
    context: dict[str, Any]


def fingerprint(
    model: str, tokenizer: Tokenizer, options: ContextOptions, weights: WeightsOptions
) -> Fingerprint:
    """Return the fingerprint of a loaded model; `model` is its file's, as it was loaded."""
    context = {name: getattr(options, name) for name in _OPTIONS}
    context["adapters"] = [[a.path.name, a.fingerprint, a.scale] for a in options.adapters]
    # Repacked weights and a GPU sum in another order: the cells hold other bits.
    context["repacked_weights"], context["gpu_layers"] = weights.use_extra_bufts, weights.gpu_layers
    context["llama_cpp_python"] = system_report()["bindings"]
    return Fingerprint(model, tokenizer.n_tokens, context)


def write(path: str | os.PathLike[str], saved: SavedSequence, owner: Fingerprint) -> Path:
    """Write a sequence; the file appears whole or not at all. Raises `SourceError` where it cannot."""
    target = user_path(path)
    header = json.dumps(
        {
            "model": owner.model,
            "n_vocab": owner.n_vocab,
            "context": owner.context,
            "n_tokens": len(saved.tokens),
            "exact_length": saved.exact_length,
            "n_read": saved.n_read,
            "together": saved.together,
            "name": saved.name,
            "stretches": [[s.start, s.end, len(s.state)] for s in saved.stretches],
        }
    ).encode()
    parts: list[bytes | memoryview] = [
        _HEAD.pack(MAGIC, VERSION, len(header)),
        header,
        np.asarray(saved.tokens, "<i4").tobytes(),
        *(np.frombuffer(s.state, np.uint8).data for s in saved.stretches),
    ]
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    write_whole(target, [*parts, total.digest()], "The sequence")
    return target


def read(path: str | os.PathLike[str], owner: Fingerprint) -> SavedSequence:
    """Read a sequence back. Raises `SourceError` for a damaged file and for another model's."""
    source = user_path(path)
    header, body = _open(source, read_whole(source, "The saved sequence"))
    _check_owner(source, header, owner)
    try:
        return _sequence(header, body, owner.n_vocab)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _damaged(source, f"its header contradicts its content ({error})") from None


def described(path: Path) -> str:
    """Say of a file that `write` made which sequence it holds, how large it is, where it is."""
    data = read_whole(path, "The saved sequence")
    header, _ = _open(path, data)
    tokens = counted(int(header["n_tokens"]), "token")
    return f"{header['name']}, {tokens}, {amounts.size(len(data))}, to {path}"


def _open(source: Path, data: bytes) -> tuple[dict[str, Any], memoryview]:
    """Return the header and what follows it, after the checksum."""
    if len(data) < _HEAD.size + _CHECKSUM and MAGIC.startswith(data[:8]):
        raise _damaged(source, f"it is cut short after {len(data)} bytes")
    if data[:8] != MAGIC:
        raise SourceError(
            f"{source} is not a saved sequence: it begins with {data[:8]!r}, expected {MAGIC!r}.",
            remedy=f"Give a file that {verb('kv save')} wrote.",
        )
    _, version, length = _HEAD.unpack_from(data)
    if version != VERSION:
        raise SourceError(f"{source} has format version {version}; this version reads {VERSION}.")
    if hashlib.sha256(memoryview(data)[:-_CHECKSUM]).digest() != data[-_CHECKSUM:]:
        raise _damaged(source, "its checksum does not match")
    start = _HEAD.size + length
    if length > _MAX_HEADER or start > len(data) - _CHECKSUM:
        raise _damaged(source, f"its header claims {length:,} bytes")
    try:
        header = json.loads(data[_HEAD.size : start])
    except (ValueError, RecursionError):
        raise _damaged(source, "its header is not JSON") from None
    if not isinstance(header, dict):
        raise _damaged(source, "its header is not a JSON object")
    return header, memoryview(data)[start:-_CHECKSUM]


def _check_owner(source: Path, header: dict[str, Any], owner: Fingerprint) -> None:
    if header.get("model") != owner.model or header.get("n_vocab") != owner.n_vocab:
        raise SourceError(
            f"{source} was saved with another model file (digest {str(header.get('model'))[:12]}…, "
            f"{header.get('n_vocab')} tokens; this one has {owner.model[:12]}…, {owner.n_vocab}).",
            remedy="Load the model that it was saved with.",
        )
    theirs = header.get("context")
    theirs = theirs if isinstance(theirs, dict) else {}
    differs = [name for name, value in owner.context.items() if theirs.get(name) != value]
    if differs:
        pairs = ", ".join(f"{n} {theirs.get(n)} there, {owner.context[n]} here" for n in differs)
        raise SourceError(
            f"{source} was saved with other context options: {pairs}.",
            remedy="Load the model with the options that it was saved with.",
        )


def _sequence(header: dict[str, Any], body: memoryview, n_vocab: int) -> SavedSequence:
    count, exact = int(header["n_tokens"]), int(header["exact_length"])
    n_read = int(header.get("n_read", exact))
    sizes = [(int(start), int(end), int(size)) for start, end, size in header["stretches"]]
    if not count > 0 or not 0 <= exact <= count or not 0 <= n_read <= count:
        raise ValueError(f"{count} tokens, {exact} exact, {n_read} read")
    if 4 * count + sum(size for _, _, size in sizes) != len(body) or min(size for *_, size in sizes) <= 0:
        raise ValueError("the sizes do not add up")
    ends = [0, *(end for _, end, _ in sizes)]
    if [start for start, _, _ in sizes] != ends[:-1] or ends[-1] != count or sorted(set(ends)) != ends:
        raise ValueError("the stretches do not join")
    tokens = np.frombuffer(body[: 4 * count], "<i4")
    if tokens.min() < 0 or tokens.max() >= n_vocab:
        raise ValueError("a token is outside the vocabulary")
    stretches = []
    place = 4 * count
    for start, end, size in sizes:
        stretches.append(Stretch(start, end, bytes(body[place : place + size])))
        place += size
    ids = tuple(int(token) for token in tokens)
    return SavedSequence(ids, exact, tuple(stretches), n_read, together=header.get("together") is True)


def _damaged(source: Path, what: str) -> SourceError:
    return SourceError(f"{source} is damaged: {what}.", remedy="Save the sequence again.")
