"""The argument grammar: words, options, and errors that name the nearest right word."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_magic.errors import LlamaMagicError, OptionError
from llama_magic.magics import _help
from llama_magic.magics._options import MODES, VERBS
from llama_magic.magics._parse import CellCommand, LineCommand, parse_cell, parse_line
from llama_magic.magics._words import Words, continued


def split(line: str) -> list[str]:
    words, found = Words(line), []
    while (word := words.take()) is not None:
        found.append(word.text)
    return found


@settings(deadline=None)  # the machine is shared, and the first call imports
@given(st.text(alphabet="ab \t\"'=-{}", max_size=30))
def test_words_agree_with_shlex_where_no_backslash_is(line: str) -> None:
    """Without backslashes words are cut exactly as POSIX shlex cuts them, unclosed quotes refused by both."""
    try:
        expected = shlex.split(line)
    except ValueError:
        with pytest.raises(OptionError, match="never closed"):
            split(line)
    else:
        assert split(line) == expected


def test_backslashes_are_ordinary() -> None:
    """A Windows path keeps its backslashes, quoted or not."""
    assert split(r'load C:\models\x.gguf "C:\my models\y.gguf"') == [
        "load",
        r"C:\models\x.gguf",
        r"C:\my models\y.gguf",
    ]


def test_a_long_line_goes_on_behind_a_lone_backslash() -> None:
    """As in a shell; a backslash that ends a word is part of it, and one without a next line stands."""
    body = '    --over "temperature=0,0.8" \\\n--seed 7\nMood of: {{ text }} \\\nEnd\n'
    line, rest = continued("map rows \\", body)
    assert rest == "Mood of: {{ text }} \\\nEnd\n"
    assert parse_cell(line) == parse_cell('map rows --over "temperature=0,0.8" --seed 7')
    assert continued("map rows --record C:\\runs\\", "Hi\n") == ("map rows --record C:\\runs\\", "Hi\n")
    assert continued("chat \\", "") == ("chat \\", "")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('--stop " "', {"stop": (" ",)}),
        ("--stop ' '", {"stop": (" ",)}),
        ('--stop=" "', {"stop": (" ",)}),
        (r'--stop "\n" --stop "a\\n"', {"stop": ("\n", r"a\n")}),
        ("-n 64", {"max_tokens": 64}),
        ("-n64", {"max_tokens": 64}),
        ("-n=64", {"max_tokens": 64}),
        ("--max-tokens=64", {"max_tokens": 64}),
        ("-t 0 -N 3", {"temperature": 0.0, "n": 3}),
        ("-t -1", {"temperature": -1.0}),
        ("--top-k -1", {"top_k": -1}),
        ("--fresh --raw -q", {"reuse": False, "raw": True, "quiet": True}),
        ("--seed 4294967294", {"seed": 4294967294}),
        ("--samplers 'penalties;dry;top_k'", {"samplers": "penalties;dry;top_k"}),
        ("--logit-bias 15=-2.5 --logit-bias \"'a=b'=4\"", {"logit_bias": ((15, -2.5), ("a=b", 4.0))}),
        (r"""--logit-bias "'\n'=-1" """, {"logit_bias": (("\n", -1.0),)}),
        ("--logit-bias 15=-inf", {"logit_bias": ((15, float("-inf")),)}),
        ('--choices "yes|no, thanks"', {"choices": ("yes", "no, thanks")}),
        ("--choices yes,no", {"choices": ("yes", "no")}),
        ('--choices ["yes", "no, thanks"] -n 3', {"choices": ("yes", "no, thanks"), "max_tokens": 3}),
        ("--choices=['a|b','c']", {"choices": ("a|b", "c")}),
        ("--choices '[1, 2]'", {"choices": ("1", "2")}),
        ("--choices '[x]|[y]'", {"choices": ("[x]", "[y]")}),
        ("--choices [x]|[y]", {"choices": ("[x]", "[y]")}),
        (
            "--dry-sequence-breaker '\"' --dry-multiplier 0.8",
            {"dry_sequence_breakers": ('"',), "dry_multiplier": 0.8},
        ),
        ("--session my-chat --new -o r", {"session": "my-chat", "new": True, "out": "r"}),
        ("--system \"You are 'terse'.\"", {"system": "You are 'terse'."}),
        ("--grammar 'root ::= \"yes\"'", {"grammar": 'root ::= "yes"'}),
    ],
)
def test_cell_options(line: str, expected: dict[str, Any]) -> None:
    """Quotes go, quoted blanks stay, numbers become numbers, repeatable options collect."""
    assert dict(parse_cell(line).options) == expected


def test_the_mode_may_stand_anywhere_and_chat_is_the_default() -> None:
    """A mode is the one free word of the line."""
    assert parse_cell("-n 5 complete -t 0").mode == "complete"
    assert parse_cell("complete").mode == "complete"
    assert parse_cell("").mode == "chat"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("--temprature 1", "--temperature"),
        ("--max-token 5", "--max-tokens"),
        ("-temperature 1", "--temperature"),
        ("--topk 3", "--top-k"),
        ("complet", "complete"),
        ("load smollm2", "%llama load"),
        ("--overflow drop", "drop-oldest"),
        ("--format htm", "html"),
        ("-n many", "whole number"),
        ("-n -3", "1 or more"),
        ("-n", "needs a value"),
        ("-o --raw", "needs a value"),
        ("-o 2x", "Python variable"),
        ("-o class", "Python variable"),
        ("-o get_ipython", "IPython's own"),
        ("-o In", "IPython's own"),
        ("-o _", "IPython's own"),
        ("-o _i12", "IPython's own"),
        ("-o __builtins__", "IPython's own"),
        ("--seed 4294967295", "4294967294"),
        ("--seed -1", "4294967294"),
        ("--raw=yes", "takes no value"),
        ("-n 5 -n 6", "twice"),
        ("chat hello", "lines below"),
        ("chat --schema X", "structured"),
        ("complete --session a", "chat"),
        ("--logit-bias yes=1", "inner quotes"),
        ("--logit-bias \"' a'=5,'b'=8\"", "Write --logit-bias for each."),
        ('--stop ""', "empty"),
        ("--stop 'x", "never closed"),
        ("--choices 'a||b'", "empty choice"),
        ("--choices []", "expected a list of texts"),
        ("--choices [1.5]", "expected a list of texts"),
        ("chat -n 5 # short", "comment cannot stand behind %%llama"),
    ],
)
def test_cell_errors_say_what_would_be_right(line: str, named: str) -> None:
    """Every mistake on the line is one OptionError that names the option, mode or range meant."""
    with pytest.raises(OptionError, match=named.replace("|", r"\|")):
        parse_cell(line)


def test_line_commands() -> None:
    """Verbs take their words and options."""
    command = parse_line(
        'load "my models/x.gguf" --ctx 0 --gpu-layers all --no-mmap --lora a.gguf:0.5 --lora b.gguf'
    )
    assert command.verb == "load"
    assert command.words == ("my models/x.gguf",)
    assert dict(command.options) == {
        "ctx": 0,
        "gpu_layers": "all",
        "mmap": False,
        "lora": ("a.gguf:0.5", "b.gguf"),
    }
    assert parse_line("chat main fork other").words == ("main", "fork", "other")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("tokens Hello world", "Hello world"),
        ("tokens don't stop", "don't stop"),
        ("tokens explain --model flag", "explain --model flag"),
        ("tokens -- --model flag", "--model flag"),
        ("tokens --", ""),
        ("tokens -5 degrees", "-5 degrees"),
        ('tokens "a  b"', "a  b"),
        ('tokens "a" and "b"', '"a" and "b"'),
        ("tokens {x} $HOME {{ y }}", "{x} $HOME {{ y }}"),
        (r"tokens C:\new", r"C:\new"),
    ],
)
def test_a_text_starts_at_the_first_free_word(line: str, text: str) -> None:
    """What follows is text, options and quotes in it included."""
    if not text:
        with pytest.raises(OptionError, match="needs a text"):
            parse_line(line)
        return
    assert parse_line(line) == LineCommand("tokens", (text,))


def test_options_may_stand_before_a_text() -> None:
    """An option before the text is an option, and an unknown one is refused."""
    command = parse_line("tokens -m other it's here")
    assert command.words == ("it's here",)
    assert dict(command.options) == {"model": "other"}
    with pytest.raises(OptionError, match="--model"):
        parse_line("tokens --modle x hello")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("lod x", "load"),
        ("modles", "models"),
        ("complete hello", "%%llama complete"),
        ("load a b", "does not take 'b'.\nWrite"),
        ("load my models/é.gguf", 'blanks stands in quotes: %llama load "my models/é.gguf"'),
        ("inspect my\\ models\\ x.gguf", 'quotes: %llama inspect "my models x.gguf"'),
        ("use", "needs NAME"),
        ("load --ctxt 5", "--ctx"),
        ("load --kv-type q8", "q8_0"),
        ("load --gpu-layers most", "all"),
        ("load --profile fats", "fast"),
        ("zzz", "Verbs: load"),
        ("load  # the demo model; or a path", "comment cannot stand behind %llama load"),
    ],
)
def test_line_errors_say_what_would_be_right(line: str, named: str) -> None:
    """Every mistake on a line is one OptionError that names the nearest right word."""
    with pytest.raises(OptionError, match=named):
        parse_line(line)


def test_the_help_of_a_verb_says_what_each_action_does() -> None:
    """What `edit 2` does to a chat, and how its turn is then written anew, is read before it is tried."""
    text = " ".join(_help.verb_help(VERBS["chat"]).split())
    assert "edit N go back to before turn N; the next %%llama chat cell writes it anew" in text
    for verb in VERBS.values():
        said = " ".join(_help.verb_help(verb).split())
        assert all(f"{action.usage} {action.help}" in said for action in verb.actions)


def test_each_mode_says_how_a_loop_does_it() -> None:
    """A cell cannot stand in a loop or a function: what a mode is called in Python is in the error."""
    for mode in MODES.keys() - VERBS.keys():
        with pytest.raises(OptionError, match=rf"%%llama {mode}.*in a loop (model|lm)\.\w+\("):
            parse_line(f"{mode} x")


def test_a_semicolon_at_the_end_of_a_line_silences() -> None:
    """As in IPython: the result is not shown; in a text or in quotes it is an ordinary character."""
    assert parse_line("load x;") == LineCommand("load", ("x",), silent=True)
    assert parse_line("models;") == LineCommand("models", silent=True)
    assert parse_line('load "x;"').words == ("x;",)
    assert parse_line("tokens a;").words == ("a;",)


def test_help_wins_over_what_is_missing() -> None:
    """`--help` answers even where words are missing."""
    assert parse_line("use --help").help
    assert parse_line("").help
    assert parse_line("--help").help
    assert parse_cell("chat --help").help


def test_no_line_of_a_help_text_is_broken_by_a_narrow_window() -> None:
    """70 characters are what a cell has at 1,000 pixels; nothing is lost where a line is broken."""
    texts = [_help.line_help(), _help.cell_help()]
    texts += [_help.verb_help(verb) for verb in VERBS.values()]
    texts += [_help.mode_help(mode) for mode in MODES.values()]
    assert max(len(line) for text in texts for line in text.splitlines()) <= 70
    words = " ".join(texts[0].split())
    for verb in VERBS.values():
        assert " ".join(f"{verb.name} {verb.arguments} {verb.help}".split()) in words


def test_commands_are_frozen_and_say_what_they_are() -> None:
    """A command cannot be changed, and its repr holds verb, words and options."""
    command = parse_line("load x --ctx 5")
    with pytest.raises(dataclasses.FrozenInstanceError):
        command.verb = "use"  # type: ignore[misc]
    assert "verb='load'" in repr(command)
    assert "'ctx': 5" in repr(command)
    assert parse_cell("") == CellCommand()


_ALPHABET = st.sampled_from(
    [
        *VERBS,
        *MODES,
        *(f for m in MODES.values() for o in m.options for f in o.flags),
        "1",
        "-1",
        "x=",
        '"',
        "'",
        "--",
    ]
)


@settings(deadline=None)  # the machine is shared, and the first call imports
@given(st.lists(_ALPHABET, max_size=6).map(" ".join))
def test_any_line_is_a_command_or_one_of_our_errors(line: str) -> None:
    """No line makes the parser fail in another way (or leave the process, as argparse would)."""
    for parse in (parse_line, parse_cell):
        with contextlib.suppress(LlamaMagicError):
            assert isinstance(parse(line), (LineCommand, CellCommand))


def test_each_flag_means_one_thing() -> None:
    """Within a mode or verb no flag stands twice, and across modes a flag is one and the same option."""
    seen: dict[str, object] = {}
    for owner in (*MODES.values(), *VERBS.values()):
        flags = [flag for option in owner.options for flag in option.flags]
        assert len(flags) == len(set(flags)), owner.name
    for mode in MODES.values():
        for option in mode.options:
            for flag in option.flags:
                assert seen.setdefault(flag, option) == option, flag


def test_every_sampling_parameter_is_an_option() -> None:
    """The recipe's fields and the sampling options are the same set."""
    from dataclasses import fields

    from llama_magic.magics._options import SAMPLING
    from llama_magic.request.sampling import Sampling

    assert {option.key for option in SAMPLING} == {field.name for field in fields(Sampling)}
