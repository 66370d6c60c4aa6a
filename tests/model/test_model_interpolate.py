"""`{{ }}` in a body: one pass, strict, sandboxed; everything else is literal."""

from __future__ import annotations

import collections
import datetime
import decimal
import json
import re
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_magic.errors import TemplateError
from llama_magic.model import proportion
from llama_magic.model.interpolate import interpolate


def fill(body: str, **names: Any) -> str:
    return interpolate(body, names)


@pytest.mark.parametrize(
    "body",
    [
        "{v:k for k,v in d.items()}",
        "function f() { const x = { a: 1 }; return x }",
        '{"a": {"b": {"c": [1, {"d": 2}]}}}',
        "f'{x}' and $HOME and ${HOME} and %s",
        "{% if x %}no{% endif %} {# not a comment #}",
        "\\frac{a}{b} }} }}",
        'println!("{{}}") and {{ }}',
    ],
)
def test_code_is_literal(body: str) -> None:
    """Single braces, JSON, JavaScript, LaTeX, `{%`, and empty pairs are sent as they stand."""
    assert fill(body) == body


@settings(deadline=None)  # the machine is shared, and the first call imports
@given(st.text(alphabet="{}[]%#$ab\"'\n ").filter(lambda text: "{{" not in text))
def test_a_body_without_two_opening_braces_is_untouched(body: str) -> None:
    """Only `{{` starts anything."""
    filled = interpolate(body, {})
    assert (filled, filled.spans) == (body, ())


@settings(deadline=None)  # the machine is shared, and the first call imports
@given(st.text())
def test_values_are_never_read_again(value: str) -> None:
    """A value that itself holds `{{ }}` stays as it is, and its span is exactly its place."""
    filled = interpolate("<{{ value }}> and {{ value }}!", {"value": value})
    assert filled == f"<{value}> and {value}!"
    assert [filled[start:end] for _, start, end in filled.spans] == [value, value]
    assert [label for label, _, _ in filled.spans] == ["value", "value"]


def test_expressions() -> None:
    """Attributes, items, filters, arithmetic, calls and inner braces work; non-strings become text."""
    names = {"d": {"k": [1, 2]}, "n": 3, "s": "ab", "f": lambda x: x * 2, "none": None, "result": "me"}
    assert (
        fill("{{ d.k[1] }} {{ d['k']|length }} {{ n + 1 }} {{ s.upper() }} {{ f(n) }}", **names)
        == "2 2 4 AB 6"
    )
    assert fill("{{ {'a': {'b': 5}}['a']['b'] }}") == "5"
    assert fill("{{ '}}' }}{{ \"{{\" }}") == "}}{{"
    assert fill("{{ none }} {{ n }} {{ result }}", **names) == "None 3 me"
    assert fill("{{'a'\n}}") == "a"
    assert fill("{{ 'x' ~ n }}", n=1) == "x1"


@pytest.mark.parametrize("name", ["missing", "lipsum", "cycler"])
def test_a_missing_name_is_named(name: str) -> None:
    """A name that is not in the namespace is an error that names it and its line; so are Jinja's globals."""
    with pytest.raises(TemplateError, match=rf"(?s)line 2.*{name}.*--raw"):
        fill(f"first line\n{{{{ {name} }}}}")


def test_a_name_that_only_a_statement_would_give() -> None:
    """`{% for %}` is text; where a name is missed because of it, the error says what to write."""
    with pytest.raises(TemplateError, match=r"'p' is undefined.*\n\{% … %\} is sent as it stands"):
        fill("{% for p in parts %}{{ p }}{% endfor %}", parts=[1])
    with pytest.raises(TemplateError) as plain:
        fill("{{ p }}", parts=[1])
    assert "{%" not in str(plain.value)


def test_a_missing_attribute_is_named() -> None:
    """So is a missing key or attribute."""
    with pytest.raises(TemplateError, match="nope"):
        fill("{{ d.nope }}", d={})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<div style={{ color: 'red' }}>", "is not an expression"),
        ("a {{ b", "never closed"),
        ("{{ name }", "never closed"),
        ("{{ don't }}", "is not an expression"),
        ("{{ 1/0 }}", "ZeroDivisionError"),
        ("{{ ''.__class__.__mro__ }}", "(?i)unsafe|not allowed|undefined"),
        ("{{ f.__globals__ }}", "(?i)unsafe|not allowed|undefined"),
    ],
)
def test_what_is_no_expression_is_refused(body: str, said: str) -> None:
    """Double braces that mean something else say how to keep them; the sandbox holds."""
    with pytest.raises(TemplateError, match=said):
        fill(body, name=1, f=fill)


