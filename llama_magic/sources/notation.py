"""Decide what kind of source a text is.

The rules, in order; the first that applies wins:

1. None: the demo model. A `PathLike`: a path.
2. An existing file (`~` and `$VAR` expanded, relative to the notebook): a path.
3. An alias.
4. `http://`, `https://`: a URL; an address on the hub is the repository it shows.
5. `hf:owner/repo…`: the hub.
6. Something that is written as a path (`./`, `../`, `/`, `~`, `$`, a backslash, a drive letter,
   an ending `.gguf`), or an existing folder: a path.
7. `owner/repo[:QUANT or file.gguf][@revision]`: the hub.

Anything else is an error that names near aliases.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from llama_magic.errors import InputTypeError, SourceError
from llama_magic.sources.meanings import DEMO_ALIAS, Meaning, aliases, own_aliases
from llama_magic.sources.redaction import redact
from llama_magic.sources.types import ParsedSource
from llama_magic.words.files import expanded
from llama_magic.words.given import quoted
from llama_magic.words.names import nearest

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/")
_REPO = re.compile(r"^(?P<repo>[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*)(?P<rest>.*)$", re.DOTALL)
_HUB_PAGE = re.compile(
    r"^/(?P<repo>[\w.-]+/[\w.-]+)(?:/(?:blob|resolve|raw|tree)/(?P<revision>[^/]+)(?:/(?P<file>.+))?)?/?$"
)
_QUANT_SPEC = re.compile(r"[A-Za-z0-9][\w.-]*")
_WRITTEN_AS_PATH = re.compile(r"^(?:[./\\~$%]|[A-Za-z]:[\\/]?)|\\|\.gguf$", re.IGNORECASE)
_HUB_FOLDERS = frozenset({"datasets", "spaces", "api", "docs", "collections", "papers", "buckets"})


def meaning(source: Any) -> Meaning:
    """Return what a source stands for in the end, and the options of the aliases on the way there.

    What an outer alias says counts. A source that is no alias, or an existing file, stands for itself.
    """
    options: dict[str, Any] = {}
    seen: set[str] = set()
    own = {name: to for name, to in own_aliases().items() if not hidden(name)}
    while isinstance(source, str) and source in own and source not in seen:
        seen.add(source)
        source, more = own[source]
        options = {**more, **options}
    return Meaning(source, options)


def hidden(name: str) -> bool:
    """Return whether a file of that name stands where an alias would be looked for: the file is taken."""
    path = _existing(name, None)
    return path is not None and not path.is_dir()


def parse(source: Any = None, *, base: Path | None = None) -> ParsedSource:
    """Return what kind of source this is and its pieces. Looks at the disk, never at the network.

    `base` is the folder that relative paths start from (default: the working folder).
    Raises `SourceError` where no rule of this module applies, `InputTypeError` for other types.
    """
    if source is None:
        return ParsedSource("demo", DEMO_ALIAS)
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
        if isinstance(source, str):
            return ParsedSource("path", source, path=_absolute(source, base))
    if not isinstance(source, str):
        raise InputTypeError(f"A model source is a str or a path, not {type(source).__name__}.")
    text = source.strip()
    if not text:
        raise SourceError(
            "The model source is empty.",
            remedy="Name an alias (smollm2), a path, a URL or hf:owner/repo, or nothing at all.",
        )
    return _parse_text(text, base, seen=())


def _parse_text(text: str, base: Path | None, seen: tuple[str, ...]) -> ParsedSource:
    path = _existing(text, base)
    if path is not None and not path.is_dir():
        return ParsedSource("path", text, path=path)
    if text in own_aliases() or text == DEMO_ALIAS:
        return _follow_alias(text, base, seen)
    if text.startswith("hf:"):
        return _parse_hub(text[3:].lstrip("/"), text)
    if (match := _SCHEME.match(text)) is not None:
        return _parse_url(text, match[1].lower())
    unquoted = _without_quotes(text)
    if unquoted is not None:
        return _parse_text(unquoted, base, seen)
    if _WRITTEN_AS_PATH.search(text) and _hub_file(text) is None:
        return ParsedSource("path", text, path=_absolute(text, base))
    if path is not None:
        return ParsedSource("path", text, path=path)
    if _REPO.match(text):
        return _parse_hub(text, text)
    raise _unknown(text)


def _follow_alias(name: str, base: Path | None, seen: tuple[str, ...]) -> ParsedSource:
    if name not in own_aliases():
        return ParsedSource("demo", name, alias=name)
    if name in seen:
        raise SourceError(
            f"The aliases {' -> '.join((*seen, name))} lead in a circle.",
            remedy="Let one of them stand for a path, a URL or hf:owner/repo.",
        )
    found = _parse_text(own_aliases()[name].source, base, (*seen, name))
    return ParsedSource(**{**vars(found), "alias": name})


def _hub_file(text: str) -> str | None:
    """Return the `file.gguf` of an `owner/repo:file.gguf`, which ends like a path and is none."""
    match = _REPO.match(text)
    return match["rest"][1:] if match and match["rest"].startswith(":") else None


def _parse_hub(spec: str, text: str) -> ParsedSource:
    match = _REPO.match(spec)
    if match is None or (match["rest"] and match["rest"][0] not in ":@/"):
        raise SourceError(
            f"{redact(text)!r} does not name a repository.",
            remedy="Write hf:owner/repo[:QUANT or file.gguf][@revision].",
        )
    what, revision = match["rest"], None
    if "@" in what:
        what, _, revision = what.rpartition("@")
        revision = check_revision(revision)
    what = what[1:]  # without its ":" or "/"
    file = check_repo_file(what) if what.lower().endswith(".gguf") or "/" in what else None
    quant = what if what and file is None else None
    if quant and not _QUANT_SPEC.fullmatch(quant):
        raise SourceError(
            f"{redact(quant)!r} is neither a quantisation nor a file of {match['repo']}.",
            remedy="Write a quantisation such as Q4_K_M, or the name of a .gguf file.",
        )
    return ParsedSource(
        "hub", redact(text), repo=match["repo"], file=file, quant=quant, revision=revision or None
    )


def check_revision(revision: str) -> str:
    """Return a branch, tag or commit; raise `SourceError` for one that could leave the cache folder."""
    if not isinstance(revision, str):
        raise InputTypeError(f"The revision is {quoted(revision)}; expected a branch, tag or commit as text.")
    if not revision or not _is_inside(revision) or len(revision) > 250:
        raise SourceError(
            f"{redact(revision)!r} is not a revision.",
            remedy="Name a branch, a tag or a commit of the repository.",
        )
    return revision


def check_repo_file(name: str) -> str:
    """Return a file name of a repository; raise `SourceError` for one that could leave the cache folder."""
    if not _is_inside(name):
        raise SourceError(
            f"{redact(name)!r} leads outside the repository, so nothing was requested.",
            remedy="Name a file inside the repository, such as model-Q4_K_M.gguf.",
        )
    return name


def _is_inside(name: str) -> bool:
    parts = unquote(name).split("/")
    odd = any(ord(char) < 32 or char in '\\:*?"<>|' for char in unquote(name))
    return not odd and all(part not in ("", ".", "..") for part in parts)


def hub_endpoint() -> str:
    """Return the hub's address, `HF_ENDPOINT` read at call time."""
    from huggingface_hub import constants

    return (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")


def _parse_url(text: str, scheme: str) -> ParsedSource:
    shown = redact(text)
    if scheme not in ("http", "https"):
        own = (
            "Give the path itself."
            if scheme == "file"
            else "Write an https:// address, a path or hf:owner/repo."
        )
        raise SourceError(f"{shown}: addresses with {scheme}: are not opened.", remedy=own)
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as err:
        raise SourceError(
            f"{shown} is not a web address: {err}.", remedy="Write https://host/file.gguf."
        ) from None
    if not host:
        raise SourceError(f"{shown} names no host.", remedy="Write https://host/file.gguf.")
    if (
        _is_hub(parts)
        and (page := _HUB_PAGE.match(parts.path))
        and page["repo"].split("/")[0] not in _HUB_FOLDERS
    ):
        file = check_repo_file(unquote(page["file"])) if page["file"] and "/tree/" not in parts.path else None
        revision = check_revision(unquote(page["revision"])) if page["revision"] else None
        return ParsedSource("hub", shown, repo=page["repo"], file=file, revision=revision)
    return ParsedSource("url", shown, url=text.partition("#")[0])


def _is_hub(parts: SplitResult) -> bool:
    from huggingface_hub import constants

    if parts.netloc.rpartition("@")[2].lower() == urlsplit(hub_endpoint()).netloc.lower():
        return True
    known: frozenset[str] = getattr(constants, "HF_URL_HOSTS", frozenset())
    return parts.port is None and parts.hostname in known


def _existing(text: str, base: Path | None) -> Path | None:
    for candidate in dict.fromkeys((text, expanded(text))):
        path = _join(candidate, base)
        if path is not None and os.path.lexists(path):
            return path
    return None


def _absolute(text: str, base: Path | None) -> Path:
    path = _existing(text, base) or _join(expanded(text), base)
    if path is not None:
        return path
    if "\0" not in text:
        raise SourceError(
            f"{text!r} stands for nothing: the folder that this process works in is gone.",
            remedy="Give a path from the root on, or go to a folder that exists (%cd).",
        )
    raise SourceError(f"{text!r} is not a path: it holds a character that no file name can have.")


def _join(text: str, base: Path | None) -> Path | None:
    """Return a path from the root on; None for what no file can be called, and in a folder that is gone."""
    if "\0" in text:
        return None
    try:
        return Path(os.path.abspath(os.path.join(base or "", text)))
    except FileNotFoundError:  # somebody removed the working folder
        return None


def _without_quotes(text: str) -> str | None:
    if len(text) > 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return None


def _unknown(text: str) -> SourceError:
    shown = redact(text)
    near = nearest(text.lower(), aliases(), n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    return SourceError(
        f"{shown!r} is no file here, no alias, no URL and no hub repository.",
        remedy=f"{hint}Aliases: {', '.join(sorted(aliases()))}. Or write a path, https://… or hf:owner/repo.",
    )
