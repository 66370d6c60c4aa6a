"""Cells in a shell: what they give, bind, print and pass on."""

from __future__ import annotations

import atexit
from typing import Any

import pytest

from llama_magic.errors import (
    ContextOverflowError,
)
from llama_magic.model.results import Completion
from llama_magic.request.request import Request
from llama_magic.request.sampling import Sampling


def last(model: Any) -> Request:
    """Return what the model was asked last."""
    request: Request = model.backend.requests[-1]
    return request


def test_a_long_line_goes_on_in_the_next(run: Any, model: Any) -> None:
    """A backslash at its end, as in a shell: options below it are the line's, of `%llama` as of `%%llama`."""
    run("%%llama complete \\\n    --max-tokens 9 \\\n    --stop x\nOne.\nTwo \\")
    asked = last(model)
    assert asked.max_tokens == 9
    assert asked.stops == ("x",)
    assert asked.text == "One.\nTwo \\"
    assert run("%llama sampler \\\n    top_k=3").result.top_k == 3


def test_a_cell_gives_its_completion_to_underscore_and_out(ip: Any, run: Any, model: Any) -> None:
    """Without -o, `_`, `Out[n]` and the cell's result are the Completion."""
    model.backend.answers = ["Paris."]
    number = ip.execution_count
    result = run("%%llama complete\nThe capital of France is").result
    assert isinstance(result, Completion)
    assert result.text == "Paris."
    assert ip.user_ns["_"] is result
    assert ip.user_ns["Out"][number] is result
    assert (result.mode, last(model).text) == ("complete", "The capital of France is")


