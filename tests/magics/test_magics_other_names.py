"""Options by the names of other tools, and options pasted from a slide."""

from __future__ import annotations

from typing import Any

import pytest

from llama_magic.errors import OptionError
from llama_magic.magics._parse import parse_cell, parse_line
from llama_magic.request.stages import OTHER_NAMES, PARAMETERS


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--temp 0.5", "has no option --temp. Did you mean --temperature?"),
        ("-temp 0.5", "has no option -temp. Did you mean --temperature?"),
        ("-top-k 4", "Did you mean --top-k?"),
        ("--n-predict 5", "Did you mean --max-tokens?"),
        ("--max_new_tokens 5", "Did you mean --max-tokens?"),
        ("--num-return-sequences 2", "Did you mean --samples?"),
        ("-s 5", "Did you mean --seed?"),
        ("-quiet", "Did you mean --quiet?"),
        ("--ctx 4096", "has no option --ctx. It belongs to %llama load"),
        ("--n-ctx 4096", "It is --ctx of %llama load"),
        ("-ngl 99", "has no option -ngl. It is --gpu-layers of %llama load"),
        ("-c 4096", "It is --ctx of %llama load"),
        ("--no-cache-prompt", "Did you mean --fresh?"),
        ("--tempreature 1", "Did you mean --temperature?"),
        ("--ubatch-size 64", "It is --batch of %llama load"),
        ("--json", "%%llama structured --schema X answers in JSON."),
        ("--response-format json_object", "%%llama structured"),
        ("--stream", "always shown as it is written"),
        ("-p hello", "lines below"),
        ("--tfs-z 1", "has no such stage any more; --top-p"),
        ("--cache-prompt", "--fresh switches that off"),
        ("--image x.png", "Only text is read."),
        ("--ignore-eos", "ignore_eos=True"),
        ("--verbose", "%llama doctor"),
        ("--mask x", "has no option --mask.\n"),
        ("-T 3", "has no option -T.\n"),
        ("--maxtokens 3", "Did you mean --max-tokens?"),
        ("--samples-per-prompt 3", "Did you mean --samples?"),
        ("--prompt hello", "has no option --prompt. The prompt stands in the lines below"),
        ("complete max_tokens=20", "Did you mean --max-tokens 20?"),
        ("temperature=0.2", "There is no mode 'temperature=0.2'. Did you mean --temperature 0.2?"),
        ("structured Mail", "Did you mean --schema Mail?"),
        ("-n twenty", "-n is 'twenty'; expected a whole number, 1 or more, or the name of a variable."),
        ("--system Be kind", "quote a value that holds blanks"),
        ("decide df --choices yes,no", "Did you mean --options?"),
        ("map", "where DF is a variable that holds the rows"),
    ],
)
def test_a_cell_knows_what_others_call_its_options(line: str, said: str) -> None:
    """The hint names our option, or the verb that it belongs to."""
    with pytest.raises(OptionError) as caught:
        parse_cell(line)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("load x --temp 0.5", "It is --temperature of %%llama complete, %%llama chat"),
        ("load x --top-k 3", "It belongs to %%llama complete"),
        ("load x --ctx-size 5", "Did you mean --ctx?"),
        ("load x --n_gpu_layers 9", "Did you mean --gpu-layers?"),
        ("load x -t 5", "Did you mean --threads?"),
        ("load x --alias b", "Did you mean --as?"),
        ("kv --seed 5", "It belongs to %%llama complete"),
        ("chat -m far Say hi", "It belongs to %%llama chat, with two %, and the text in the lines below."),
        ("history --last 5", "%llama history N"),
        ("history -n 3", "%llama history N"),
        ("list", "Did you mean models?"),
        ("last", "Did you mean history?"),
        ("rm x", "Did you mean unload?"),
        ("version", "Did you mean doctor?"),
        ("ctx", "There is no verb 'ctx'. --ctx is an option of %llama load"),
        ("context", "--ctx is an option of %llama load"),
        ("template", "--template is an option of %llama inspect."),
        ("temp 0.5", "%llama sampler temperature=… sets it for the cells to come, --temperature on a"),
        ("set temperature=0.5", "%llama sampler temperature=0.5"),
        ("new", "%%llama chat --new"),
        ("stop", "Interrupt the kernel"),
        ("ask hi", "Write %%llama chat, the text below it"),
        ("schema X", "Write %%llama structured"),
        ("embed x", "model.embed([text])"),
        ("What is a token?", "A text is answered by %%llama, with two %"),
        ("'Say hi'", "A text is answered by %%llama, with two %"),
        ("sampler --temp 0.5", "Write temperature=…, without dashes."),
        ("inspect --chat-template", "Did you mean --template?"),
        ("chat", "%llama chats lists those there are."),
    ],
)
def test_a_verb_knows_what_others_call_its_options(line: str, said: str) -> None:
    """The same letter means what the verb makes of it: -t is threads where a model is loaded."""
    with pytest.raises(OptionError) as caught:
        parse_line(line)
    assert said in str(caught.value)


