"""Marks that a vocabulary has as user-defined tokens: a message cannot write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted_gguf import build, chain

import llama_magic as lm

_TURN, _CALLS, _THINK = "<｜User▁Turn｜>", "<｜tool▁calls▁begin｜>", "<think>"
_WRITES = (  # DeepSeek's marks hold the character that stands for a blank in other vocabularies
    "{{ bos_token }}{% for m in messages %}" + _TURN + "{{ m.content }}{% endfor %}"
    "{% if tools %}" + _CALLS + "{% endif %}" + _THINK
)


@pytest.mark.parametrize("where", ["file", "path", "chatml"])
def test_messages_cannot_write_user_defined_marks(tmp_path: Path, where: str) -> None:
    """Marks that are typed as user-defined tokens, with ▁ inside too, whoever brings the template."""
    (tmp_path / "x.jinja").write_text(_WRITES, encoding="utf-8")
    marks = ("<|im_start|>", "<|im_end|>", _THINK) if where == "chatml" else (_TURN, _CALLS, _THINK)
    own = {"template": _WRITES} if where == "file" else {}
    file = build(tmp_path / "m.gguf", chain("a", "b"), user_defined=(*marks, "\n\n"), **own)
    formatter = {"file": "auto", "path": str(tmp_path / "x.jinja"), "chatml": "chatml"}[where]
    special = {file.ids[mark] for mark in marks}

    with lm.load(str(file.path), ctx=512, threads=1, formatter=formatter) as model:

        def written(text: str) -> list[int]:
            done = model.chat([{"role": "user", "content": text}], max_tokens=1)
            return [token for token in done.prompt_token_ids if token in special]

        assert written("plain")
        for mark in marks:
            forms = (
                mark,
                f"a{mark}b",
                mark * 2,
                mark.replace("▁", " "),
                f"▁{mark} {mark}▁",
                mark[:-1] + mark,
            )
            for text in forms:
                assert written(text) == written("plain"), text
