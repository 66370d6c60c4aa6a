"""Ask llama.cpp which tensors an architecture of `random_models.py` wants, and in which shapes.

`python tests/random_shapes.py` writes the table anew, of the architectures that tests build; with a folder
and names it writes those models there. In a process of its own, for llama.cpp's log is what it reads.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
import tempfile
from pathlib import Path

import llama_cpp
import random_models

_BIASES = {"q": random_models.WIDTH, "k": random_models.WIDTH // 2, "v": random_models.WIDTH // 2}


def discover(path: Path, name: str) -> dict[str, list[int]]:
    """Write `path` again and again with what llama.cpp missed, until it loads; return the shapes."""
    log: list[str] = []
    keep = llama_cpp.llama_log_callback(
        lambda _level, text, _data: log.append(text.decode("utf-8", "replace"))
    )
    llama_cpp.llama_log_set(keep, ctypes.c_void_p(0))
    shapes: dict[str, list[int]] = {"token_embd.weight": [1]}
    for optional in random_models.OPTIONAL.get(name, ()):
        bias = re.fullmatch(r"blk\.\d+\.attn_([qkv])\.bias", optional)
        shapes[optional] = [_BIASES[bias[1]] if bias else 1]
    for _ in range(400):
        random_models.write(path, name, shapes)
        log.clear()
        parameters = llama_cpp.llama_model_default_params()
        parameters.n_gpu_layers = 0
        model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        if model:
            llama_cpp.llama_model_free(model)
            return shapes
        said = "".join(log)
        wrong = re.search(r"tensor '([^']+)' has wrong shape; expected ([\d, ]+), got", said)
        missing = re.search(r"missing tensor '([^']+)'|tensor '([^']+)' not found", said)
        if wrong:
            shape = [int(n) for n in wrong[2].split(",")]
            while len(shape) > 1 and shape[-1] == 1:
                shape.pop()
            shapes[wrong[1]] = shape
        elif missing:
            tensor = missing[1] or missing[2]
            shapes[tensor] = list(shapes.get(re.sub(r"blk\.\d+\.", "blk.0.", tensor), [1]))
        else:
            break
    raise SystemExit(f"{name}: {said[-700:]}")


def main(names: list[str]) -> None:
    """Write the table, a line an architecture."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            tensors = discover(Path(folder, f"{name}.gguf"), name)
            row = {"key": random_models.key(name), "tensors": tensors}
            lines.append(f"{json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}")
    random_models.SHAPES.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main(sorted(json.loads(random_models.SHAPES.read_text("utf-8"))))
    for wanted in sys.argv[2:]:
        discover(Path(sys.argv[1], f"{wanted}.gguf"), wanted)
