"""Rebuild `llama_magic/gguf/architectures.json` from a checkout of llama.cpp.

    python tests/gguf/make_architectures.py PATH/TO/llama.cpp

Reads facts only: the names of architectures, pre-tokenizers and tensors, which keys and tensors an
architecture must have, and the shapes it wants, from the plain statements of `load_arch_hparams` and
`load_arch_tensors`. What stands under a condition counts as optional; what cannot be read is left out.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

LOCALS = {
    "n_embd", "n_vocab", "n_ff", "n_head", "n_head_kv", "n_embd_k_gqa", "n_embd_v_gqa", "n_embd_head_k",
    "n_embd_head_v", "n_embd_gqa", "n_rot", "n_expert", "n_expert_used", "n_ctx_train", "n_token_types",
}  # fmt: skip
# drafts, encoders of sound, adapters, and those that change their sizes after reading them
STRANGE = {
    "clip", "eagle3", "dflash", "gemma4-assistant", "wavtokenizer-dec", "pockettts", "qwen3tts", "qwen4exp",
    "graniteswitch", "t5", "t5encoder", "glm5-next", "kimi-k3", "nanbeige", "plamo2", "step35",
}  # fmt: skip
CALL = re.compile(
    r"create_tensor\(tn\((LLM_TENSOR_\w+)\s*(?:,\s*\"(\w+)\")?[^)]*\),\s*\{([^}]*)\},\s*([^;]*)\);"
)
QKV = re.compile(r"create_tensor_qkv\(layer, \w+, ([^;]*)\);")


def main(root: Path) -> dict[str, Any]:
    arch_source = (root / "src/llama-arch.cpp").read_text()
    archs = dict(re.findall(r"\{ (LLM_ARCH_\w+),\s+\"([^\"(]+)\"", arch_source))
    names = dict(re.findall(r"\{ (LLM_TENSOR_\w+),\s+\"([^\"]+)\"", arch_source))
    keys = dict(re.findall(r"\{ (LLM_KV_\w+),\s+\"%s\.([^\"]+)\"", arch_source))
    vocab = (root / "src/llama-vocab.cpp").read_text()
    model = (root / "src/llama-model.cpp").read_text()
    classes = dict(re.findall(r"case (LLM_ARCH_\w+):\s+return new llama_model_(\w+)\(", model))
    header = (root / "src/models/models.h").read_text()
    bases = dict(re.findall(r"struct llama_model_(\w+) : public llama_model_(\w+)", header))
    bodies = _bodies(root / "src/models")
    table: dict[str, Any] = {}
    for constant, arch in archs.items():
        class_ = classes.get(constant)
        if arch in STRANGE or class_ is None:
            continue
        tensors = _inherited(bodies["tensors"], class_, bases)
        hparams = _inherited(bodies["hparams"], class_, bases)
        if tensors and hparams:
            entry = _tensors(tensors, names)
            entry["keys"] = _required_keys(hparams, keys)
            table[arch] = entry
    return {
        "source": "llama.cpp as in llama-cpp-python 0.3.36",
        "architectures": sorted(a for a in archs.values() if a != "(unknown)"),
        "pre_tokenizers": sorted(set(re.findall(r"tokenizer_pre == \"([^\"]+)\"", vocab))),
        **_packed(table),
    }


def _packed(table: dict[str, Any]) -> dict[str, Any]:
    """Return the tensors as numbered statements `name[|other name][!] [dim,dim]`.

    `!` means required, `!0` required where there are no experts, `!1` where there are.
    """
    statements: dict[str, int] = {}
    models: dict[str, Any] = {}
    for arch, entry in table.items():
        shapes, required = entry["shapes"], entry["required"]
        lines = []
        for name in dict.fromkeys([*entry["allowed"], *shapes, *sorted(required)]):
            mark = required.get(name, "")
            lines.append(f"{name}{mark} {','.join(shapes.get(name, ()))}".rstrip())
        numbers = [statements.setdefault(line, len(statements)) for line in lines]
        models[arch] = {"keys": entry["keys"], "open": not entry["allowed"], "tensors": sorted(numbers)}
    return {"statements": list(statements), "models": models}


def _bodies(folder: Path) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {"tensors": {}, "hparams": {}}
    for path in folder.glob("*.cpp"):
        source = re.sub(r"//[^\n]*", "", path.read_text())
        for what, kept in found.items():
            for match in re.finditer(
                r"^void llama_model_(\w+)::load_arch_" + what + r"\([^\n]*\{\n(.*?)^\}", source, re.M | re.S
            ):
                kept[match[1]] = match[2]
    return found


def _inherited(bodies: dict[str, str], class_: str, bases: dict[str, str]) -> str:
    while class_ not in bodies and class_ in bases:
        class_ = bases[class_]
    return bodies.get(class_, "")


def _required_keys(body: str, keys: dict[str, str]) -> list[str]:
    wanted = re.findall(r"^    ml\.get_key(?:_or_arr)?\((LLM_KV_\w+),\s*[^;]*\);", body, re.M)
    optional = re.findall(r"^    ml\.get_key(?:_or_arr)?\((LLM_KV_\w+),[^;]*false\);", body, re.M)
    return sorted({keys[k] for k in wanted if k not in optional and k in keys})


def _dims(text: str, shadowed: set[str]) -> list[str] | None:
    dims = [re.sub(r"\s+", "", d) for d in text.split(",")]
    for dim in dims:
        words = set(re.findall(r"[A-Za-z_][\w.]*", dim))
        if not words <= LOCALS - shadowed or not re.fullmatch(r"[\w*+/]+", dim):
            return None
    return dims


def _tensors(body: str, names: dict[str, str]) -> dict[str, Any]:
    allowed = {_name(names, t, s) for t, s in re.findall(r"tn\((LLM_TENSOR_\w+)\s*(?:,\s*\"(\w+)\")?", body)}
    if "create_tensor_qkv" in body:
        for kind in ("QKV", "Q", "K", "V"):
            allowed |= {_name(names, f"LLM_TENSOR_ATTN_{kind}", s) for s in ("weight", "bias")}
    if "create_tensor_gate_up_exps" in body:
        for kind in ("GATE_UP", "GATE", "UP"):
            allowed.add(_name(names, f"LLM_TENSOR_FFN_{kind}_EXPS", "weight"))
    if re.search(r"\btn\((?!LLM_TENSOR)", body):
        allowed = set()  # names made at run time: no list
    required, shapes = _statements(body, names)
    return {"allowed": sorted(allowed), "required": required, "shapes": shapes}


def _statements(body: str, names: dict[str, str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    shadowed = set(re.findall(r"^\s+(?:const )?(?:int64_t|int|uint32_t|auto)\s+(\w+)\s*=", body, re.M))
    plain_loop = "continue" not in body and "n_layer_all" not in body and "return" not in body
    required: dict[str, str] = {}
    branch = ""  # inside `if (n_expert == 0)` of the loop: "!0", inside its else: "!1"
    shapes: dict[str, list[str]] = {}
    for line in re.sub(r",\s*\n\s+", ", ", body).splitlines():
        depth = len(line) - len(line.lstrip())
        if depth <= 8 and line.strip():
            follows = {"if (n_expert == 0) {": "!0", "} else {": "!1" if branch == "!0" else ""}
            branch = follows.get(line.strip(), "") if depth == 8 else ""
        for tensor, suffix, dims, flags in CALL.findall(line):
            name = _name(names, tensor, suffix)
            if "DUPLICATED" in flags and "token_embd" in name:
                continue
            found = _dims(dims, shadowed)
            if name in shapes and shapes[name] != found:
                found = None  # two shapes, depending on something
            shapes[name] = found  # type: ignore[assignment]
            if flags.strip() == "0" and depth <= (8 if plain_loop else 4):
                required[name] = "!"
            elif flags.strip() == "0" and depth == 12 and plain_loop and branch:
                required.setdefault(name, branch)
        if plain_loop and depth == 8 and (match := QKV.search(line)) and match[1].rstrip().endswith(", 0"):
            width, q, k, v, _ = [p.strip() for p in match[1].split(",")]
            for letter, n in (("q", q), ("k", k), ("v", v)):
                required[f"blk.%d.attn_qkv.weight|blk.%d.attn_{letter}.weight"] = "!"
                shapes[f"blk.%d.attn_{letter}.weight"] = _dims(f"{width},{n}", shadowed)  # type: ignore[assignment]
    return required, {name: dims for name, dims in shapes.items() if dims}


def _name(names: dict[str, str], tensor: str, suffix: str) -> str:
    return names[tensor] + (f".{suffix}" if suffix else "")


if __name__ == "__main__":
    out = Path(__file__).parents[2] / "llama_magic/gguf/architectures.json"
    out.write_text(json.dumps(main(Path(sys.argv[1])), separators=(",", ":"), sort_keys=True) + "\n")
    print(out, out.stat().st_size)
