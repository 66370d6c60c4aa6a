"""What `%llama VERB` does: one call on the session, the model or the sources, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from llama_magic import display, sources
from llama_magic.errors import InputTypeError, OptionError
from llama_magic.magics import _chats, _records, verify
from llama_magic.magics._actions import check_action
from llama_magic.magics._kernel import Kernel
from llama_magic.magics._parse import LineCommand
from llama_magic.request.sampling import Sampling
from llama_magic.request.stages import PARAMETERS
from llama_magic.words import amounts
from llama_magic.words.names import hint
from llama_magic.words.shown import Shown
from llama_magic.words.tables import Table


def run_verb(kernel: Kernel, command: LineCommand) -> Any:
    """Run one `%llama` line and return its result, or None where `-o` bound it; then it is shown here."""
    options = dict(command.options)
    name = options.pop("out", None)
    result = _RUNNERS[command.verb](kernel, replace(command, options=MappingProxyType(options)))
    if name is None or result is None:
        return result
    kernel.bind(name, result)
    if not kernel.was_shown(result) and not command.silent:
        if isinstance(result, Shown):
            display.show(result, kernel.shell)
        else:
            print(repr(result))
    return None


def _load(kernel: Kernel, command: LineCommand) -> Any:
    from llama_magic.display.views.model.model import card  # weight: numpy and the engine

    source = command.words[0] if command.words else kernel.settings.model or None
    options = kernel.load_defaults(source) | dict(command.options)
    if options.get("dry_run"):
        return kernel.session.loader(source, **options)
    with display.LoadProgress(kernel.shell) as progress:
        model = kernel.session.load(source, progress=progress, **options)
        progress.done(card(model))  # takes the place of the progress bar, so Out[n] need not show it again
    return kernel.mark_shown(model)


def _pull(kernel: Kernel, command: LineCommand) -> Any:
    with display.LoadProgress(kernel.shell) as progress:
        return sources.resolve(command.words[0], progress=progress, **command.options).path


def _connect(kernel: Kernel, command: LineCommand) -> Any:
    from llama_magic.magics._connect import connect_verb  # weight: httpx and the server kinds

    return connect_verb(kernel, command)


def _alias(kernel: Kernel, command: LineCommand) -> Any:
    from llama_magic.magics._aliases import alias_verb  # weight: what checks load options

    return alias_verb(kernel, command)


def _use(kernel: Kernel, command: LineCommand) -> Any:
    return kernel.session.use(command.words[0])


def _models(kernel: Kernel, command: LineCommand) -> Any:
    session = kernel.session
    session.refresh()
    rows: list[tuple[Any, ...]] = []
    for name, model in session.models.items():
        state = "current" if name == session.current_name else "loaded"
        here = (amounts.size(model.size_bytes), str(model.path)) if model.has_file else (None, None)
        rows.append((name, state, here[0], model.window, here[1]))
    for name, to in sources.own_aliases().items():
        if name not in session.models:
            rows.append((name, "alias, not loaded", None, None, sources.redact(to.source)))
    loaded = {row[-1] for row in rows}
    for found in sources.on_disk():
        if str(found.path) not in loaded:
            state = f"on disk, {found.helps_as}" if found.helps_as else "on disk"
            rows.append((found.name, state, amounts.size(found.size), None, str(found.path)))
    return Table(
        ("name", "state", "size", "window", "path"),
        tuple(rows),
        empty="No model is loaded or on disk. %llama load",
    )


def _unload(kernel: Kernel, command: LineCommand) -> None:
    every = bool(command.options.get("all"))
    if every and command.words:
        raise OptionError("%llama unload takes a name or --all, not both.")
    name = command.words[0] if command.words else None
    kernel.mark_shown(None)
    gone = kernel.session.unload(name, every=every, forget=lambda model: _forget(kernel.shell, model))
    print(f"Unloaded {', '.join(gone)}." if gone else "No model was loaded.")


def _forget(shell: Any, model: Any) -> None:
    """Drop a model, and handles that hold it, from what IPython keeps: `Out`, `_1`, `_`, `__`, `___`."""

    def refers(value: Any) -> bool:
        held = (value, getattr(value, "model", None), getattr(value, "_model", None))
        return any(item is model for item in held)

    results = shell.user_ns.get("_oh", {})
    for number in [number for number, value in results.items() if refers(value)]:
        del results[number]
    for names in (shell.user_ns, shell.user_ns_hidden):  # IPython keeps each of its own names twice
        for name in [name for name in names if name.strip("_").isdecimal() or not name.strip("_")]:
            if refers(names[name]):
                names[name] = ""
    for name in ("_", "__", "___"):
        if refers(getattr(shell.displayhook, name, None)):
            setattr(shell.displayhook, name, "")


def _inspect(kernel: Kernel, command: LineCommand) -> Any:
    from llama_magic.magics._inspect import inspect_verb  # weight: numpy

    return inspect_verb(kernel, command)


def _tokens(kernel: Kernel, command: LineCommand) -> Any:
    model = kernel.get_model(command.options.get("model"))
    if command.options.get("live"):
        return display.live_tokens(model, command.words[0])
    return model.token_strip(command.words[0])


def _sampler(kernel: Kernel, command: LineCommand) -> Any:
    session = kernel.session
    base = session.model().sampling if session.current_name is not None else Sampling()
    changes: dict[str, Any] = {}
    words = command.words
    if words and words[0] == "reset":
        if len(words) > 1:
            raise OptionError(f"%llama sampler reset takes nothing more, and got {words[1]!r}.")
        session.sampler.clear()
        words = ()
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            near = hint(word, ("reset", *(f"{name}=…" for name in PARAMETERS)))
            raise OptionError(
                f"%llama sampler does not take {word!r}; expected name=value, or reset.{near}",
                remedy="For example: %llama sampler temperature=0.2 top_k=20.",
            )
        changes[name.replace("-", "_")] = _sampler_value(base, name.replace("-", "_"), text, kernel.namespace)
    chain = base.replace(**(kernel.sampling_defaults() | changes))
    session.sampler.update(changes)
    return chain


def _sampler_value(base: Any, name: str, text: str, namespace: Mapping[str, Any]) -> Any:
    """Read a parameter in the type that it has now; `Sampling.replace` refuses an unknown name."""
    now = getattr(base, name, None)
    if isinstance(now, (int, float)) and text.isidentifier() and text in namespace:
        return namespace[text]
    try:
        if isinstance(now, int):
            return int(text)
        if isinstance(now, float):
            return float(text)
        if name == "logit_bias":
            return tuple((int(i), float(b)) for i, b in (pair.split(":") for pair in text.split(",")))
    except ValueError:
        kind = {int: "a whole number", float: "a number"}.get(type(now), "ID:BIAS,ID:BIAS")
        raise InputTypeError(f"{name} is {text!r}; expected {kind}.") from None
    return text


def _kv(kernel: Kernel, command: LineCommand) -> Any:
    model = kernel.get_model(command.options.get("model"))
    if not command.words:
        return model.kv
    action, *rest = command.words
    check_action("kv", action, rest)
    made = getattr(model, f"kv_{action}")(*rest)
    if action == "save":
        from llama_magic.microscope.savefile import described  # weight: numpy

        print(f"Saved {described(made)}.")
    return model.kv


def _pad(kernel: Kernel, command: LineCommand) -> Any:
    defaults = kernel.call_defaults() | kernel.sampling_defaults()
    return display.pad(kernel.get_model(command.options.get("model")), **defaults)


def _doctor(kernel: Kernel, command: LineCommand) -> Any:
    from llama_magic.magics.doctor import examine  # weight: numpy

    return examine(kernel)


def _stats(kernel: Kernel, command: LineCommand) -> Any:
    stats = kernel.get_model(command.options.get("model")).stats
    if command.words == ("reset",):
        stats.reset()
    elif command.words:
        near = hint(command.words[0], ("reset",))
        raise OptionError(f"%llama stats takes reset or nothing, and got {command.words[0]!r}.{near}")
    return stats


def _bench(kernel: Kernel, command: LineCommand) -> Any:
    from llama_magic.experiments.throughput import bench  # weight: experiments

    model = kernel.get_model(*command.words)
    with display.LoadProgress(kernel.shell, delay=0) as progress:
        found = bench(model, progress=progress, **command.options)
        progress.done(found)  # takes the place of the progress bar, so Out[n] need not show it again
    return kernel.mark_shown(found)


def _serve(kernel: Kernel, command: LineCommand) -> Any:
    from llama_magic.magics.serve import serve_verb  # weight: what serves

    return serve_verb(kernel, command)


_RUNNERS: dict[str, Callable[[Kernel, LineCommand], Any]] = {
    "load": _load,
    "pull": _pull,
    "connect": _connect,
    "alias": _alias,
    "use": _use,
    "models": _models,
    "unload": _unload,
    "inspect": _inspect,
    "tokens": _tokens,
    "sampler": _sampler,
    "kv": _kv,
    "chats": _chats.chats,
    "chat": _chats.chat,
    "pad": _pad,
    "pen": _records.pen,
    "history": _records.history,
    "record": _records.record,
    "replay": _records.replay,
    "rerun": _records.rerun,
    "diff": _records.diff,
    "verify": verify.verify_verb,
    "stats": _stats,
    "bench": _bench,
    "serve": _serve,
    "doctor": _doctor,
}
