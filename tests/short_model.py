"""Cut a real model down to a few blocks: the same vocabulary and template, at a fraction of the cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import gguf

SHORT = (0, 10, 29)  # of SmolLM2's 30 blocks; with two, prompts that end alike are answered alike


def shorten(whole: Path, short: Path, blocks: Sequence[int]) -> Path:
    """Write these blocks of the file `whole` to `short`, in order; all metadata but their number stay."""
    reader = gguf.GGUFReader(whole)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(short, architecture)
    for name, field in reader.fields.items():
        kind, *parts = field.types
        if name == f"{architecture}.block_count":
            writer.add_block_count(len(blocks))
        elif name != "general.architecture" and not name.startswith("GGUF."):  # the writer has these
            writer.add_key_value(name, field.contents(), kind, sub_type=parts[-1] if parts else None)
    for tensor in reader.tensors:
        if (renamed := _renamed(tensor.name, blocks)) is not None:
            writer.add_tensor(renamed, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return short


def _renamed(name: str, blocks: Sequence[int]) -> str | None:
    """Return the name that a tensor has among these blocks; None for one of another block."""
    of_block = re.fullmatch(r"blk\.(\d+)\.(.*)", name)
    if not of_block:
        return name
    number = int(of_block[1])
    return f"blk.{blocks.index(number)}.{of_block[2]}" if number in blocks else None
