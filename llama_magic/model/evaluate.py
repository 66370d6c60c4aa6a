"""The value of one `{{ expression }}`: Jinja, in its sandbox, over named values, as text."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from collections.abc import Container, ItemsView, KeysView, Mapping, ValuesView
from functools import cache, lru_cache, partial
from types import ModuleType
from typing import Any

from llama_magic.bounds.meter import LimitError
from llama_magic.errors import LlamaMagicError, TemplateError
from llama_magic.model.gaps import GAP_WITHIN, GapError, left_alone, whole, written
from llama_magic.model.wording import Wording

_CELL = "Compute the value in a Python cell and name it here."
_JINJA = (
    "Double braces hold Jinja, which has no comprehensions, f-strings or formats: write "
    "{{ names | join(', ') }} or {{ '%.2f' | format(x) }}, or compute the value in a Python cell. "
)
# Python's own functions that people write; Jinja's lipsum, cycler and the like would hide a missing name.
_BUILTINS = (
    *("abs", "all", "any", "bool", "enumerate", "float", "int", "len", "list", "max", "min", "repr"),
    *("reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip"),
)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+>")


def evaluate(source: str, namespace: Mapping[str, Any], where: str, words: Wording) -> str:
    """Return the text of an expression; `where` is said in the `TemplateError` of one that has none."""
    from jinja2.exceptions import SecurityError, TemplateSyntaxError, UndefinedError

    what = f"{{{{ {source} }}}} {where}"
    try:
        return _filled(source, namespace, words)
    except LimitError as error:
        help_ = f"Look at the number that it repeats or fills up to. {_CELL}"
        raise TemplateError(f"{what} failed: {error}.", remedy=help_) from None
    except (_NoTextError, GapError) as error:
        raise TemplateError(f"{what} has no text: {error}.", remedy=error.remedy) from None
    except TemplateSyntaxError as error:
        help_ = (_JINJA if _is_python(source) else "") + _told_of_columns(source, namespace)
        raise TemplateError(
            f"{what} is not an expression: {error.message}.", remedy=help_ + words.braces
        ) from None
    except UndefinedError as error:
        raise TemplateError(
            f"{what} cannot be filled: {(error.message or '').rstrip('.')}.",
            remedy=_told_of_missing(error.message or "", words) + words.braces,
        ) from None
    except SecurityError as error:
        raise TemplateError(f"{what} is not allowed: {str(error).rstrip('.')}.", remedy=_CELL) from None
    except LlamaMagicError as error:
        raise TemplateError(f"{what} failed: {error.message}", remedy=error.remedy) from error
    except Exception as error:
        raise TemplateError(f"{what} failed: {type(error).__name__}: {error}") from error


def _filled(source: str, namespace: Mapping[str, Any], words: Wording) -> str:
    """Return the text of an expression; a value called just so, as by `{{ Review Text }}`, goes first."""
    if source in namespace and not source.isidentifier():
        return _text_of(source, namespace[source], namespace, words)
    from llama_magic.bounds import spent

    expression, asked = _compiled(source, words.gaps_are_errors)
    own_first = asked | _environment(words.gaps_are_errors).globals.keys()  # the user's own `len`, too
    given = own_first & namespace.keys()
    own = {name: value for name in given if not _is_of_the_shell(value := namespace[name])}
    with spent.budget(list(own.values())) as used:
        value = expression({name: _uncalled(name, value) for name, value in own.items()})
        used.room(used.size(value))
        return _text_of(source, value, namespace, words)


def _text_of(source: str, value: Any, namespace: Mapping[str, Any], words: Wording) -> str:
    from jinja2 import Undefined

    if isinstance(value, Undefined):
        value._fail_with_undefined_error()
    if words.gaps_are_errors:
        whole(source, value, namespace)
    return _text(source, value, namespace)


def _told_of_missing(message: str, words: Wording) -> str:
    """Say what to do about a name, an attribute or an item that is not there."""
    if words.gaps_are_errors and message.startswith("'None' has no "):
        return GAP_WITHIN
    found = re.match(r"'(\w+)' is ", message)
    if found is None:
        return "Print the value to see what it holds. "
    if hasattr(builtins, found[1]):
        return f"{found[1]} is Python's; of its functions double braces know {', '.join(_BUILTINS)}. {_CELL} "
    return words.define


def _told_of_columns(source: str, namespace: Mapping[str, Any]) -> str:
    """Say how a column is written that an expression cannot name, as in `Review Text | upper`."""
    for name in namespace:
        if isinstance(name, str) and name.strip() and not name.isidentifier() and name in source:
            return f"{name!r} is no name in an expression: write it alone, {{{{ {name} }}}}, or rename it. "
    return ""


def names(source: str, known: Container[str] = ()) -> frozenset[str]:
    """Return the names of values that an expression asks for; none where it is no expression.

    What stands in `known` just as it is written is one name.
    """
    if source in known:
        return frozenset({source})
    return _compiled(source)[1] if is_expression(source) else frozenset()


def is_expression(source: str) -> bool:
    """Say whether it can be evaluated at all, whatever the values; why not, `evaluate` says."""
    from jinja2.exceptions import TemplateSyntaxError

    try:
        _compiled(source)
    except TemplateSyntaxError:
        return False
    return True


@lru_cache(maxsize=256)
def _compiled(source: str, gaps_are_errors: bool = False) -> tuple[Any, frozenset[str]]:
    """Return an expression, and the names that it asks for."""
    from jinja2 import nodes

    environment = _environment(gaps_are_errors)
    expression = environment.compile_expression(source, undefined_to_none=False)
    read = environment.parse(f"{{{{ {source} }}}}").find_all(nodes.Name)
    return expression, frozenset(node.name for node in read) - environment.globals.keys()


class _NoTextError(Exception):
    def __init__(self, message: str, remedy: str = _CELL) -> None:
        super().__init__(message)
        self.remedy = remedy


class _Uncalled:
    """A function or method: it can be called, but its own text, an address, is never what was meant."""

    def __init__(self, name: str, function: Any) -> None:
        self._name, self._function = name, function

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._function(*args, **options)

    def _refuse(self, *_: object) -> Any:
        owner = getattr(self._function, "__self__", None)
        if isinstance(owner, Mapping) and self._name in owner:
            raise _NoTextError(
                f".{self._name} is a method of the dict, and {self._name!r} is also a key",
                f"Write ['{self._name}'] for the item, or call the method: .{self._name}().",
            )
        kind = "a function" if owner is None or isinstance(owner, ModuleType) else "a method"
        raise _NoTextError(f"{self._name} is {kind} that is not called", f"Call it: {self._name}(…).")

    __str__ = __repr__ = __format__ = __iter__ = __len__ = __getitem__ = __html__ = _refuse


def _check_keys(obj: Any, name: str) -> None:
    """Refuse an attribute that is also a key of a Series, a DataFrame or another object with keys."""
    kind: Any = type(obj)
    if inspect.isroutine(found := getattr(kind, name, None)) or not inspect.isroutine(
        getattr(kind, "keys", None)
    ):
        return  # a method is refused when it is not called
    if (found is not None or name in getattr(obj, "__dict__", ())) and name in obj:
        raise _NoTextError(
            f".{name} is an attribute of the {kind.__name__}, and {name!r} is also a key",
            f"Write ['{name}'] for the item; for the attribute compute the value in a Python cell.",
        )


def _is_of_the_shell(value: Any) -> bool:
    """Say whether IPython put it into the namespace: `open`, `exit`, `get_ipython` are no text."""
    if inspect.isroutine(value):
        written_in = getattr(value, "__globals__", {}).get("__name__", "")
    else:
        written_in = type(value).__module__
    return str(written_in).startswith("IPython.")


def _uncalled(name: str, value: Any) -> Any:
    return _Uncalled(name, value) if inspect.isroutine(value) else value


def _of(value: Any) -> Any:
    return value._function if isinstance(value, _Uncalled) else value


def _text(source: str, value: Any, namespace: Mapping[str, Any]) -> str:
    """Return `str(value)`, unless that is the name of an object and not what it holds."""
    if isinstance(value, type):
        raise _NoTextError(
            f"it is the class {value.__name__}",
            f"{{{{ schema({value.__name__}) }}}} is its JSON schema; for a value make one in a Python cell.",
        )
    if isinstance(value, ModuleType):
        raise _NoTextError(f"it is the module {value.__name__}")
    if isinstance(value, (bytes, bytearray)):
        raise _NoTextError("it is bytes", f"Say which text they are: {{{{ {source}.decode('utf-8') }}}}.")
    if isinstance(value, (KeysView, ValuesView, ItemsView)):
        value = list(value)  # of {{ d.items() }} what it holds, and not the name of Python's view
    text = str(value)
    inherited: Any = type(value).__str__
    if inherited is object.__str__ and text.startswith("<") and text.endswith(">"):  # an open file, a figure
        raise _NoTextError(f"it is an object that has no text of its own: {text[:60]}")
    own = isinstance(value, str) and (source.isidentifier() or source in namespace)
    if not own and (found := _ADDRESS.search(text)):
        if isinstance(value, str) and any(isinstance(v, str) and found[0] in v for v in namespace.values()):
            return text  # a text of the user's speaks of an object
        shown = text[max(0, found.start() - 60) : found.end()]
        raise _NoTextError(f"it holds an object that has no text of its own: {shown}")
    return text


def _is_python(source: str) -> bool:
    """Say whether this is Python, perhaps with the format of an f-string behind it."""
    for form in (source, re.sub(r"(![rsa])?(:[^{}\[\]()]*)?$", "", source)):
        try:
            ast.parse(form.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return True
    return False


def _schema(spec: Any) -> str:
    """`{{ schema(X) }}`: the JSON schema of a class, type or short form, for the model to read."""
    from llama_magic import structured  # pydantic and jsonschema, which other cells need not wait for

    return structured.schema_text(structured.compile(spec).schema)


@cache
def _environment(gaps_are_errors: bool) -> Any:
    from jinja2.sandbox import SandboxedEnvironment

    # Below is Jinja, which a cell without `{{` need not wait for.
    from llama_magic.model import missing, proportion

    class Environment(proportion.Measured, SandboxedEnvironment):
        """Jinja's sandbox, in which a name that is missing or a method that is not called is no value."""

        def _generate(self, source: Any, *args: Any, **options: Any) -> str:
            return super()._generate(proportion.measured(missing.demand(source)), *args, **options)

        def getattr(self, obj: Any, attribute: str) -> Any:
            _check_keys(obj, attribute)
            return _uncalled(attribute, super().getattr(_of(obj), attribute))

        def getitem(self, obj: Any, argument: Any) -> Any:
            found = super().getitem(obj[argument] if isinstance(obj, _Uncalled) else obj, argument)
            return _uncalled(argument, found) if isinstance(argument, str) else found

        def is_safe_callable(self, obj: Any) -> bool:
            return super().is_safe_callable(_of(obj))

        def call(self, context: Any, obj: Any, /, *args: Any, **options: Any) -> Any:
            return proportion.called(_of(obj), partial(super().call, context, obj), args, options)

    environment = Environment(undefined=missing.Missing)
    proportion.limit(environment)
    kept = {missing.LOOK: missing.demanded, missing.WRITE: written if gaps_are_errors else left_alone}
    vars(environment).update(kept)
    environment.globals = {name: environment.globals[name] for name in ("range", "dict")}
    environment.globals |= {name: _uncalled(name, getattr(builtins, name)) for name in _BUILTINS}
    tests: dict[str, Any] = dict(environment.tests)
    environment.tests = {name: missing.of_what_is_there(name, test) for name, test in tests.items()}
    environment.policies["json.dumps_kwargs"] = {"sort_keys": True, "default": missing.without_json}
    environment.globals["schema"] = _schema
    return environment
