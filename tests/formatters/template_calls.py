"""Every single call that a template can make, with hostile sizes; run as a program, in limits of its own.

The list is generated: all filters, tests and globals of Jinja's environment, all methods of the types
that a template can hold, all operators, each with values as large as the sandbox lets a template make.

    python template_calls.py [EACH [SEED [MILLISECONDS [1]]]]     EACH draws of values for every call

With a 1 the calls are those of `{{ }}` in a prompt, which looks at no clock.

Prints one line of JSON: cases, refused, worst CPU seconds, the cases that took over 256 MB or died, and how
many seconds of CPU a signal was not heard at most.
"""

from __future__ import annotations

import inspect
import itertools
import json
import random
import re
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from jinja2.sandbox import ImmutableSandboxedEnvironment

MEMORY = 256_000_000
TYPES = {
    "text text_b text_last text_first text_wide text_half blanks lines tabs short empty": str,
    "percent_all names path": str,
    "braces_many digits tags markup": str,
    "bytes": bytes,
    "list list_text list_lists list_long": list, "pair": tuple, "dict dict_wide": dict,
    "big large some minus zero yes": int, "float half": float, "complex": complex,
    "range range_one_hash": range,
    "keys": type({}.keys()), "items": type({}.items()), "lazy": type(_ for _ in ()),
}  # fmt: skip
OPERATORS = ("+", "-", "*", "/", "//", "**", "%", "~", "==", "<", "in", "and", "or")
# What each value is, as a template writes it. Sizes are near the limits on both sides.
VALUES = {
    "text": "'a'*3900000",
    "text_b": "('a'*1900000 ~ 'b')",
    "text_last": "('b'*1900000 ~ 'a')",
    "text_first": "('b' ~ 'a'*1900000)",
    "text_wide": "'é漢😀'*300000",
    "text_half": "'ab'*900000",
    "blanks": "' x'*900000",
    "lines": "'a\n'*900000",
    "tabs": "'\t'*100000",
    "bytes": "('a'*3900000).encode()",
    "short": "'a'",
    "empty": "''",
    "percent": "'%99999999999d'",
    "percent_many": "'%9999d'*9000",
    "percent_all": "'%s'*50000",
    "percent_star": "'%*d'",
    "braces": "'{:99999999999}'",
    "braces_many": "'{:9999}'*9000",
    "braces_all": "'{0}'*30000",
    "braces_deep": "'{:{}}'",
    "number_text": "'9999999999'",
    "digits": "'1'*1000000",
    "tags": "'<!--<a href=x.y'*50000",
    "markup": "('<&'*300000)|e",
    "big": "2**9990",
    "large": "10**9",
    "some": "99",
    "minus": "-1",
    "zero": "0",
    "float": "1e308",
    "half": "0.5",
    "complex": "(-8)**0.5",
    "pair": "('a'*9000, [1]*9000)",
    "list": "[1]*60000",
    "list_text": "['aé']*30000",
    "list_lists": "[[1]]*15000",
    "list_long": "['a'*190000 ~ 'b']*10",
    "range": "range(99999)",
    "range_one_hash": "range(0, 90000*2305843009213693951, 2305843009213693951)",
    "dict": "dict(range(900)|map('string')|map('center', 5)|map('list')|map('batch', 2)|map('first'))",
    "dict_wide": "{97: 'b'*9000, 'a': 'b'*100000}",
    "keys": "{'a': 1}.keys()",
    "items": "{'a': 1}.items()",
    "lazy": "range(99999)|map('string')",
    "names": "'a' ~ ',a'*99",
    "path": "'real' ~ '.real'*30",
    "no": "none",
    "yes": "true",
    "missing": "nothing",
    "namespace": "namespace(a=1)",
}


def forms() -> list[str]:
    """Return every call as a pattern of `{v}`, the value, and `{a}`, its arguments."""
    stranger = ImmutableSandboxedEnvironment()
    named = [
        (argument, name)
        for name, call in sorted(stranger.filters.items())
        for argument in [*inspect.signature(call).parameters][1:]
        if argument not in ("value", "s", "args", "kwargs")  # what is filtered, and what has no name
    ]
    return [
        *(f"{{v}}|{name}({{a}})|string|length" for name in sorted(stranger.filters)),
        *(f"{{v}}|{name}({{a}})|list|length" for name in sorted(stranger.filters)),
        *(f"{{v}}|{name}({argument}={{a1}})|list|length" for argument, name in named),
        *(f"{{v}} is {name}({{a}})" for name in sorted(stranger.tests) if name[0].isalpha()),
        *(
            f"{{v:{names}}}.{name}({{a}})|list|length"
            for names, kind in TYPES.items()
            for name in sorted(dir(kind))
            if not name.startswith("_")
        ),
        *(f"{name}({{v}}, {{a}})" for name in (*stranger.globals, "raise_exception", "strftime_now")),
        *(f"({{v}} {operator} {{a1}})|string|length" for operator in OPERATORS),
        "{v}[{a1}:]|length",
        "{v}[::{a1}]|length",
        "{v}[{a1}]|string",
        "dict.fromkeys({v}, {a1})|length",
        "({v}|attr('format'))({a})",
    ]