def test_help_is_a_word_too() -> None:
    """`%llama help` and `%llama help load` are `--help`; a word that is no verb leads to all of them."""
    for line, verb in (("help", ""), ("help load", "load"), ("help nothing", "")):
        assert (parse_line(line).verb, parse_line(line).help) == (verb, True)


@pytest.mark.parametrize("other", OTHER_NAMES)
def test_every_other_name_of_a_parameter_leads_to_its_option(other: str) -> None:
    """What a row of the stages says that others call its parameter is understood on a line."""
    with pytest.raises(OptionError) as caught:
        parse_cell(f"--{other.replace('_', '-')} 1")
    assert f"Did you mean {PARAMETERS[OTHER_NAMES[other]].option}?" in str(caught.value)


@pytest.mark.parametrize("dash", "‐‑‒–—―−－")
def test_a_dash_before_an_option_is_a_hyphen(dash: str) -> None:
    """A slide makes dashes of hyphens; the option is understood, long and short, with = and without."""
    for line in (f"{dash}top-k 4", f"{dash}{dash}top-k 4", f"-{dash}top-k 4", f"{dash}-top-k=4"):
        assert parse_cell(line).options == {"top_k": 4}
    assert parse_cell(f"chat {dash}n 5 {dash}t 0.5").options == {"max_tokens": 5, "temperature": 0.5}
    assert parse_line(f"load x {dash}ctx 512").options == {"ctx": 512}
    assert parse_line(f"tokens {dash}model m a text").words == ("a text",)


@pytest.mark.parametrize("text", ["— foo", "—foo bar", "– n 5", "−5 degrees", "—"])
def test_a_dash_in_a_text_stays(text: str) -> None:
    """A text may begin with a dash, and a quoted value with dashes is left alone."""
    assert parse_line(f"tokens {text}").words == (text,)
    assert parse_cell(f"--stop '—n' --system '{text}'").options == {"stop": ("—n",), "system": text}


def test_a_dash_before_no_option_is_named() -> None:
    """A word with a dash that is no option is refused as one, with the nearest."""
    with pytest.raises(OptionError, match=r"no option --temprature\. Did you mean --temperature"):
        parse_cell("—temprature 1")


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("--regex a --choices b", "--regex and --choices"),
        ("complete --grammar g --choices b", "--grammar and --choices"),
        ("--choices b --grammar g --regex a", "--grammar and --regex and --choices"),
    ],
)
def test_two_constraints_are_named(line: str, names: str) -> None:
    """An answer is held to one of them; which ones stand together is said before anything runs."""
    with pytest.raises(OptionError, match=f"^{names} stand together"):
        parse_cell(line)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_temperature_that_is_no_number_is_refused(run: Any, model: Any, value: str) -> None:
    """NaN and the infinities are refused by name, and nothing is set."""
    error = run(f"%llama sampler temperature={value}").error_in_exec
    assert f"temperature is {value}" in str(error)
    run("%%llama complete\nx")
    assert model.backend.requests[-1].sampling.temperature == model.sampling.temperature
