"""Options of a cell reach the call that it makes, each under its name and with what it means."""

from __future__ import annotations

import enum
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llama_magic.errors import LlamaMagicError, OptionError
from llama_magic.magics._options import MODES
from llama_magic.request.request import Request
from llama_magic.session import session as sessions
from llama_magic.testing import scripted_model

OF_THE_CELL = {"model", "out", "format", "quiet", "raw", "session", "new", "live", "schema"}
TEXTS = ("text", "escaped", "template", "grammar", "regex")
# Of each kind; of the others a number.
SAMPLE = {"choices": "a|b", "bias": "3=1", "stages": "top_k", "tools": "f", **dict.fromkeys(TEXTS, "a")}


@pytest.mark.parametrize("mode", ["complete", "chat", "structured"])
def test_every_option_of_a_mode_reaches_the_call(
    ip: Any, run: Any, model: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """All but what the cell itself does are keywords of the model's method, one by one."""
    taken: dict[str, Any] = {}
    ip.user_ns["a"] = 'root ::= "a"'  # --grammar names a variable
    ip.user_ns["f"] = lambda: 1  # --tools names a function

    def take(_self: Any, *args: Any, **options: Any) -> None:
        taken.update(options, messages=args[0])
        raise OptionError("taken")

    monkeypatch.setattr(type(model), mode, take)
    schema = " --schema name" if mode == "structured" else ""
    for option in MODES[mode].options:
        if option.key in OF_THE_CELL:
            continue
        taken.clear()
        value = option.choices[-1] if option.choices else SAMPLE.get(option.kind, "1")
        instruct = " --instruct" if mode == "complete" and option.key == "system" else ""
        line = f"%%llama {mode}{schema}{instruct} {option.flags[-1]} {value if option.takes_value else ''}"
        assert str(run(f"{line}\nhi").error_in_exec) == "taken"
        if option.key == "system" and mode != "complete":
            assert [message["content"] for message in taken["messages"]] == ["a", "hi"]
        else:
            assert option.key in taken, line


class _Colours(enum.Enum):
    RED = "red"
    BLUE = "blue"


def test_variables_stand_on_the_line_in_every_option(ip: Any, run: Any, model: Any) -> None:
    """`{name}` and `$name` are the variable with its type, whole or inside a word; no value is read again."""
    ip.user_ns.update(
        n=5, t=0.25, seed=np.int64(9), stops=["{n}", "b"], stop=".", fellow="Bo", who="{fellow}",
        colours=_Colours, order=["top_k", "temperature"], bias={3: 1.5}, form="text", several="a|b",
    )  # fmt: skip

    def asked(line: str) -> Request:
        assert run(f"%%llama chat --new -q {line}\nhi").success, line
        return model.backend.requests[-1]

    for n, t in (("{n}", "{t}"), ("$n", "$t"), ("n", "t")):
        request = asked(f"-n {n} -t {t} --seed={n} --logprobs {n} --format {{form}}")
        assert (request.max_tokens, request.sampling.temperature) == (5, 0.25)
        assert (request.seed, request.logprobs) == (5, 5)
    assert asked("--seed $seed").seed == 9
    assert asked("--stop {stops} --stop stop --stop x{stop}y").stops[:4] == ("{n}", "b", "stop", "x.y")
    assert asked("--stop {other.x}").stops[0] == "{other.x}"  # no variable of that name
    assert asked("--stop $nobody").stops[0] == "$nobody"  # the environment may have it
    assert asked("--samplers order").sampling.samplers == ("top_k", "temperature")
    assert asked("--samplers {order}").sampling.samplers == ("top_k", "temperature")
    assert asked("--logit-bias bias").sampling.logit_bias == ((3, 1.5),)
    systems = {
        "{who} and $fellow": "{fellow} and Bo",
        "{{ n + 1 }} {who} {{ who }} {unknown} {{}}": "6 {fellow} {fellow} {unknown} {{}}",
        "who": "who",
    }
    for text, said in systems.items():
        assert asked(f'--system "{text}"').messages[0]["content"] == said
    assert asked('--raw --system "{{ n }} {n}"').messages[0]["content"] == "{{ n }} 5"
    assert asked('--prefill "{{ n }} {who} "').messages[-1]["content"] == "5 {fellow} "
    assert asked('--raw --prefill "{{ n }} $who "').messages[-1]["content"] == "{{ n }} {fellow} "
    assert asked('--stop "{{ who }}" --stop "{{ n }}."').stops[:2] == ("{fellow}", "5.")
    assert asked('--raw --stop "{{ n }}"').stops[0] == "{{ n }}"
    model.backend.answers = ["b"]
    constraint = asked('--choices "{{ n }}, b"').constraint
    assert [constraint.accepts(text) for text in ("5", "b", "{{ n }}")] == [True, True, False]
    assert run('%%llama chat --new --tag "t{{ n }}" -o tagged\nhi').success
    assert ip.user_ns["tagged"].tag == "t5"
    for choices, answers in (("colours", ("red", "blue")), ("$several", ("a", "b")), ("several", ("a", "b"))):
        model.backend.answers = [answers[0]]
        constraint = asked(f"--choices {choices}").constraint
        assert [constraint.accepts(text) for text in (*answers, choices)] == [True, True, False]


def test_names_of_the_function_or_script_that_calls_are_variables(
    ip: Any, run: Any, model: Any, tmp_path: Path
) -> None:
    """As IPython's own magics do, a line and a body take the caller's names, over those of the notebook."""
    ip.user_ns.update(n=1, word="notebook", here=ip)
    ask = "here.run_cell_magic('llama', 'chat --new -q -n {n} -o answer', 'a {{ word }} {{ other }}')"
    run(f"other = 'y'\ndef f(n, word):\n    {ask}\n    %llama sampler top_k={{n}}\nf(5, 'function')")
    assert model.backend.requests[-1].max_tokens == 5
    assert "a function y" in model.backend.requests[-1].text
    assert sessions.current(ip).sampler == {"top_k": 5}
    assert run(ask).success
    assert "a notebook y" in model.backend.requests[-1].text  # a call leaves none of its names behind

    script = tmp_path / "exported.py"
    own = "n, word, other, here = 3, 'script', 'z', get_ipython()"
    script.write_text(f"{own}\n{ask}\ndef f(): return answer.text\nkept = f()\n")
    ip.user_ns.pop("answer")
    assert run(f"%run {script}").success
    assert "a script z" in model.backend.requests[-1].text
    assert ip.user_ns["kept"] == ip.user_ns["answer"].text


def test_expressions_stand_in_braces_in_every_option(ip: Any, run: Any, model: Any, loader: Any) -> None:
    """As IPython fills them, quotes and blanks their own; with its type where it is the whole word."""
    ip.user_ns.update(cfg={"tone": "calm", "my t": 0.25, "stops": ["a", "b"]}, n=3, rows=[1, 2], folder="bo")

    def asked(line: str) -> Request:
        run(f"%%llama chat --new -q {line}\nhi").raise_error()
        return model.backend.requests[-1]

    for text in ("\"Be {cfg['tone']}, {n}.\"", '"Be {cfg["tone"]}, {n}."', "'Be {cfg['tone']}, {n - 0}.'"):
        assert asked(f"--system {text}").messages[0]["content"] == "Be calm, 3."
    request = asked('-t {cfg["my t"]} -n {n + 2} --seed={len(rows)} --stop {cfg["stops"]} --stop x{n * 2}y')
    assert (request.sampling.temperature, request.max_tokens, request.seed) == (0.25, 5, 2)
    assert request.stops[:3] == ("a", "b", "x6y")
    literal = ["{3}", "{n,4}", "{nobody.x}", "x{len}", '{"a":', "{1 + 1}", "{n"]
    assert list(asked(" ".join(f"--stop '{text}'" for text in literal)).stops[: len(literal)]) == literal
    model.backend.answers = ['{"bo": 3}']
    assert run("%%llama structured --schema '{folder}: int' -q\nhi").result.parsed == {"bo": 3}
    run("%llama load {folder.upper()}/{cfg['tone']} --ctx {n * 100}")
    assert loader.calls[-1] == ("BO/calm", {"ctx": 300})


def test_a_variable_may_hold_the_model_itself(ip: Any, run: Any, model: Any) -> None:
    """`-m {model}` and `--models {models}` ask the very model, whatever it is called."""
    other = scripted_model(["from the other"] * 3, name="other")
    ip.user_ns.update(other=other, both=[model, other])
    assert run("%%llama chat -m {other} -q --new\nhi").result.text == "from the other"
    run("%%llama map ['a'] --models {both} -q -o r\n{{ text }}").raise_error()
    assert [one.settings["model"] for one in ip.user_ns["r"]] == [model.name, "other"]
    run("%%llama map ['a'] --models $other -q -o r\n{{ text }}").raise_error()
    assert [one.text for one in ip.user_ns["r"]] == ["from the other"]
    assert run("%llama stats -m {other}").result.requests == 3


def test_bare_names_are_variables_where_nothing_else_is_meant(ip: Any, run: Any, model: Any) -> None:
    """`--regex`, `--grammar` and `--schema` take the variable's value; where there is none, the word."""
    ip.user_ns.update(
        rx=re.compile("[ab]{2}"), text="[cd]", g='root ::= "yes"', people=list[int], fields="name"
    )
    accepted = {"--regex rx": "ab", "--regex text": "c", "--regex {text}": "d", "--regex other": "other"}
    accepted |= {"--grammar g": "yes", "--grammar {g}": "yes", "--regex [xy]{2}": "xy"}
    for line, answer in accepted.items():
        model.backend.answers = [answer]
        assert run(f"%%llama complete {line}\nhi").result.text == answer
    for schema, answer in (("people", "[1, 2]"), ("{people}", "[3]"), ("$fields", '{"name": "x"}')):
        model.backend.answers = [answer]
        assert run(f"%%llama structured --schema {schema}\nhi").result.parsed == json.loads(answer)


def test_the_name_of_a_stage_is_the_stage(ip: Any, run: Any, model: Any) -> None:
    """A notebook that has a number called `temperature` still names the stage; other names are variables."""
    ip.user_ns.update(temperature=0.7, top_k=3, temp=1, stages=["top_k", "temp"])
    for given in ("temperature", "top_k", "temp"):
        last = run(f"%%llama complete --samplers {given}\nhi").result.sampling.samplers
        assert last == ("temperature" if given == "temp" else given,)
    assert run("%%llama complete --samplers stages\nhi").result.sampling.samplers == ("top_k", "temperature")
    assert run("%%llama complete -t temperature\nhi").result.sampling.temperature == 0.7


def test_what_ipython_put_into_the_namespace_is_no_value(ip: Any, run: Any, model: Any) -> None:
    """`open`, `exit` and `get_ipython` are not there in `{{ }}`; a variable of such a name is."""
    for name in ("open('x')", "exit", "get_ipython().user_ns"):
        assert "is undefined" in str(run(f"%%llama complete\n{{{{ {name} }}}}").error_in_exec)
    ip.user_ns["open"] = "a door"
    assert run("%%llama complete\n{{ open }}").result.prompt == "a door"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-n {lenght}", "no variable 'lenght'.*Did you mean length"),
        ("--stop {stopp}", "no variable 'stopp'"),
        ("-n m", "'m'; expected a whole number"),
        ("-n word", "'x'; expected a whole number"),
        ("-n flag", "holds a bool; expected a number"),
        ("-t things", "holds a list; expected a number"),
        ("--stop {model_class}", "holds a type"),
        ("--stop a{things}", "holds a list"),
        ("--grammar {things}", "holds a list"),
        ("--logit-bias things", r"holds \[1, 2\]; expected a dict"),
        ("--stop {empty}", "is empty"),
        ("-t {things[5]}", r"\{things\[5\]\} gives IndexError: list index out of range"),
        ("--stop a{word.lowr()}", "gives AttributeError"),
        ('--system "Be {word["x"]}."', "gives TypeError"),
        ("--stop {things[0:1]}x", "holds a list"),
    ],
)
def test_a_variable_that_does_not_fit_is_named(ip: Any, run: Any, model: Any, line: str, said: str) -> None:
    """The message has the option, the word and what the variable holds."""
    ip.user_ns.update(length=5, word="x", flag=True, things=[1, 2], model_class=int, empty="")
    with pytest.raises(LlamaMagicError, match=f"(?s){said}"):
        run(f"%%llama chat {line}\nhi").raise_error()


