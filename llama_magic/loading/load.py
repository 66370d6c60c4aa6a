"""`load`: from what a user names to a `Model` in memory.

resolve -> read and judge the header -> estimate the fit -> prove the file in a child process
-> map the weights -> start the engine. The same file and options give the same object; other
context sizes share the weights.
"""

from __future__ import annotations

import os
import pkgutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from llama_magic import environment, fit, sources
from llama_magic.errors import OptionError, shown_briefly
from llama_magic.loading import hooks
from llama_magic.loading.keywords import LoadKeywords
from llama_magic.model.model import Model
from llama_magic.words.given import flag
from llama_magic.words.progress import ProgressCallback, told
from llama_magic.words.signature import checked, spelled_out

if TYPE_CHECKING:
    from llama_magic.loading.dry import DryRun


# Where else tokens may come from, by what a source begins with (`SCHEME:…`): a new place is a line here.
# What is named there (`module:function`, imported when asked for) is called with the source and the
# keywords, and makes a `Model` over a `Backend` of its own.
OPENERS = {
    "record": "llama_magic.record.replay:open_recorded",
    "server": "llama_magic.remote.connection:open_server",
}


@overload
def load(
    source: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    dry_run: Literal[False] = False,
    progress: ProgressCallback | None = None,
    sha256: str | None = None,
    revision: str | None = None,
    offline: bool | None = None,
    **options: Unpack[LoadKeywords],
) -> Model: ...
@overload
def load(
    source: str | os.PathLike[str] | None = None,
    *,
    dry_run: Literal[True],
    name: str | None = None,
    progress: ProgressCallback | None = None,
    sha256: str | None = None,
    revision: str | None = None,
    offline: bool | None = None,
    **options: Unpack[LoadKeywords],
) -> DryRun: ...
@spelled_out(LoadKeywords, {}, "None")
@checked
@shown_briefly("The load")
def load(
    source: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
    sha256: str | None = None,
    revision: str | None = None,
    offline: bool | None = None,
    **options: Any,
) -> Any:
    """Load a model and return it; a second call for the same file and options returns the same object.

    `source` is nothing (the current model of the session; where there is none, what the environment
    names, `LLAMA_MAGIC_MODEL` or `LLAMA_MAGIC_SERVER_URL`; else the demo model), an alias, a path, a URL
    or a hub name. With nothing at all the current model itself is returned, with options its file is
    loaded with them. Options are those of `%llama load`: `ctx` (tokens; 0: as trained, capped by what
    fits), `gpu_layers`, `threads`, `batch`, `kv_type`, `flash_attn`, `mmap`, `mlock`, `rope_*`,
    `yarn_*`, `profile`, `formatter`, `lora`, `draft` (a small model of the same tokens that guesses
    what comes, where that pays). With `dry_run` returns a `DryRun`.

    Raises `SourceError`, `InvalidGGUFError`, `FitError`, `BackendError`, `OptionError`.
    """
    for what, value in (("name", name), ("sha256", sha256), ("revision", revision)):
        if value is not None and (not isinstance(value, str) or not value.strip() or len(value) > 200):
            raise OptionError(f"{what} is {str(value)[:40]!r}; expected a text.")
    dry_run = flag("dry_run", dry_run)
    here = hooks.current_model() if source is None and revision is None else None
    if here is None and source is None:
        source = hooks.usual_source()
    of_files = {"sha256": sha256, "revision": revision, "offline": offline}
    given: dict[str, Any] = {**of_files, **options}
    meant, of_alias = sources.meaning(source)
    options = {**of_alias, **{key: value for key, value in given.items() if value is not None}}
    of_files = {key: options.pop(key, None) for key in of_files}
    scheme = meant.partition(":")[0] if isinstance(meant, str) else ""
    opener = hooks.opener()
    if opener is not None and scheme != "record" and not dry_run:
        return opener(source, name=name, **options)
    with told(progress) as tell:
        if scheme in OPENERS:
            called = name or (str(source) if source != meant else None)
            of_files["dry_run"] = dry_run or None
            return _opened(scheme, str(meant), of_files, name=called, progress=tell, **options)
        return _load_file(source, here, name, of_files, options, tell, dry_run=dry_run)


def _load_file(
    source: Any,
    here: Model | None,
    name: str | None,
    of_files: dict[str, Any],
    options: dict[str, Any],
    progress: ProgressCallback | None,
    *,
    dry_run: bool,
) -> Any:
    """Load a model file, that of the current model `here` where there is one and nothing is named."""
    from llama_magic.loading import draft, dry  # for weight: llama.cpp
    from llama_magic.loading.opening import open_file
    from llama_magic.loading.options import LoadOptions

    wanted = LoadOptions.read(options)
    if here is not None and wanted == LoadOptions() and name is of_files["sha256"] is None and not dry_run:
        return here
    wanted = wanted.over(environment.read().load_options)
    if here is not None and here.has_file:
        source = here.path
    began = time.perf_counter()
    if dry_run:
        return dry.dry_run(source, wanted, of_files["revision"], of_files["offline"])
    machine = fit.machine()
    if wanted.draft is not None:
        meant, _ = sources.meaning(wanted.draft)
        guessing = sources.resolve(meant, progress=progress, offline=of_files["offline"])
        wanted = replace(wanted, draft=draft.read(guessing))
    found = sources.resolve(
        source, progress=progress, fits=lambda size: size < machine.ram_available, **of_files
    )
    return open_file(found, wanted, name, progress or (lambda _progress: None), began, machine)


def _opened(scheme: str, source: str, of_files: dict[str, Any], **options: Any) -> Model:
    """Return the model of a source that is no file; raises `OptionError` for what only a file has."""
    for what, value in of_files.items():
        if value:
            raise OptionError(
                f"{what} is for model files, and {source} is none.", remedy="Leave it out to load from there."
            )
    opened: Model = pkgutil.resolve_name(OPENERS[scheme])(source, **options)
    return opened
