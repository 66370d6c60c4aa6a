"""What one kernel holds: models by name, conversations, the history of generations, defaults.

There is one `Session` for each IPython shell (and one for a Python without a shell); it lives
as long as the shell, so reloading the extension loses nothing. Nothing here decodes or draws.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from llama_magic import sources
from llama_magic.doors import verb
from llama_magic.errors import LlamaMagicError, OptionError
from llama_magic.loading import hooks
from llama_magic.loading.hooks import loaded
from llama_magic.model.journal import journal
from llama_magic.model.results import Completion
from llama_magic.model.standing_in import stand_in
from llama_magic.record.record import Record, open_record
from llama_magic.record.recording import Recording
from llama_magic.record.replay import Replay
from llama_magic.session.chat import Chat
from llama_magic.session.history import History
from llama_magic.weakly import WeakTable
from llama_magic.words.names import hint, likeliest

if TYPE_CHECKING:
    from llama_magic.model.model import Model

Loader = Callable[..., Any]


class Session:
    """The models, chats, history and sampler settings of one kernel.

    `loader` is called as `loader(source, name=…, **options)` and gives a model; it is
    `llama_magic.loading.load.load` unless it is replaced.
    """

    def __init__(self, loader: Loader | None = None) -> None:
        self.loader: Loader = loader or _default_loader
        self.models: dict[str, Model] = {}
        self.current_name: str | None = None
        self.chats: dict[str, Chat] = {}
        self.history = History()  # of every generation here, by a cell or in Python, as they ended
        journal.listen(self.history.hear)
        self.recording: Recording | None = None
        self.history.keeps_as = lambda: self.recording.tag if self.recording else None
        self.replay: Replay | None = None
        self.sampler: dict[str, Any] = {}  # what `%llama sampler` set, over %config's values

    # --- models ---

    def load(self, source: str | None = None, *, name: str | None = None, **options: Any) -> Model:
        """Load a model through the loader, keep it under its name and make it current."""
        model = (hooks.opener() or self.loader)(source, name=name, **options)
        if name is None and source in sources.own_aliases() and source not in self.models:
            name = source  # one that is loaded already has another name, and is asked by this one too
        self.keep(model, name)
        return model

    def model(self, name: str | None = None, **load_options: Any) -> Model:
        """Return the named model, or the current one; what is not loaded yet is loaded.

        A name that is no loaded model is taken as a source, and the current model stays current.
        """
        self.refresh()
        if name is None:
            if self.current_name is None:
                return self.load(None, **load_options)
            return self.models[self.current_name]
        if name in self.models:
            return self.models[name]
        before = self.current_name
        try:
            model = self.load(name, **load_options)
        except LlamaMagicError as error:
            if near := likeliest(name, self.models):
                error.add(f"Did you mean the loaded model {near}?")
            raise
        self.current_name = before or self.current_name
        return model

    def use(self, name: str) -> Model:
        """Make a loaded model current."""
        self.refresh()
        self._check_loaded(name)
        self.current_name = name
        return self.models[name]

    def unload(
        self, name: str | None = None, *, every: bool = False, forget: Callable[[Model], None] | None = None
    ) -> list[str]:
        """Close models and return the names that are gone. `name` None is the current model.

        `forget` is called with each closed model, to drop what the host still holds of it.
        """
        self.refresh()
        if every:
            targets = list(dict.fromkeys(self.models))
        else:
            if name is None and self.current_name is None:
                raise OptionError("No model is loaded, so there is none to unload.")
            targets = [self._check_loaded(name or str(self.current_name))]
        gone = {id(self.models[target]): self.models[target] for target in targets}
        for model in gone.values():
            model.close()
            if forget is not None:
                forget(model)
        names = [n for n, model in self.models.items() if id(model) in gone]
        self._forget_closed(names)
        gone.clear()
        gc.collect()  # views and results may hold the context in a cycle
        return names

    def keep(self, model: Model, name: str | None = None) -> str:
        """Know a model that was made elsewhere, under `name` or its own, and make it current."""
        self.current_name = self._keep(model, name)
        return self.current_name

    def _keep(self, model: Model, wanted: str | None) -> str:
        self._forget_closed()
        if wanted is None:
            for name, other in self.models.items():
                if other is model:
                    return name
        name = base = wanted or str(model.name)
        number = 2
        while self.models.get(name, model) is not model:
            if wanted is not None:
                raise OptionError(
                    f"The name {wanted!r} belongs to another loaded model.",
                    remedy=f"Choose another name, or free it first: {verb('unload', wanted)}.",
                )
            name, number = f"{base}-{number}", number + 1
        self.models[name] = model
        return name

    def refresh(self) -> None:
        """Forget models that were closed, and know those that Python code loaded."""
        self._forget_closed()
        for model in loaded():
            if not any(model is known for known in self.models.values()):
                name = self._keep(model, None)
                self.current_name = self.current_name or name

    def _forget_closed(self, names: Sequence[str] = ()) -> None:
        for name in [n for n, model in self.models.items() if n in names or model.closed]:
            del self.models[name]
        if self.current_name is not None and self.current_name not in self.models:
            self.current_name = next(reversed(self.models), None)

    def _check_loaded(self, name: str) -> str:
        if name in self.models:
            return name
        loaded = f"Loaded: {', '.join(self.models)}." if self.models else "No model is loaded."
        raise OptionError(
            f"No loaded model is called {name!r}.{hint(name, self.models)}",
            remedy=f"{loaded} {verb('load', 'NAME')} loads one.",
        )

    # --- chats and history ---

    def chat(self, name: str = "default", *, create: bool = True) -> Chat:
        """Return a conversation by name; an unknown one is begun, or refused where `create` is off."""
        if name not in self.chats:
            if not create:
                known = f"Chats: {', '.join(self.chats)}." if self.chats else "There is none yet."
                raise OptionError(
                    f"There is no chat {name!r}.{hint(name, self.chats)}",
                    remedy=f"{known} %%llama chat, with two %, begins one.",
                )
            self.chats[name] = Chat(name)
        return self.chats[name]

    def keep_record(self, path: str | os.PathLike[str] | None, tag: str | None = None) -> Record | None:
        """Write every generation from now on into a record, and to no other; None ends that."""
        record = None if path is None else Record(path)
        if record is not None:
            record.check_writable()
        if self.recording is not None:
            self.recording.stop()
        self.recording = None if record is None else Recording(record, tag)
        return record

    def replay_from(self, path: str | os.PathLike[str] | None, *, only: bool = False) -> Replay | None:
        """Answer equal requests from a record from now on, `only` those without any model; None ends that."""
        self.replay = None if path is None else Replay(open_record(path), only=only)
        stand_in(self.replay)
        hooks.set_opener(self.replay.open if self.replay is not None and only else None)
        return self.replay

    def remember(self, completion: Completion) -> None:
        """Add a generation to the history, unless it is there."""
        self.history.add(completion)


def _default_loader(source: str | None, **options: Any) -> Any:
    from llama_magic.loading.load import load  # for weight: llama.cpp

    return load(source, **options)


_sessions: WeakTable[Any, Session] = WeakTable()
_without_shell: list[Session] = []


def _current_model() -> Model | None:
    """Return the current model of the session that runs here, None where nothing is loaded."""
    session = current()
    session.refresh()
    return session.models[session.current_name] if session.current_name is not None else None


def _named_model(name: str) -> Model | None:
    """Return the model that the session that runs here keeps under a name, None where there is none."""
    session = current()
    session.refresh()
    return session.models.get(name)


hooks.set_models(_current_model, _named_model)


def current(shell: Any = None) -> Session:
    """Return the session of `shell`, or of the running IPython shell, or of this plain Python process."""
    if shell is None and "IPython" in sys.modules:
        from IPython import get_ipython

        shell = get_ipython()
    if shell is None:
        if not _without_shell:
            _without_shell.append(Session())
        return _without_shell[0]
    return _sessions.get(shell) or _sessions.put(shell, Session())