def test_words_of_verbs_take_variables(ip: Any, run: Any, loader: Any, tmp_path: Any) -> None:
    """Sources, names, paths, texts and sampler parameters of `%llama`, whole and inside a word."""
    ip.user_ns.update(folder=tmp_path, who="bo", text="two words", heat=0.5, n=64)
    run("%llama load {who} --ctx n --as {who}-{n}")
    assert loader.calls[-1] == ("bo", {"ctx": 64})
    assert "bo-64" in sessions.current(ip).models
    assert run("%llama use $who-64").success
    assert run("%llama tokens {text}").result.text == "two words"
    assert run("%llama tokens $text and {nothing}").result.text == "two words and {nothing}"
    assert run("%llama sampler temperature={heat} top_k=n").result.temperature == 0.5
    assert run("%llama sampler").result.top_k == 64
    run("%%llama chat --session {who}\nhi")
    assert run("%llama chat {who} save {folder}/chat-$n.json").success
    assert (tmp_path / "chat-64.json").exists()


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ('Literal["x","y z"]', '"y z"'),
        ("Literal['x', \"y\"]", '"x"'),
        ("--schema-is-attached", '"y"'),
        ('list[Literal["a b", "c"]]', '["a b", "c"]'),
        ("Annotated[int, Field(ge=1, le=3)]", "2"),
        ('{"enum": ["x y", "it\'s"]}', '"it\'s"'),
        ('{"type": "object", "properties": {"a b": {"type": "integer"}}, "required": ["a b"]}', '{"a b": 1}'),
        ('\'{"enum": ["x y"]}\'', '"x y"'),
        ("int | None", "null"),
        ("Optional[int]", "null"),
        ("firstName", '{"firstName": "x"}'),  # one field; a text and a list of near names are no schemas
    ],
)
def test_types_and_json_on_the_line_keep_their_quotes(
    ip: Any, run: Any, model: Any, schema: str, answer: str
) -> None:
    """--schema ends at the first blank outside of brackets and quotes; typing's names need no import."""
    ip.user_ns.update(firstNames=["a"], firstname="a")
    model.backend.answers = [answer]
    given = '--schema=Literal["x","y"]' if schema == "--schema-is-attached" else f"--schema {schema}"
    result = run(f"%%llama structured {given} -n 90 --seed 5\nhi").result
    assert (result.parsed, result.seed) == (json.loads(answer), 5)


