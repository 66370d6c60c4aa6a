"""What runs in the child process of a crash check: one trial of a file, which may end the process."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from llama_magic.engine.crash_check import Trial
from llama_magic.engine.native import Context, ContextOptions, Vocab, Weights, WeightsOptions
from llama_magic.errors import BackendError, LlamaMagicError


def try_out(trial: Trial, say: Callable[[str], None]) -> None:
    """Load the file, read its vocabulary, decode; `say` each stage first. Raises `BackendError`."""
    say("stage load")
    options = WeightsOptions(trial.gpu_layers, trial.mmap, False, trial.use_extra_bufts)
    weights = Weights([Path(path) for path in trial.paths], options)
    say("stage vocabulary")
    tokens = _read_vocabulary(weights.vocab)
    if weights.generates or weights.embeds:
        tokens = (tokens or [0])[: min(200, trial.positions - 2) if trial.positions > 2 else 200]
        say("stage context")
        context = Context(weights, _options(trial, embeds=weights.embeds))
        say("stage decode")
        if not (_embed if weights.embeds else _decode)(context, tokens):
            say("stage weights")
            context.close()
            weights.close()
            raise BackendError(_bad_tensor(trial, options))
    say("survived")


def _read_vocabulary(vocab: Vocab) -> list[int]:
    """Take every token through the vocabulary; return those of a text with all kinds of characters."""
    for token in range(vocab.n_tokens):
        vocab.piece(token, special=True)
    probe = 'Hello, wörld! 你好 🦙\n\t{"a": [1, 2.5e-3]} \x00\x7f' + "".join(map(chr, range(32, 300)))
    tokens = vocab.tokenize(probe, add_special=True, parse_special=True)
    vocab.detokenize(tokens, remove_special=False, unparse_special=True)
    return list(tokens)


def _options(trial: Trial, *, embeds: bool) -> ContextOptions:
    small = ContextOptions(cells=512, batch=256, ubatch=256, flash_attn=trial.flash_attn)
    if embeds:
        return replace(small, outputs=256, embeddings=True, pooling="mean")
    return replace(small, sequences=2, type_k=trial.type_k, type_v=trial.type_v)


def _embed(context: Context, tokens: Sequence[int]) -> bool:
    """Embed a text; False where the vector holds what is no number."""
    context.decode(tokens, range(len(tokens)), [0] * len(tokens), range(len(tokens)))
    return math.isfinite(float(context.embedding(0).sum()))


def _bad_tensor(trial: Trial, options: WeightsOptions) -> str:
    """Say which tensor gives logits that are no numbers."""
    try:
        Weights([Path(path) for path in trial.paths], replace(options, check_tensors=True)).close()
    except BackendError as error:
        return f"the weights hold numbers that are NaN or infinite: {error.log}"
    return "the model's logits are NaN or infinite, though its weights are not"


def _decode(context: Context, tokens: Sequence[int]) -> bool:
    """Decode batches of several kinds; False where the logits are no numbers."""
    many = list(tokens) * (2 if len(tokens) < 2 else 1)  # a batch of one takes other paths than a larger one
    context.decode(many, range(len(many)), [0] * len(many), [len(many) - 1])
    logits = context.logits(len(many) - 1)
    if not math.isfinite(float(logits.max())):
        return False
    best = int(logits.argmax())
    context.decode([best], [len(many)], [0], [0])
    context.decode([best, best], [len(many) + 1, 0], [0, 1], [0, 1])
    return True


def main() -> int:
    """Run the trial given on standard input; say on standard output how far it came."""
    trial = Trial(**json.load(sys.stdin))
    out = os.fdopen(os.dup(1), "w", buffering=1)
    try:
        try_out(trial, lambda text: print(text, file=out, flush=True))
    except LlamaMagicError as error:
        print("refused " + " ".join(str(error).split()), file=out, flush=True)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