def cases(each: int, seed: int, alone: bool = False) -> Iterator[str]:
    """Yield templates with one call each: `each` draws of value and arguments for every form.

    With `alone` they are expressions, for `{{ }}` in a prompt has no `{% set %}`.
    """
    chance = random.Random(seed)
    names = list(VALUES)
    for form in forms():
        for _ in range(each):
            chosen = [chance.choice(names) for _ in range(chance.choice((1, 2, 2, 3, 3, 4)))]
            if (fitting := re.search(r"\{v:([^}]*)\}", form)) is not None:
                chosen[0] = chance.choice(fitting.group(1).split())
            if "{a1}" in form and len(chosen) < 2:
                chosen.append(chance.choice(names))
            call = re.sub(r"\{v:[^}]*\}", "{v}", form).format(
                v=chosen[0], a=", ".join(chosen[1:]), a1=chosen[-1]
            )
            if alone:
                call = re.sub(r"\{v:[^}]*\}", "{v}", form).format(
                    v=f"({VALUES[chosen[0]]})",
                    a=", ".join(f"({VALUES[name]})" for name in chosen[1:]),
                    a1=f"({VALUES[chosen[-1]]})",
                )
                yield f"{{{{ {call} }}}}"
                continue
            sets = "".join(f"{{% set {name} = {VALUES[name]} %}}" for name in dict.fromkeys(chosen))
            yield f"{sets}{{{{ {call} }}}}{{{{ messages[0].content }}}}"


def _most_held(*, anew: bool = True) -> int:
    """Return the most bytes that this process held since it was last asked to count anew."""
    if sys.platform != "linux":
        return 0
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


def main(each: int = 3, seed: int = 1, milliseconds: int = 500, alone: int = 0) -> None:
    """Try them, each within so much of its own CPU time; print what came of it."""
    from llama_magic import formatters
    from llama_magic.bounds import meter
    from llama_magic.errors import TemplateError
    from llama_magic.formatters import _plan
    from llama_magic.model.interpolate import interpolate

    meter.MAX_SECONDS = _plan.MAX_SECONDS = milliseconds / 1000
    hi = [{"role": "user", "content": "hi"}]
    formatters.gguf.Template("{{ messages[0].content }}").messages_to_prompt(hi)
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + 4 * MEMORY  # what asks for more is an error of some words
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    count = 0
    worst, deaf, refused, bad = (0.0, ""), (0.0, ""), 0, []
    heard: list[float] = []

    def hear(*_: object) -> None:
        heard.append(time.thread_time())
        if alone and heard[-1] - heard[0] > 2:  # as Ctrl-C ends what is written in Python
            raise KeyboardInterrupt

    signal.signal(signal.SIGVTALRM, hear)
    for source in cases(each, seed, bool(alone)):
        count += 1
        print(source, file=sys.stderr, flush=True)  # the last line is the one that hung
        template = None if alone else formatters.gguf.Template(source)
        held = _most_held()
        began = time.thread_time()
        heard[:] = [began]
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.01, 0.01)  # of CPU time, heard as Ctrl-C is
        try:
            if template is None:
                interpolate(source, {})
            else:
                template.messages_to_prompt(hi)
        except TemplateError as error:
            refused += 1
            if "MemoryError" in str(error):
                bad.append(source)
        except MemoryError:
            bad.append(source)
        except KeyboardInterrupt:
            refused += 1
        if _most_held(anew=False) > held + MEMORY:
            bad.append(source)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        heard.append(time.thread_time())
        worst = max(worst, (heard[-1] - began, source))
        deaf = max(deaf, (max(b - a for a, b in itertools.pairwise(heard)), source))
    found = {"cases": count, "refused": refused, "worst": worst, "bad": bad[:20], "deaf": deaf}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