def test_json_of_a_value_survives() -> None:
    """A JSON text as value arrives byte for byte."""
    text = json.dumps({"a": [{"b": "{{ x }}"}]}, indent=1)
    assert fill("{{ t }}", t=text, x="no") == text


# Every place in which a value can stand, and each way in which one can be missing.
PLACES = re.split(
    r"\s{2,}",
    """[@]  [1, @, 2]  [[@]]  (@, 1)  (@, 1)[1]  [@][1:]  {'k': @}  {@: 1}  [@] | length
    f(@)  f(1, @)  f(a=@)  f(*[@])  f(**{'a': @})  dict(a=@)  range(@)  len([@])  f(@) | default(3)
    text | replace(@, '')  text | default(@)  text | truncate(@)  [text] | join(@)  @ | upper
    [@] | tojson  [@] | string  [@] | pprint  [@] | first == 1  [text] | batch(2, @) | list
    @ is none  @ is string  1 is sameas(@)  1 is divisibleby(@)  1 in [@]  @ in [1]  [@] is defined
    @ == 1  1 != @  1 < @  not @  -@  1 + @  text ~ @  '%s' % @  '%r' % [@]  '%d' % @  '{}'.format(@)
    text[@]  text[@:]  d[@]  @[0]  @.x  @.x is defined  @()  @.upper()  [@ | default(@)]
    1 if @ else 2  1 if @ is none else 2  @ if 1 else 2  2 if 0 else @  [@ if 1 else 2]
    @ or 1  0 or @  1 and @""",
)
LACKS = {
    "nope": "'nope' is undefined",
    "d.nope": "no attribute 'nope'",
    "d['nope']": "no attribute 'nope'",
    "text.nope": "no attribute 'nope'",
    "[1][5]": "no element 5",
    "(1 if 0)": "no else",
    "([] | first)": "empty",
}


@pytest.mark.parametrize("place", PLACES)
def test_what_is_missing_is_named_in_any_place(place: str) -> None:
    """A missing name, attribute, item or else is an error that names it, wherever it stands."""
    for lack, said in LACKS.items():
        with pytest.raises(TemplateError, match=f"(?s)cannot be filled: .*{re.escape(said)}"):
            fill(f"{{{{ {place.replace('@', lack)} }}}}", text="abc", d={"k": 1}, f=lambda *_, **__: "called")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("nope is defined", "False"),
        ("nope is undefined", "True"),
        ("d.nope is defined", "False"),
        ("nope | default('x')", "x"),
        ("[nope | d(3), d.nope | d(4)]", "[3, 4]"),
        ("nope | default(gone) | default('x')", "x"),
        ("(nope if 1 else 2) | default('x')", "x"),
        ("(1 if 0) | default('x')", "x"),
        ("1 or nope", "1"),
        ("nope if nope is defined else 'none'", "none"),
        ("rows | selectattr('nope', 'defined') | list", "[]"),
        ("rows | map(attribute='nope', default=4) | list", "[4]"),
        ("rows | map(attribute='nope') | map('default', 4) | list", "[4]"),
        ("'' | default('x', true)", "x"),
    ],
)
def test_what_may_be_missing(expression: str, text: str) -> None:
    """`is defined`, `default` and what is not come to may hold names that are missing."""
    assert fill(f"{{{{ {expression} }}}}", d={}, rows=[{"a": 1}]) == text


@pytest.mark.parametrize(
    "use",
    re.split(
        r"\s{2,}",
        """@  @ | string  @ | tojson  @ | pprint  str(@)  repr(@)  '%s' % @  '%r' % [@]  [@]  '{!r}'.format(@)
        @ | join(',')  @ | sum  1 in @  @ | sort | first  @ | max  @ | min  @ | first  @ == [1, 2]
        @ | select('none') | list  @ | reject('string') | list  @ | unique | list""",
    ),
)
def test_what_a_filter_found_missing_has_no_text(use: str) -> None:
    """`map(attribute=…)` of an attribute that an item lacks is named when it is shown, compared or tested."""
    found = "(rows | map(attribute='nope') | list)"
    expression = use.replace("@", found)
    with pytest.raises(TemplateError, match=r"(?s)cannot be filled: .*no attribute 'nope'"):
        fill(f"{{{{ {expression} }}}}", rows=[{"a": 1}, {"a": 2}])


def test_self_is_jinjas() -> None:
    """`{{ self }}` is never a reference to Jinja's template; it says that the name is taken."""
    with pytest.raises(TemplateError, match="'self' is a name of Jinja's own"):
        fill("{{ [self] }}")


