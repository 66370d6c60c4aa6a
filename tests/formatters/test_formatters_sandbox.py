"""The sandbox: nothing runs, nothing hangs, nothing fills memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from llama_magic import formatters
from llama_magic.bounds import meter
from llama_magic.errors import InputTypeError, TemplateError
from llama_magic.formatters import _plan

HI = [{"role": "user", "content": "hi"}]

ESCAPES = [
    '{{ cycler.__init__.__globals__.os.popen("id").read() }}',
    "{{ messages.__class__.__mro__[1].__subclasses__() }}",
    '{{ "{0.__class__.__init__.__globals__}".format(messages[0]) }}',
    "{{ namespace.__init__.__globals__['sys'].modules }}",
    "{{ self.__init__.__globals__ }}",
    "{{ raise_exception.__globals__['json'] }}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update(role='x') }}",
    "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
]

GREEDY = [
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) if false %}{% endfor %}{% endfor %}",
    '{{ "a"*10**10 }}',
    "{{ [0]*10**9 }}",
    "{{ 2**99999**9 }}",
    "{{ range(10**12)|list }}",
    '{% set ns=namespace(x="aaaa") %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}',
    '{% set ns=namespace(x="aaaa") %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}',
    "{% set ns=namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
    "{{ ns.x }}",
    "{% set ns=namespace(d={}) %}{% for i in range(60) %}{% set ns.d = dict(a=ns.d, b=ns.d) %}{% endfor %}"
    "{{ ns.d|tojson }}",
    "{% set ns=namespace(x='ab') %}{% for i in range(60) %}"
    "{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %}",
    '{{ "%1000000000d" % 5 }}',
    '{{ "%*d" % (1000000000, 5) }}',
    '{{ "%1000000000d"|format(5) }}',
    '{{ "{:1000000000}".format(5) }}',
    '{{ "{:{}}".format(5, 1000000000) }}',
    '{{ "a".ljust(10**10) }}',
    '{{ "a"|center(1000000000) }}',
    '{{ (1).to_bytes(10**10, "big") }}',
    "{{ 5|round(-1000000000) }}",
    '{{ ("a\n"*300000)|indent(10000) }}',
    '{{ ("a"*100000).replace("a", "b"*100000) }}',
    '{{ ("a"*100000)|replace("a", "b"*100000) }}',
    '{{ ("b"*100000).join(["a"]*100000) }}',
    '{{ range(99999)|map("string")|join("a"*1000000) }}',
    '{{ range(99999)|map("center", 90000)|join }}',
    "{% set l = range(99999)|list %}{{ range(99999)|reject('in', l)|list }}",
    '{{ ("a"*4000000).rfind("b" ~ "a"*2000000) }}',
    '{{ {"a": 1}|tojson(indent=10**9) }}',
    "{{ [1]|batch(10**9, 0)|list }}",
    '{{ strftime_now("%1000000000Y") }}',
    "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% block a %}{{ self.a() }}{{ self.a() }}{% endblock %}",
    "{% for x in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    '{{ ("a" * 7000000)|groupby("x") }}',
    "{% for i in range(99999) %}" + "x" * 1000 + "{% endfor %}",
    # One call in C each, that an earlier sandbox let through.
    "{% set a = ('a'*4000000).strip('b'*3000000 ~ 'a') %}",
    "{% set a = ('a'*1000000).strip('b'*1000000 ~ 'a') %}",
    "{{ range(90000)|map('list')|list }}{{ ([[]]*60000)|sum(start=[1]*60000) }}",
    "{{ 'aaa'|round(9) }}",
    "{{ '%99999999999d' is divisibleby(5) }}",
    "{{ '%99999999999d' is odd }}",
    "{{ ('%9999d'*90000)|format(1) }}",
    "{{ ('{:9999}'*90000).format(1) }}",
    "{{ '{:{}}'.format('x', '9999999999') }}",
    "{{ ('{:99999999999}'|attr('format'))(5) }}",
    "{{ dict.fromkeys(range(0, 99999*2305843009213693951, 2305843009213693951)) }}",
    "{% set ns = namespace(t=(1,)) %}{% for i in range(90000) %}{% set ns.t = (ns.t, 1) %}{% endfor %}"
    "{{ {ns.t: 1} }}",
    "{{ ('a b '*5000)|wordwrap(1, wrapstring='x'*90000) }}",
    "{{ ('abc'*100000).translate(['b'*100000]*128) }}",
    "{{ ('é'*300000).encode('punycode') }}",
    "{{ ('1'*1000000)|int(base=2) // 3 }}",
    "{% set x = 3**6000 %}{% set y = x*x %}{{ y*y*y*y*y*y*y*y }}",
    "{{ range(99999)|list" + "|map(attribute='real')" * 100 + "|list }}",
    # Each of many items has one long text for its key, in a copy of its own.
    "{{ range(5000)|groupby('x', 'a'*100000)|length }}",
    "{{ range(5000)|groupby(default='a'*100000, attribute='x')|length }}",
    "{{ range(5000)|map(attribute='x', default='a'*100000)|sort|length }}",
    "{{ range(90000)|sort(attribute='a" + ",a" * 99 + "')|length }}",
    "{{ range(90000)|groupby('real" + ".real" * 30 + "')|length }}",
    "{{ [{'a': 'A'*1900000}]|sort(attribute='a" + ",a" * 99 + "')|length }}",
    "{{ range(99999)|map(attribute='a" + ".a" * 9000 + "')|list }}",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_a_template_cannot_reach_python(source: str) -> None:
    """Every known way out of a template ends as a TemplateError and runs nothing."""
    with pytest.raises(TemplateError):
        formatters.gguf.Template(source + "{{ messages[0].content }}").messages_to_prompt(HI)


def test_every_call_with_hostile_sizes_is_bounded() -> None:
    """Any filter, test, global, method or operator on huge values ends in seconds of CPU and 256 MB.

    The list is generated from Jinja and from the types that a template can hold; here with one draw of
    values for each, and a twelfth of the time that a template has, in `soak_template_calls.py` with many,
    each in 2 s. (The longest takes 0.7 s here; a slower machine turns no test red.)
    """
    program = Path(__file__).with_name("template_calls.py")
    done = subprocess.run([sys.executable, program, "1", "1", "40"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["bad"] == []
    assert found["worst"][0] < 10, found["worst"]
    assert found["deaf"][0] < 2, found["deaf"]  # the longest call in C: Ctrl-C is heard between two
    assert found["cases"] > 300
    assert found["cases"] - found["refused"] > 20  # not by refusing all


@pytest.mark.parametrize("source", GREEDY)
def test_a_greedy_template_is_stopped(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Endless work and huge values end as a TemplateError, in about half a second of CPU and 100 MB."""
    if source != GREEDY[0]:  # how long it is let is one number: the others have a fifth of it
        for module in (meter, _plan):
            monkeypatch.setattr(module, "MAX_SECONDS", 0.1)
    template = formatters.gguf.Template(source + "{{ messages[0].content }}")
    began = time.thread_time()
    with pytest.raises(TemplateError):
        template.messages_to_prompt(HI)
    assert time.thread_time() - began < 10


