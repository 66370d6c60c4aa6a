"""The magics in a real InteractiveShell: results, names, precedence, errors, interruption."""

from __future__ import annotations

import atexit
import codecs
from typing import Any

import pytest

from llama_magic.errors import (
    BackendError,
    ContextOverflowError,
    GenerationInterrupted,
    InputTypeError,
    OptionError,
    OutOfTimeError,
    SourceError,
    StructuredOutputError,
    TemplateError,
)
from llama_magic.microscope.reading import ReadThrough
from llama_magic.model.results import Completion
from llama_magic.request.request import Request
from llama_magic.request.sampling import Sampling
from llama_magic.testing import Script


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


PERSON = """
import pydantic
class Person(pydantic.BaseModel):
    name: str
    @pydantic.field_validator("name")
    def check(cls, name):
        if not name.istitle():
            raise ValueError("a name begins with a capital")
        return name
"""


@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        ("%llama lod x", OptionError),
        ("%%llama --temprature 1\nx", OptionError),
        ("%%llama\n{{ nobody }}", TemplateError),
        ("%%llama chat\n   \n", OptionError),
        ("%%llama structured\nx", OptionError),
        ("%%llama complete --system x\nx", OptionError),
    ],
)
def test_errors_raise_and_show_as_one_block(
    run: Any, model: Any, capsys: pytest.CaptureFixture[str], cell: str, kind: type[Exception]
) -> None:
    """A mistake fails the cell with our error, shown without a traceback, and nothing is generated."""
    result = run(cell)
    assert type(result.error_in_exec) is kind
    captured = capsys.readouterr()
    shown = captured.out + captured.err
    assert kind.__name__ in shown
    assert "Traceback" not in shown
    assert shown.count("\n") <= 4
    assert model.backend.requests == []


def test_a_source_that_is_missing_is_one_short_block(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The loader's own error, without a traceback."""
    assert isinstance(run("%llama load missing.gguf").error_in_exec, SourceError)
    shown = capsys.readouterr()
    assert "SourceError" in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err


def test_an_engine_error_leaves_the_session_as_it_was(ip: Any, run: Any, session: Any, model: Any) -> None:
    """A failed chat turn is neither in the chat nor in the history."""
    run("%%llama\nfirst")
    model.backend.answers = [Script(error=BackendError("llama_decode returned -3."))]
    assert isinstance(run("%%llama\nsecond").error_in_exec, BackendError)
    assert [m["content"] for m in session.chats["default"].messages if m["role"] == "user"] == ["first"]
    assert len(session.history) == 1


def test_an_interruption_keeps_what_was_written(ip: Any, run: Any, session: Any, model: Any) -> None:
    """The cell fails as interrupted; -o, history and chat hold the partial answer, marked."""
    model.backend.answers = [Script("one two three four", at=2, interrupt=True)]
    error = run("%%llama chat -o r\ncount").error_in_exec
    assert isinstance(error, GenerationInterrupted)
    assert isinstance(error, KeyboardInterrupt)
    assert ip.user_ns["r"].text == "one two"
    assert ip.user_ns["r"].finish_reason == "interrupted"
    assert session.history[-1].completion is ip.user_ns["r"]
    turn = session.chats["default"].turns[-1]
    assert turn.interrupted
    assert turn.messages[-1] == {"role": "assistant", "content": "one two"}
    assert run("%%llama chat\ngo on").success


def test_an_interrupted_look_binds_what_there_is(
    ip: Any, run: Any, model: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """-o holds the part that was read; where nothing is kept, the one line says so and -o stays unbound."""

    def stop(error: BaseException) -> Any:
        def look(*_: Any, **__: Any) -> Any:
            raise error

        return look

    part = ReadThrough("a part", (), "fake", interrupted=True)
    monkeypatch.setattr(model, "read", stop(GenerationInterrupted(part, "3 of 9 tokens were read")))
    assert isinstance(run("%%llama surprise -o r\nx").error_in_exec, GenerationInterrupted)
    assert ip.user_ns["r"] is part
    shown = capsys.readouterr()
    assert "Interrupted: 3 of 9 tokens were read." in shown.out + shown.err
    for cell in ("%%llama xray -o t\nx", "%%llama xray --live -o t\nx"):
        monkeypatch.setattr(model, "xray", stop(KeyboardInterrupt()))
        assert isinstance(run(cell).error_in_exec, GenerationInterrupted)
        assert "t" not in ip.user_ns
        shown = capsys.readouterr()
        assert (shown.out + shown.err).strip() == "Interrupted: nothing is kept."


def test_structured_passes_the_schema_and_keeps_failures(ip: Any, run: Any, session: Any, model: Any) -> None:
    """--schema is looked up in the namespace; an answer that fails its check is still in the history."""
    run(PERSON)
    model.backend.answers = ['{"name": "ada"}', '{"name": "Ada"}', '{"name": "ada"}']
    result = run("%%llama structured --schema Person --retries 2\nInvent one.").result
    assert result.parsed == ip.user_ns["Person"](name="Ada")
    assert len(model.backend.requests) == 2
    kept = len(session.history)
    error = run("%%llama structured --schema Person --retries 0 -o p\nAgain.").error_in_exec
    assert isinstance(error, StructuredOutputError)
    assert len(session.history) == kept + 1
    assert session.history[-1].completion.text == '{"name": "ada"}'
    assert "p" not in ip.user_ns


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Person", "namespace"),
        ("list[Person]", "type"),
        ("int", int),
        ('{"type": "integer"}', {"type": "integer"}),
        ("name, age int", "name, age int"),
        ("name, tags [str]", "name, tags [str]"),
        ("box.Person", "namespace"),
    ],
)
def test_schema_lookup(text: str, value: Any) -> None:
    """--schema takes a class, a type expression, a builtin, JSON, a short form, a dotted name."""
    from types import SimpleNamespace

    from llama_magic.magics._lookup import find_schema

    class Person:
        pass

    found = find_schema(text, {"Person": Person, "box": SimpleNamespace(Person=Person)})
    expected = (
        {"namespace": Person, "type": list[Person]}.get(value, value) if isinstance(value, str) else value
    )
    assert found == expected


