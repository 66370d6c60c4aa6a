"""Compiles and runs a template in the sandbox; all that can go wrong there becomes a TemplateError."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import jinja2
import jinja2.meta

from llama_magic.doors import option
from llama_magic.errors import TemplateError

from . import _sandbox

_REMEDY = f"Choose another: {option('formatter', 'NAME')}, or a file, PATH.jinja."
# "{{ .System }}", "{{ if .System }}", "{{- range $i, $m := .Messages }}": no Jinja begins so, though some of
# these compile. Where one does not, words that may also be names count.
_GO_ONLY = re.compile(
    r"\{\{-?\s*(?:(?:if|with|range|else if)\s+(?:\(|not |and |or |eq |ne |gt )*)?[.$][A-Za-z]"
)
_GO = re.compile(r"\{\{-?\s*(?:(?:if|with|range|else if|else|end|block|define|template)\b|[.$][A-Za-z])")
# "{{#each messages}}", "{{/if}}", "{{> part}}", "{{{content}}}": no Jinja that compiles holds these.
_HANDLEBARS = re.compile(r"\{\{~?\s*(?:[#/^>]\s*[A-Za-z*]|!|&|else\b|\{\s*[\w.]+\s*\}\}\})")


@lru_cache(maxsize=64)
def compiled(source: str) -> jinja2.Template:
    """Compile a template, in the sandbox. Raises TemplateError."""
    if len(source) > _sandbox.MAX_SOURCE:
        raise TemplateError(
            f"The chat template has {len(source):,} characters; {_sandbox.MAX_SOURCE:,} are the limit.",
            remedy=_REMEDY,
        )
    if found := _GO_ONLY.search(source):
        raise _foreign(found, _OLLAMA)
    try:
        return _sandbox.environment.from_string(source)
    except jinja2.TemplateSyntaxError as error:
        if found := _HANDLEBARS.search(source):
            raise _foreign(found, "the language of Handlebars and Mustache") from error
        if found := _GO.search(source):
            raise _foreign(found, _OLLAMA) from error
        raise TemplateError(
            f"The chat template does not compile: line {error.lineno}: {error.message}", remedy=_REMEDY
        ) from error
    except Exception as error:  # a stranger's program: the compiler may fail in any way (depth, memory)
        raise TemplateError(
            f"The chat template does not compile: {type(error).__name__}: {error}", remedy=_REMEDY
        ) from error


@lru_cache(maxsize=64)
def names_and_texts(source: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names that a template reads from outside, and all that stands in it between quotes.

    Among these are the roles that it asks for.
    """
    tree = _sandbox.environment.parse(source)
    texts = (node.value for node in tree.find_all(jinja2.nodes.Const) if isinstance(node.value, str))
    return frozenset(jinja2.meta.find_undeclared_variables(tree)), frozenset(texts)


_OLLAMA = "Go's template language, as Ollama's are"


def _foreign(found: re.Match[str], language: str) -> TemplateError:
    line = found.string.count("\n", 0, found.start()) + 1
    shown = found.string[found.start() :].split("}}")[0][:60] + "}}"
    return TemplateError(
        f"The chat template is written in {language}, not in Jinja: {shown} stands in line {line}.",
        remedy=_REMEDY,
    )


def reads_nothing(source: str) -> TemplateError:
    """Return what to raise for a template that writes the same text whatever the messages are."""
    found = "never reads messages, so it would leave all of them out" if source.strip() else "is empty"
    return TemplateError(
        f"The chat template {found}; expected Jinja such as "
        "{% for message in messages %}{{ message.role }}: {{ message.content }}{% endfor %}.",
        remedy=_REMEDY,
    )


def run(template: jinja2.Template, variables: dict[str, Any], hidden: dict[str, str]) -> str:
    """Run a template in the sandbox; whatever goes wrong is a TemplateError that says so."""
    try:
        return _sandbox.render(template, variables, hidden)
    except _sandbox.TemplateRefusal as error:
        raise TemplateError(
            f"The chat template refuses this conversation: {error}",
            remedy=f"Change the conversation as it says, or choose another {option('formatter')}.",
        ) from error
    except _sandbox.LimitError as error:
        raise TemplateError(f"The chat template was stopped: {error}.", remedy=_REMEDY) from error
    except _sandbox.SecurityError as error:
        raise TemplateError(
            f"The chat template tried to leave its sandbox: {error}", remedy=_REMEDY
        ) from error
    except _sandbox.UndefinedError as error:
        raise TemplateError(
            f"The chat template needs something that was not given: {error}.",
            remedy=f"Give it as a template variable, or choose another {option('formatter')}.",
        ) from error
    except Exception as error:  # a stranger's program may fail in any way
        raise TemplateError(
            f"The chat template failed: {type(error).__name__}: {str(error)[:500]}", remedy=_REMEDY
        ) from error