def test_comments_for_notebook_tools_are_not_sent(
    run: Any, model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """nbval's markers, wherever nbval takes them, and `#|` lines at the top are left out, which is said."""
    bodies = {
        "# NBVAL_IGNORE_OUTPUT\nSay hi.": "Say hi.",
        "  ## NBVAL_CHECK_OUTPUT \nSay\n#PYTEST_VALIDATE_IGNORE_OUTPUT\nhi.\n#NBVAL_SKIP": "Say\nhi.",
        "#| echo: false\n#|label: x\nhi\n#| stays": "hi\n#| stays",
        "# NBVAL_SKIP this is a title": "# NBVAL_SKIP this is a title",
        "NBVAL_SKIP\n# Title": "NBVAL_SKIP\n# Title",
    }
    run("%%llama complete\n\ufeffhi")  # pasted from a file that PowerShell wrote
    assert model.backend.requests[-1].text == "hi"
    for body, sent in bodies.items():
        run(f"%%llama complete\n{body}")
        assert model.backend.requests[-1].text == sent
        assert ("Not part of the prompt" in capsys.readouterr().out) == (body != sent)


def test_a_cell_typed_at_a_prompt_ends_with_a_blank_line(
    ip: Any, run: Any, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a terminal the blank line that ends a cell magic is no part of the prompt; in a notebook it is."""
    sent = []
    for name in ("InteractiveShell", "TerminalInteractiveShell"):
        monkeypatch.setattr(ip, "__class__", type(name, (type(ip),), {}))
        run("%%llama complete\nThe capital of France is\n\n")
        sent.append(model.backend.requests[-1].text)
    assert sent == ["The capital of France is\n", "The capital of France is"]