def test_out_binds_and_still_shows(ip: Any, run: Any, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """-o binds the Completion, the cell shows the text, and `Out` is left alone."""
    model.backend.answers = ["four words of text"]
    result = run("%%llama complete -o r\nx")
    assert result.result is None
    assert ip.user_ns["r"].text == "four words of text"
    assert "four words of text" in capsys.readouterr().out
    assert not ip.user_ns["Out"]


def test_an_answer_is_printed_once(ip: Any, run: Any, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The display hook does not repeat what the live view showed; asking for `_` later shows it again."""
    model.backend.answers = ["uniquetext"]
    run("%%llama complete\nx")
    assert capsys.readouterr().out.count("uniquetext") == 1
    run("_")
    assert capsys.readouterr().out.count("uniquetext") >= 1


def test_an_explicit_display_shows_again(
    ip: Any, run: Any, model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the display hook passes over what was shown: `display(r)` and a later run show it."""
    model.backend.answers = ["uniquetext"]
    run("r = get_ipython().run_cell_magic('llama', 'complete', 'x')")
    assert capsys.readouterr().out.count("uniquetext") == 1
    run("display(r)")
    assert "uniquetext" in capsys.readouterr().out
    ip.run_cell("r")
    assert "uniquetext" in capsys.readouterr().out


def test_capture_holds_one_output(ip: Any, run: Any, model: Any) -> None:
    """Under %%capture the answer is captured once, with its receipt."""
    model.backend.answers = ["uniquetext"]
    run("%%capture c\nget_ipython().run_cell_magic('llama', 'complete', 'x')")
    shown = [output.data for output in ip.user_ns["c"].outputs if output.data]
    assert len(shown) == 1
    assert "uniquetext" in shown[0]["text/plain"]
    assert ip.user_ns["c"].stdout.count("uniquetext") == 0


def test_a_semicolon_at_the_end_of_a_prompt_silences_nothing(ip: Any, run: Any, model: Any) -> None:
    """A prompt that ends in `;` still has its result."""
    result = run("%%llama complete\nint main();").result
    assert isinstance(result, Completion)
    assert ip.user_ns["_"] is result
    assert last(model).text == "int main();"


def test_quiet_prints_nothing(run: Any, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """-q leaves the answer out of the output."""
    model.backend.answers = ["secret words"]
    run("%%llama complete -q -o r\nx")
    assert "secret" not in capsys.readouterr().out


@pytest.mark.parametrize("mode", ["complete", "tokens", "chat"])
def test_quiet_keeps_the_result(
    ip: Any, run: Any, model: Any, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With -q and without -o, `_` and `Out[n]` hold what the cell gave; a terminal says it is not shown."""
    model.backend.answers = ["secret words"]
    result = run(f"%%llama {mode} -q\nsecret").result
    assert result is not None
    assert ip.user_ns["_"] is result
    out = capsys.readouterr().out
    assert "secret" not in out
    assert "not shown" in out


def test_json_format_shows_the_receipt(run: Any, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """--format json shows the receipt."""
    run("%%llama complete --format json --seed 3 -o r\nx")
    assert '"seed": 3' in capsys.readouterr().out


def test_options_reach_the_api(run: Any, model: Any) -> None:
    """Each option is the keyword of the Python API."""
    run(
        '%%llama complete -n 5 -t 0.5 --top-k 3 --seed 9 --stop " " --logprobs 2 -N 2 '
        "--overflow truncate-prompt "
        "--fresh --regex '[a-z 0-9]+' --samplers 'top_k;temperature' --instruct --system 'Be brief.'\nhi"
    )
    asked = last(model)
    assert (asked.max_tokens, asked.sampling.temperature, asked.sampling.top_k) == (5, 0.5, 3)
    assert asked.sampling.samplers == ("top_k", "temperature")
    assert (asked.seed, asked.exact, asked.stops[0], asked.logprobs, asked.n) == (9, True, " ", 2, 2)
    assert (asked.reuse, asked.constraint.kind) == (False, "regex")
    assert [(m["role"], m["content"]) for m in asked.messages] == [("system", "Be brief."), ("user", "hi")]
    long = "word " * 600
    assert isinstance(run(f"%%llama complete\n{long}").error_in_exec, ContextOverflowError)
    assert run(f"%%llama complete --overflow truncate-prompt -n 5\n{long}").success
    assert len(last(model).prompt) < 512


def test_samples_are_a_list(ip: Any, run: Any, model: Any) -> None:
    """-N gives a list of Completions, each of them in the history."""
    before = len(run("%llama history").result)
    result = run("%%llama complete -N 3\nx").result
    assert isinstance(result, list)
    assert len(result) == 3
    assert len(run("%llama history").result) == before + 3


def test_variables_fill_the_body_and_their_spans_travel(ip: Any, run: Any, model: Any) -> None:
    """`{{ }}` is filled from the namespace; the API hears where; no value is read again."""
    ip.user_ns["who"] = "{{ nobody }}"
    run("%%llama complete --stop '{who}'\nHi {{ who }}! {json: 1}")
    assert last(model).text == "Hi {{ nobody }}! {json: 1}"
    parts = {part.label: part.tokens for part in ip.user_ns["_"].budget.parts}
    assert parts["{{ who }}"] == 2  # the words that begin in it: " nobody" and " }}!"
    assert last(model).stops[0] == "{{ nobody }}"
    run("%%llama complete --raw\nHi {{ who }}")
    assert last(model).text == "Hi {{ who }}"


def test_precedence_line_config_file_default(ip: Any, run: Any, model: Any) -> None:
    """Option > `%config` > what the model says > built-in default."""
    model.sampling = Sampling(temperature=0.6)
    assert run("%%llama complete\nx").result.sampling.temperature == 0.6
    run("%config LlamaMagics.temperature = 0.3")
    assert run("%%llama complete\nx").result.sampling.temperature == 0.3
    assert run("%%llama complete -t 0.1\nx").result.sampling.temperature == 0.1
    run("%config LlamaMagics.temperature = None")
    assert run("%%llama complete\nx").result.sampling.temperature == 0.6
    run("%config LlamaMagics.max_tokens = 11")
    run("%config LlamaMagics.seed = 5")
    run("%%llama complete\nx")
    assert last(model).max_tokens == 11
    assert last(model).seed == 5


def test_config_refuses_what_cannot_be(ip: Any, run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The traits validate."""
    run("%config LlamaMagics.overflow = 'drop'")
    run("%config LlamaMagics.max_tokens = -2")
    run("%config LlamaMagics")
    out = capsys.readouterr().out
    assert "Current: 'error'" in out
    assert "LlamaMagics.max_tokens" in out
    assert "Current: -2" not in out


@pytest.mark.parametrize(
    "wrong",
    ["temperature = -1", "temperature = float('nan')", "top_k = -2", "top_p = 1.5", "repeat_penalty = 0"],
)
def test_config_refuses_what_no_call_takes(ip: Any, run: Any, wrong: str) -> None:
    """A sampling parameter's range is the same in `%config` as in a call; the value from before stays."""
    name = wrong.partition(" ")[0]
    run(f"%config LlamaMagics.{name} = 1")
    run(f"%config LlamaMagics.{wrong}")
    assert run(f"%config LlamaMagics.{name}").result == 1
    run(f"%config LlamaMagics.{name} = None")
    assert run(f"%config LlamaMagics.{name}").result is None


def test_a_model_is_chosen_by_name(run: Any, session: Any, model: Any) -> None:
    """`-m NAME` asks that model, once; the current one stays current."""
    other = session.load("other", name="other")
    session.use(next(name for name, known in session.models.items() if known is model))
    asked = len(model.backend.requests)
    run("%%llama complete -m other\nhi")
    assert [request.text for request in other.backend.requests] == ["hi"]
    assert len(model.backend.requests) == asked
    run("%%llama complete\nho")
    assert model.backend.requests[-1].text == "ho"


def test_one_line_break_at_the_end_is_not_prompt(run: Any, model: Any) -> None:
    """IPython's own line break goes, a further one stays; lines of Windows are lines."""
    run("%%llama complete\nline one\nline two\n")
    assert last(model).text == "line one\nline two"
    run("%%llama complete\nends with a break\n\n")
    assert last(model).text == "ends with a break\n"
    run("%%llama complete\r\nline one\r\nline two\r\n")
    assert last(model).text == "line one\nline two"


def test_help(ip: Any, run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`%llama?`, `%%llama?`, --help and the bare verb explain themselves and return nothing."""
    for cell, said in (
        ("%llama?", "doctor"),
        ("%%llama?", "surprise"),
        ("%llama", "doctor"),
        ("%llama load --help", "--gpu-layers"),
        ("%llama chat --help", "fork NEW"),
        ("%%llama chat --help\nx", "--session"),
    ):
        assert run(cell).result is None
        assert said in capsys.readouterr().out, cell


def test_the_reference_names_every_verb_mode_and_option() -> None:
    """The Markdown tables for README are complete."""
    from llama_magic.magics import reference_markdown
    from llama_magic.magics._options import MODES, VERBS

    text = reference_markdown()
    for verb in VERBS:
        assert f"| `{verb}" in text
    for mode in MODES.values():
        assert f"| `{mode.name}" in text
        for option in mode.options:
            assert option.flags[-1] in text
    for line in text.splitlines():
        assert not line or line.count("|") - line.count("\\|") == 4


def test_registering_twice_registers_once(ip: Any, run: Any, session: Any, model: Any) -> None:
    """A reload keeps models and %config's values, and adds no second completer or configurable."""
    from llama_magic import magics
    from llama_magic.session.session import current

    run("%config LlamaMagics.max_tokens = 12")
    magics.register(ip)
    magics.unregister(ip)
    assert ip.find_line_magic("llama") is None
    assert ip.find_cell_magic("llama") is None
    assert ip.Completer.custom_matchers == []
    magics.register(ip)
    magics.register(ip)
    assert [type(c).__name__ for c in ip.configurables].count("LlamaMagics") == 1
    names = [getattr(matcher, "matcher_identifier", "") for matcher in ip.Completer.custom_matchers]
    assert names == ["llama_magic"]
    assert current(ip) is session
    assert session.models == {"fake": model}
    run("%%llama complete\nx")
    assert last(model).max_tokens == 12


def test_config_file_values_arrive() -> None:
    """`c.LlamaMagics.temperature = …` in a profile sets the trait."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from llama_magic import magics

    config = Config()
    config.HistoryManager.enabled = False
    config.LlamaMagics.temperature = 0.25
    config.LlamaMagics.model = "mine"
    shell = InteractiveShell(config=config)
    magics.register(shell)
    found = shell.magics_manager.registry["LlamaMagics"]
    assert (found.temperature, found.model) == (0.25, "mine")
    magics.unregister(shell)
    atexit.unregister(shell.atexit_operations)
    shell.atexit_operations()


def test_the_configured_model_is_loaded_on_first_use(ip: Any, run: Any, session: Any) -> None:
    """Without a loaded model a cell loads `%config LlamaMagics.model`; -m overrides for one cell only."""
    run("%config LlamaMagics.model = 'mine'")
    run("%config LlamaMagics.ctx = 99")
    assert run("%%llama complete\nx").result.model == "mine"
    assert session.loader.calls[-1] == ("mine", {"ctx": 99})
    assert run("%%llama complete -m other\nx").result.model == "other"
    assert session.current_name == "mine"
    run("%config LlamaMagics.model = 'third'")
    assert run("%%llama complete\nx").result.model == "third"