ORDER = {"id": 1, "items": ["tea"], "get": 2}


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("order.items", r"'items' is also a key.*Write \['items'\]"),
        ("order.get", "'get' is also a key"),
        ("order.keys", "keys is a method that is not called.*Call it"),
        ("order.items[0]", r"'items' is also a key.*Write \['items'\]"),
        ("row.name", r"\.name is an attribute of the Series, and 'name' is also a key.*Write \['name'\]"),
        ("table.size", "attribute of the DataFrame"),
        ("user.data", "attribute of the UserDict"),
        (
            "type(text)",
            "'type' is undefined.*type is Python's; .* know abs, all.*Compute the value in a Python",
        ),
        ("order.missing", "no attribute 'missing'.*Print the value"),
        ("'Order: ' ~ order.items", "has no text"),
        ("order.items | string", "has no text"),
        ("order.items | upper", "has no text"),
        ("order.items | length", "has no text"),
        ("order.items | join(', ')", "has no text"),
        ("'%s' % order.items", "has no text"),
        ("[order.items]", "has no text"),
        ("[order] | map(attribute='keys') | list", "has no text"),
        ("text.upper", "upper is a method"),
        ("f", "f is a function that is not called"),
        ("'a' ~ f", "has no text"),
        ("sum", "sum is a function"),
        ("len", "len is a function"),
        ("City", "it is the class City.*schema"),
        ("json", "it is the module json"),
        ("raw", r"it is bytes\.\n.*raw\.decode\('utf-8'\)"),
        ("thing", "an object that has no text"),
        ("[thing]", "an object that has no text"),
        ("'a' ~ thing", "an object that has no text"),
        ("thing.method", "method"),
        ("(1, 2) | map('string')", "an object that has no text"),
        ("zip(text, text)", "an object that has no text"),
        ("file", "an object that has no text of its own: <_io.StringIO|<_io.TextIOWrapper"),
        ("match", "an object that has no text of its own: <re.Match"),
        ("figure", "an object that has no text of its own: <Figure of 2 axes>"),
    ],
)
def test_what_has_no_text_is_refused(expression: str, said: str) -> None:
    """A method, function, class, module, generator or plain object is never sent as `<… at 0x…>`.

    Nor is the attribute of a table's row sent for the column of that name.
    """

    class City:
        def method(self) -> None: ...

    class Figure:
        def __repr__(self) -> str:
            return "<Figure of 2 axes>"

    objects = {"raw": b"abc", "file": sys.__stdout__, "match": re.match("a", "a"), "figure": Figure()}
    table = pd.DataFrame([{"name": "Bo", "size": 3}])
    objects |= {"table": table, "row": table.iloc[0], "user": collections.UserDict(data=1)}
    names = {"order": ORDER, "text": "abc", "f": fill, "City": City, "json": json, "thing": City(), **objects}
    with pytest.raises(TemplateError, match=f"(?s){said}"):
        fill(f"a {{{{ {expression} }}}}", **names)


def test_a_text_that_speaks_of_an_object_is_kept() -> None:
    """A traceback in a variable is a text like any other, trimmed or joined too."""
    text = " <function f at 0x7f2e7d23eb80> failed"
    assert fill("{{ t }}|{{ t | trim }}|{{ d.t }}", t=text, d={"t": text}) == f"{text}|{text.strip()}|{text}"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("len(text)", "3"),
        ("str(5) ~ int('6')", "56"),
        ("sum([1, 2]) + max(3, 4) - min([1, 2])", "6"),
        ("', '.join(sorted(['b', 'a']))", "a, b"),
        ("order['items'] | first", "tea"),
        ("order.get('id')", "2"),
        ("order.items()", "[('id', 2), ('items', ['tea'])]"),
        ("order.keys()", "['id', 'items']"),
        ("round(2.567, 1)", "2.6"),
        ("list(zip([1], [2]))", "[(1, 2)]"),
        ("any([0, 1]) and not all([0, 1])", "True"),
        ("'{} {}'.format(text, len(text))", "abc 3"),
        ("len", "9"),
        ("row['name'] ~ row.age", "Bo3"),
    ],
)
def test_pythons_functions_work(expression: str, text: str) -> None:
    """`len` and its kin are Python's, unless the notebook has a name of its own for something else."""
    order = {"id": 2, "items": ["tea"]}
    names: dict[str, Any] = {"len": 9} if expression == "len" else {}
    row = pd.Series({"name": "Bo", "age": 3})
    assert fill(f"{{{{ {expression} }}}}", text="abc", order=order, row=row, **names) == text


