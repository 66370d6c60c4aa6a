"""`findings`: what is odd in a file, in plain words. Nothing here stops a load."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llama_magic.gguf._info import Finding, GGUFInfo
from llama_magic.words.counting import counted

_CONTEXT_MAX = 1 << 24  # llama.cpp and its tools allocate by this number
_T = "tokenizer.ggml."
_END_TEXTS = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<end_of_turn>", "<|endoftext|>", "</s>", "<EOT>",
    "<|end_of_text|>", "<｜end▁of▁sentence｜>", "<eos>", "<turn|>", "[EOS]", "[EOT]", "<|END_OF_TURN_TOKEN|>",
)  # fmt: skip
_WRITES_BOS = re.compile(r"\{\{-?\s*\(?\s*bos_token\b")


def findings(info: GGUFInfo) -> tuple[Finding, ...]:
    """List what is odd or wrong in a file: template, BOS and EOS, context, tokens, sizes."""
    checks = (_template, _bos, _ends, _context, _tokens, special_ids, _tokenizer, _quantisation)
    return tuple(finding for check in checks for finding in check(info))


def _template(info: GGUFInfo) -> Iterator[Finding]:
    key = "tokenizer.chat_template"
    template = info.chat_template
    if template is None:
        kind = info.value_types.get(key)
        if kind is not None:
            yield Finding("warning", key, f"The chat template is stored as {kind}, not as str: not used.")
        elif info.tokens is not None:
            yield Finding("note", key, "No chat template: perhaps a base model. Load it with a formatter.")
        return
    if not template.strip():
        yield Finding("warning", key, "The chat template is empty.")
    elif "{%" not in template and "{{" not in template:
        yield Finding("warning", key, "The chat template is not Jinja: it writes no message.")
    elif "messages" not in template:
        yield Finding("warning", key, "The chat template never reads `messages`.")
    elif "add_generation_prompt" not in template:
        yield Finding("note", key, "The chat template ignores `add_generation_prompt`.")
    if "�" in template:
        yield Finding("warning", key, "The chat template holds bytes that are not UTF-8.")


def _bos(info: GGUFInfo) -> Iterator[Finding]:
    template, bos = info.chat_template or "", info.bos_token
    writes = bool(_WRITES_BOS.search(template)) or (bool(bos) and template.lstrip("{%- }").startswith(bos))
    adds = info.add_bos if info.add_bos is not None else info.tokenizer_model == "llama"
    if writes and adds:
        text = "The template writes BOS and the tokenizer adds one too: a naive caller would send two."
        yield Finding("note", f"{_T}add_bos_token", text)
    if adds and not bos:
        yield Finding("warning", f"{_T}bos_token_id", "BOS is to be added, and the file does not name it.")


def _ends(info: GGUFInfo) -> Iterator[Finding]:
    if info.tokens is None:
        return
    names = info.special_tokens
    if "eos" not in names and "eot" not in names:
        text = "The file names neither an end-of-text nor an end-of-turn token: answers may not stop."
        yield Finding("warning", f"{_T}eos_token_id", text)
    template = info.chat_template or ""
    used = [t for t in _END_TEXTS if t in template and info.has_token(t)]
    ends = {text for name, (_, text) in names.items() if name in ("eos", "eot", "eom")}
    if used and ends and not ends & set(used) and "eos_token" not in template:
        named = ", ".join(map(repr, sorted(ends)))
        text = f"The template ends turns with {used[0]!r}, and the file names {named}."
        yield Finding("note", f"{_T}eos_token_id", text)


def _context(info: GGUFInfo) -> Iterator[Finding]:
    h = info.hparams
    key = f"{h.arch}.context_length"
    if h.context > _CONTEXT_MAX:
        text = f"The trained context is given as {h.context:,} tokens, which no model has."
        yield Finding("warning", key, text)
    original = h.whole("rope.scaling.original_context_length")
    factor = h.real("rope.scaling.factor")
    if original > h.context > 0:
        text = f"The context before scaling is {original:,}, more than the {h.context:,} after it."
        yield Finding("warning", key, text)
    elif original and factor > 1 and not 0.5 <= h.context / (original * factor) <= 2:
        text = f"{original:,} tokens scaled by {factor:g} are not the {h.context:,} that the file gives."
        yield Finding("warning", key, text)
    if h.window > h.context > 0:
        text = f"The sliding window of {h.window:,} is longer than the context of {h.context:,}."
        yield Finding("note", f"{h.arch}.attention.sliding_window", text)


def _tokens(info: GGUFInfo) -> Iterator[Finding]:
    tokens = info.tokens
    if tokens is None:
        return
    raw, lengths = tokens.all_bytes(), tokens.lengths()
    empty = int((lengths == 0).sum())
    if empty:
        yield Finding("warning", f"{_T}tokens", f"{counted(empty, 'token')} with no text.")
    if not _is_utf8(b" ".join(raw)):  # all at once first: 262,144 tries cost 60 ms
        broken = sum(1 for t in raw if not _is_utf8(t))
        text = f"{counted(broken, 'token')} of bytes that are not UTF-8; shown with �."
        yield Finding("note", f"{_T}tokens", text)
    longest = int(lengths.max(initial=0))
    if longest > 1024:
        yield Finding("warning", f"{_T}tokens", f"The longest token is {longest:,} bytes.")
    size = info.hparams.whole("vocab_size")
    if size and size != len(tokens):
        text = f"The metadata give {size:,} tokens, and {len(tokens):,} have a text, which is what counts."
        yield Finding("warning", f"{info.architecture}.vocab_size", text)


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def special_ids(info: GGUFInfo) -> Iterator[Finding]:
    """Name the special tokens whose ids are those of no token."""
    for name, token in info.special_outside.items():
        text = f"The {name} token is {token:,}, outside the {info.vocab_size:,} tokens, so it is not used."
        yield Finding("warning", f"{_T}{name}_token_id", text)


def _tokenizer(info: GGUFInfo) -> Iterator[Finding]:
    model, arch = info.tokenizer_model, info.architecture
    usual = {
        "rwkv": ("rwkv6", "rwkv7", "arwkv7"),
        "t5": ("t5", "t5encoder", "bert", "nomic-bert-moe", "jina-bert-v3"),
    }
    if model in usual and arch not in usual[model]:
        text = f"A {arch!r} model with a {model!r} tokenizer is unusual: texts may be split wrongly."
        yield Finding("warning", f"{_T}model", text)
    if model == "gpt2" and not info.pre_tokenizer:
        text = "The pre-tokenizer is not named: llama.cpp takes its default, and quality suffers."
        yield Finding("warning", f"{_T}pre", text)


def _quantisation(info: GGUFInfo) -> Iterator[Finding]:
    named, mix = info.metadata.get("general.file_type"), info.quantisation_mix
    biggest = next(iter(mix), "")
    if named == 0 and biggest not in ("F32", ""):
        yield Finding("note", "general.file_type", f"The file calls itself F32, and most of it is {biggest}.")