def test_a_missing_schema_names_the_nearest(run: Any, model: Any) -> None:
    """A misspelt class is an error that names the right one."""
    run("class Person:\n    pass")
    error = run("%%llama structured --schema Persn\nx").error_in_exec
    assert "Did you mean Person?" in str(error)
    assert "Did you mean Person?" in str(run("%%llama structured --schema persn\nx").error_in_exec)
    run("class City:\n    pass")
    assert "Did you mean City?" in str(run("%%llama structured --schema Cty\nx").error_in_exec)


def test_grammar_from_text_variable_and_file(ip: Any, run: Any, model: Any, tmp_path: Any) -> None:
    """--grammar takes GBNF itself, the name of a variable, or a .gbnf file."""
    (tmp_path / "g.gbnf").write_text('root ::= "file"')
    ip.user_ns["g"] = 'root ::= "variable"'
    for given, only in (("'root ::= \"x\"'", "x"), ("g", "variable"), ("g.gbnf", "file")):
        model.backend.answers = [only, "else"]
        assert run(f"%%llama complete --grammar {given}\nx").result.text == only
        assert "constraint forbids" in str(run(f"%%llama complete --grammar {given}\nx").error_in_exec)
    assert "names a variable" in str(run("%%llama complete --grammar h\nx").error_in_exec)
    for encoding in ("utf-8-sig", "utf-16", "utf-32", "utf-16-le"):
        mark = codecs.BOM_UTF16_LE if encoding.endswith("-le") else b""
        (tmp_path / "g.gbnf").write_bytes(mark + 'root ::= "ä"\r\n'.encode(encoding))
        model.backend.answers = ["ä"]
        assert run("%%llama complete --grammar g.gbnf\nx").result.text == "ä"
    for data, words in ((b"\xff\xfe\x00", "is no text"), (None, "cannot be read")):
        (tmp_path / "g.gbnf").unlink() if data is None else (tmp_path / "g.gbnf").write_bytes(data)
        error = run("%%llama complete --grammar g.gbnf\nx").error_in_exec
        assert isinstance(error, SourceError)
        assert words in str(error)


def test_logit_bias_on_a_text_is_for_one_token(run: Any, model: Any) -> None:
    """A text that is one token stands for its id; of several, the pieces are named."""
    run("%%llama complete --logit-bias 15=-1 --logit-bias \"' words'=3\"\nx")
    [token] = model.backend.tokenizer.encode(" words")
    assert last(model).sampling.logit_bias == ((15, -1.0), (token, 3.0))
    error = str(run("%%llama complete --logit-bias \"'two words'=3\"\nx").error_in_exec)
    assert "which is 2 tokens of this model: 'two' (" in error
    assert "' words' (" in error


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


def test_one_line_break_at_the_end_is_not_prompt(run: Any, model: Any) -> None:
    """IPython's own line break goes, a further one stays."""
    run("%%llama complete\nline one\nline two\n")
    assert last(model).text == "line one\nline two"
    run("%%llama complete\nends with a break\n\n")
    assert last(model).text == "ends with a break\n"


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