@pytest.mark.parametrize(
    "expression",
    ["[x for x in a]", "f'{a}'", "a:>10", "n:.2f", "a!r", "lambda: 1", "{1, 2}", "(x for x in a)"],
)
def test_python_that_is_no_jinja_is_named(expression: str) -> None:
    """Comprehensions, f-strings and formats say what to write instead."""
    with pytest.raises(TemplateError, match="hold Jinja, which has no comprehensions"):
        fill(f"{{{{ {expression} }}}}", a="x", n=2.5)


@pytest.mark.parametrize(
    "expression",
    [
        "9**(9**9)",
        "'a' if 9**(9**9) else 'b'",
        "x[9**(9**9):]",
        "'a' * 10**12",
        "10**10 * ['a']",
        "(('a', 'b') * 10**9) | length",
        "'x'.center(10**12)",
        "str.rjust('x', 10**12)",
        "'x' | center(1000000000)",
        "'\\t'.expandtabs(10**12)",
        "(1).to_bytes(10**12, 'big') | length",
        "round(5, -(10**9))",
        "5 | round(10**9, 'ceil')",
        "'%999999999d' % 1",
        "'%.*f' % (10**9, 1)",
        "'%999999999d' | format(1)",
        "'{:>999999999}'.format(1)",
        "'{:{}}'.format(1, 10**9)",
        "x | tojson(indent=10**9)",
        "'x' | indent(10**9, true)",
        "x | batch(10**9, 0) | list | length",
        "('a' * 10**4).replace('', 'b' * 10**4)",
        "('a' * 10**4) | replace('', 'b' * 10**4)",
        "('a' * 10**4).join('b' * 10**4)",
        "('b' * 10**4) | join('a' * 10**4)",
        "('a' * 10**4).translate({97: 'b' * 10**4})",
        "('a' * 10**4) | wordwrap(1, wrapstring='b' * 10**4)",
        "range(100000) | map('center', 9000) | join",
        "(x * 10**7) | tojson",
        "dict.fromkeys(range(90000), 'a' * 9**6)",
        "dict.fromkeys(range(90000), 'a' * 9**6) ~ ''",
        "''.join(('a' | batch(10**4, 'a' * 10**7))|first)",
        "dict.fromkeys(range(0, 90000 * p, p)) | length",
        "set(range(0, 90000 * p, p)) | length",
        "range(0, 90000 * p, p) | unique | list",
        "range(0, 90000 * p, p) | batch(1) | unique(attribute=0) | list",
        "set().union(range(0, 90000 * p, p))",
        "dict((range(0, 90000 * p, p) | batch(2))) | length",
        "('a' * 10**7).strip('b' * 10**6 ~ 'a')",
        "range(90000) | groupby('x', 'a' * 90000) | list",
        "('%s' * 1000) | format(*(['a' * 10**6] * 1000))",
        "('a' * n) | length",
        "('é' * 10**7).encode('punycode')",
    ],
)
def test_what_is_far_too_large_is_refused_before_it_is_made(expression: str) -> None:
    """No operator, method or filter fills memory or computes for ever, in a constant expression neither.

    What is not listed cannot be called. `p` is the number of which all multiples share a hash.
    """
    with pytest.raises(TemplateError, match=r"failed: .*(out of all proportion|than a prompt can need)"):
        fill(f"{{{{ {expression} }}}}", x=[1, 2], p=sys.hash_info.modulus, n=np.int64(10**12))


def test_what_is_large_as_a_prompt_may_be_is_made() -> None:
    """A text of a million characters is repeated, filled, replaced and joined as Python does it."""
    x = "ab" * 50_000
    assert fill("{{ x * 10 }}", x=x) == x * 10
    assert fill("{{ x.replace('b', 'cc') }}", x=x * 10) == "acc" * 500_000
    assert fill("{{ x | join('-') }}", x=list(x)) == "-".join(x)
    assert fill("{{ x | unique | join }} {{ set(x) | length }}", x=list(x)) == "ab 2"
    assert fill("{{ 'ab'.center(10**6) }}") == "ab".center(10**6)
    assert fill("{{ '%08.3f' % 3.14159 }} {{ '{:>8}'.format('ab') }} {{ 2 ** 100 }}") == (
        "0003.142       ab 1267650600228229401496703205376"
    )


def test_what_the_user_gave_may_be_larger() -> None:
    """A text above the limit is cut and replaced in; data that holds itself is written; functions may."""
    x = "ab " * 14_000_000
    assert fill("{{ x.replace('a', 'cc')[:4] }} {{ x.upper()[-3:] }}", x=x) == ("ccb  AB ")
    tree: dict[str, Any] = {"name": "root"}
    tree["child"] = {"parent": tree}
    assert fill("{{ t.child.parent.get('name') }} {{ t }}", t=tree) == f"root {tree}"
    assert fill("{{ make()[:2] }}", make=lambda: x) == "ab"


