"""Modes that look and do not write: tokens, xray, surprise, the pad."""

from __future__ import annotations

from typing import Any

import pytest

from llama_magic.errors import (
    InputTypeError,
    OptionError,
    OutOfTimeError,
)


def test_looking_modes(ip: Any, run: Any, engine: Any) -> None:
    """tokens, surprise and xray call their part of the API and give back what it gives."""
    assert run("%%llama tokens\na b c").result == engine.token_strip("a b c")
    assert run("%%llama surprise\nsome text").result == engine.read("some text")
    trace = run("%%llama xray -t 0.2 --top-k 7\nprompt").result
    assert (trace.context[-6:], trace.sampling.temperature, trace.sampling.top_k) == ("prompt", 0.2, 7)
    assert run("%%llama tokens -o strip\na b").result is None
    assert ip.user_ns["strip"] == engine.token_strip("a b")
    assert isinstance(run("%%llama surprise -n 5\nx").error_in_exec, OptionError)


def test_several_texts_are_cut_side_by_side(ip: Any, run: Any, engine: Any) -> None:
    """Under lines `=== name` each text has its strip; values are no such lines, and a later one is text."""
    ip.user_ns["word"] = "=== x"
    found = run("%%llama tokens\n=== one\na {{ word }}\n\n=== no two ===\nb c d\n").result
    assert dict(found) == {"one": engine.token_strip("a === x"), "no two": engine.token_strip("b c d")}
    assert [*found.to_pandas().itertuples(index=False, name=None)] == [
        (name, strip.count, len(strip.text)) for name, strip in found.items()
    ]
    assert [row[3] for row in found.table().rows] == ["1.14", "1.20"]
    assert engine.token_strips(["a", "b c"])["text 2"] == engine.token_strip("b c")
    assert run("%%llama tokens\nTitle\n===\na").result == engine.token_strip("Title\n===\na")
    for body, said in (("=== a\nx\n=== a\ny", "'=== a' stands twice"), ("=== b\n{{ c }}", "of the text 'b'")):
        assert said in str(run(f"%%llama tokens\n{body}").error_in_exec)
    for wrong in ("one text", 3, {1: "a"}):
        with pytest.raises(InputTypeError, match="Several texts are a dict of names"):
            engine.token_strips(wrong)


def test_looking_modes_take_a_time(
    ip: Any, run: Any, engine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """--timeout ends them; what was read until then is bound and shown."""
    text = " ".join(map(str, range(250)))
    assert isinstance(run(f"%%llama surprise --timeout 0.0001 -o r\n{text}").error_in_exec, OutOfTimeError)
    assert ip.user_ns["r"].interrupted
    assert "The time was up after 0.0001 s" in capsys.readouterr().out
    assert isinstance(run(f"%%llama xray --timeout 0.0001 -o t\n{text}").error_in_exec, OutOfTimeError)
    assert "t" not in ip.user_ns
    assert run("%%llama surprise --timeout 60\nsome text").result == engine.read("some text")
    assert run("%%llama xray --timeout 60 -t 0\nprompt").result.sampling.temperature == 0
    ip.user_ns["rows"] = ["a", "b"]
    run('%%llama decide rows --options "yes|no" --timeout 0.00001 -o odds\n{{ text }}').raise_error()
    assert [type(one.error) for one in ip.user_ns["odds"]] == [OutOfTimeError] * 2


def test_looking_without_an_engine_says_so(run: Any, model: Any) -> None:
    """What is asked of the logits needs an engine in this process; the words of a text do not."""
    for mode in ("surprise", "xray"):
        assert "needs an engine in it" in str(run(f"%%llama {mode}\nx").error_in_exec)
    assert run("%%llama tokens\na b c").result.count == 3


def test_xray_takes_a_seed_and_a_live_one_is_shown_once(
    ip: Any, run: Any, engine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """--seed goes over %config's; --live in a terminal says why it is not, and shows the trace."""
    assert run("%%llama xray --seed 5\nprompt").result.seed == 5
    run("%config LlamaMagics.seed = 6")
    assert run("%%llama xray\nprompt").result.seed == 6
    blocks = run("%%llama xray --seed 5\nsystem: be brief\nuser: prompt").result
    asked = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "prompt"}]
    assert blocks.drawn == engine.xray(asked, seed=5).drawn
    one = run("%%llama xray --seed 5\nuser: prompt").result  # a single block is a turn, too
    assert one.context == engine.xray(asked[1:], seed=5).context != engine.xray("user: prompt").context
    assert "<|user|>prompt<|end|>" in str(blocks)
    capsys.readouterr()
    trace = run("%%llama xray --live\nprompt").result
    said = capsys.readouterr().out
    assert trace.seed == 6
    assert said.count("The trace is not live here: it needs a notebook with widgets") == 1
    assert run("%%llama xray --live -o kept\nprompt").result is None
    assert ip.user_ns["kept"].drawn == trace.drawn
    assert "--live means nothing in %%llama surprise" in str(run("%%llama surprise --live\nx").error_in_exec)


def test_live_tokens_are_the_strip_in_a_terminal(
    ip: Any, run: Any, model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """As line and as cell: one line says why it is not live, and the strip is shown; a line may do without a
    text, which is typed later."""
    for cell in ("%llama tokens --live a b c", "%%llama tokens --live\na b c"):
        result = run(cell).result
        said = capsys.readouterr().out
        assert result.count == 3
        assert said.count("The token strip is not live here: it needs a notebook with widgets") == 1
        assert said.count("tokens: 3 tokens") == 1
    assert run("%llama tokens --live").result.count == 0
    assert "needs a text" in str(run("%llama tokens").error_in_exec)
    assert run("%%llama tokens --live -o kept\na b").result is None
    assert ip.user_ns["kept"].count == 2


def test_the_pad_says_in_a_terminal_what_to_do_instead(
    run: Any, model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """It makes no widget there; the cell ends well with nothing."""
    assert run("%llama pad").result is None
    said = capsys.readouterr().out
    assert "There is no prompt pad here: it needs a notebook with widgets" in said
    assert "this is a terminal.\nWrite %%llama chat and the prompt below it instead." in said