def test_memory_stays_bounded() -> None:
    """Doubling a string 60 times never holds more than 100 MB."""
    template = formatters.gguf.Template(GREEDY[6])
    tracemalloc.start()
    try:
        with pytest.raises(TemplateError):
            template.messages_to_prompt(HI)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "source", ["{% for %}", "{{ x", "{% if a %}", "{{ 'a' | nofilter }}", "(" * 5 + "{{" + "(" * 3000 + "}}"]
)
def test_a_template_that_does_not_compile_is_named(source: str) -> None:
    """A syntax error is a TemplateError that says so and how to choose another template."""
    with pytest.raises(TemplateError, match="does not compile") as caught:
        formatters.gguf.Template(source)
    assert "formatter=" in str(caught.value)


def test_a_long_conversation_is_within_the_limits() -> None:
    """2,000 messages and a megabyte render: the limits grow with what is given."""
    source = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content|trim }}{% endfor %}"
    messages = [
        {"role": ("user", "assistant")[i % 2], "content": "some words here " * 32} for i in range(2000)
    ]
    text = formatters.gguf.Template(source).messages_to_prompt(messages)
    assert text.count("<|im_start|>") == 2000


def test_undefined_stays_undefined() -> None:
    """Without tools the name tools is undefined, not None; documents are never defined."""
    source = "{{ tools is defined }} {{ documents is defined }} {{ messages[0].content }}"
    template = formatters.gguf.Template(source)
    assert template.messages_to_prompt(HI) == "False False hi"
    assert template.messages_to_prompt(HI, tools=[]) == "True False hi"


def test_a_variable_must_be_plain_data() -> None:
    """A template never gets hold of a Python object."""
    with pytest.raises(TypeError, match="model"):
        formatters.gguf.Template("{{ messages[0].content }}").messages_to_prompt(HI, model=object())


def test_a_variable_is_bounded() -> None:
    """What holds itself, and a number of more digits than Python writes, are named with their place."""
    template = formatters.gguf.Template("{{ messages[0].content }}{{ v }}")
    ring: dict[str, Any] = {}
    ring["a"] = [ring]
    with pytest.raises(InputTypeError, match=r"variable\.v\.a\[0\]\.a\[0\].* holds itself"):
        template.messages_to_prompt(HI, v=ring)
    with pytest.raises(InputTypeError, match=r"variable\.v\[1\] is a whole number of 16,610 bits"):
        template.messages_to_prompt(HI, v=(1, 10**5000))
    assert template.messages_to_prompt(HI, v={1: [float("inf"), (2,)]}) == "hi{'1': [inf, [2]]}"