@pytest.mark.parametrize("kind", [str, bytes, bytearray, int, float, complex, list, tuple, range, dict, set])
def test_every_method_of_pythons_own_types_is_measured(kind: type) -> None:
    """A method that a later Python adds cannot be called before it is listed; `format` is the sandbox's."""
    listed = set().union(*(names for kinds, names in proportion.METHODS if issubclass(kind, kinds)))
    static = {name for name in dir(kind) if isinstance(vars(kind).get(name), (classmethod, staticmethod))}
    static |= {name for name in dir(kind) if getattr(getattr(kind, name), "__self__", None) is kind}
    own = {name for name in dir(kind) if callable(getattr(kind, name)) and not name.startswith("_")}
    assert own - static - {"format", "format_map"} <= listed
    with pytest.raises(TemplateError, match=r"is not allowed|failed"):
        fill("{{ x.format_map({'a': 1}) }}{{ str.format('{}', 1) }}", x="{a}")


@pytest.mark.parametrize(
    "expression",
    [
        "row.t, s.tolist(), arr.tolist(), f.round(1), i.item() + 1, df.shape, df['a'].max()",
        "d.strftime('%d.%m.%Y'), d.isoformat(), dec.quantize(1), dec * 2, ts.year, p.count(1), p.index(2)",
        "m.shout(), m.title(), c.most_common(1), c.get('a'), dd.get('q', 'no'), od.move_to_end('a')",
        "sorted(st - {'a': 1}.keys()), sorted(st.union(fs)), fs.issubset(st), st.isdisjoint(fs), st == fs",
        "b.decode('cp1252'), b.hex(), b.decode('utf-8', 'backslashreplace'), bytearray_.decode()",
        "l.copy().pop(), l.append(4), l.sort(), l.index(2), sorted(l, reverse=True), max(l) - min(l)",
        "re.sub('l', 'L', t), re.findall('o', t), ell(1, 2, 3), str.upper(t), int.from_bytes(b, 'big')",
        "'%s %05.1f' % (t, 2.5), '{:>10}|{:<{}}'.format(t, 'x', 5), '{0.year}'.format(d), '%(a)s' % {'a': 1}",
        "n ** 3, abs(-n), 10 // 3, 2.5 * n, '-' * n, [0] * i, t[::-1], t[1:3], t.translate({108: 'L'})",
        "t.split(), t.rsplit(' ', 1), t.partition(' '), t.startswith(('He', 'x')), t.zfill(20), t.swapcase()",
        "t.center(9, '.'), t.title(), t.find('o'), repr(t), round(3.14159, 2), int('7') + n",
        "list(range(3)), list(enumerate(t)), len(t) * 2, any(l), bool(l), tuple(l), max(l, default=0)",
        "dict({1: 2}, b=3), t.replace('l', 'L', 1), t.encode().decode(), l.count(1), set(l), float(n)",
        "dict(a=1, b=2), dict([('a', 1)]), dict.fromkeys('ab', 0), list(zip(l, l)), sum([[1], [2]], [])",
    ],
)
def test_everyday_values_do_what_they_do_in_python(expression: str) -> None:
    """Methods, operators and functions of Python, pandas, NumPy and the user, as `eval` gives them."""

    class Shouting(str):
        __slots__ = ()

        def shout(self) -> str:
            return self.upper() + "!"

    def names() -> dict[str, Any]:
        frame = pd.DataFrame({"a": [1, 2, 3], "t": ["x", "y", "z"]})
        point = collections.namedtuple("point", "x y")(1, 2)
        return {
            "df": frame, "row": frame.iloc[0], "s": frame.t, "arr": np.arange(5), "f": np.float64(2.55),
            "i": np.int64(3), "d": datetime.date(2024, 1, 2), "dec": decimal.Decimal("1.5"), "p": point,
            "ts": pd.Timestamp("2024-01-01"), "m": Shouting("hey"), "c": collections.Counter("aab"),
            "od": collections.OrderedDict(a=1), "dd": collections.defaultdict(list), "st": {"a", "b"},
            "fs": frozenset("ab"), "b": b"caf\xe9", "bytearray_": bytearray(b"abc"), "l": [3, 1, 2], "n": 5,
            "re": re, "t": "Hello World", "ell": lambda *a: "x".join(map(str, a)),
        }  # fmt: skip

    assert fill(f"{{{{ ({expression}) }}}}", **names()) == str(eval(f"({expression})", names()))
