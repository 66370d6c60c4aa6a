"""Models over the scripted Backend, and a loader that gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from llama_magic import formatters
from llama_magic.model.file import LoadedFile
from llama_magic.model.model import Model
from llama_magic.request.backend import Capabilities
from llama_magic.request.sampling import Sampling
from llama_magic.session import session as sessions
from llama_magic.testing.backend import ScriptedBackend
from llama_magic.testing.script import Answers, Odds
from llama_magic.testing.tokenizer import WordTokenizer

if TYPE_CHECKING:

    class ScriptedModel(Model):
        """A `Model` whose backend tells what it was asked: `model.backend.requests`."""

        backend: ScriptedBackend

else:
    ScriptedModel = Model


def scripted_model(
    answers: Answers = (),
    *,
    name: str = "scripted",
    window: int = 512,
    formatter: str = "chatml",
    sampling: Sampling | None = None,
    capabilities: Capabilities | None = None,
    odds: Odds | None = None,
    options: Mapping[str, Any] | None = None,
    shell: Any = None,
) -> ScriptedModel:
    """Return a `Model` whose answers are scripted; see `ScriptedBackend` for `answers` and `odds`.

    `window` is in tokens (words), `options` are the load options that `model.options` tells. `formatter`
    names a family, whose marks become control tokens. With `shell`, an IPython shell, it is that shell's
    current model, so that `%%llama` cells ask it.
    """
    family = formatters.get(formatter)
    marks = (*family.stop, *getattr(family, "marks", ()), *(mark.text for mark in family.spec.marks))
    tokenizer = WordTokenizer(marks)
    backend = ScriptedBackend(answers, tokenizer=tokenizer, capabilities=capabilities, odds=odds)
    file = LoadedFile(
        window,
        family,
        sampling or Sampling(),
        dict(options or {}),
        guarded=tokenizer.control_texts,
        made_with={"engine": {"scripted": True}},
        n_ctx_train=window,
    )
    model = Model(name, file, backend)
    if shell is not None:
        sessions.current(shell).keep(model)
    return cast("ScriptedModel", model)


class ScriptedLoader:
    """Stands for `llama_magic.load` in a session: every source is a scripted model.

    The same source gives the same model until it is closed. `answers` as for `ScriptedBackend`, for each
    model anew; `models` holds them by source, and `calls` what was asked for: (source, load options).
    """

    def __init__(self, answers: Answers = (), **how: Any) -> None:
        self.answers, self.how = answers, how
        self.models: dict[str, Model] = {}
        self.calls: list[tuple[str | None, dict[str, Any]]] = []

    def __call__(
        self, source: str | None = None, *, name: str | None = None, progress: Any = None, **options: Any
    ) -> Model:
        self.calls.append((source, options))
        key = source or "scripted"
        model = self.models.get(key)
        if model is None or model.closed:
            how = {"window": options["ctx"]} if options.get("ctx") else {}
            made = scripted_model(
                self.answers, **{"name": name or key, "options": options, **self.how, **how}
            )
            model = self.models[key] = made
        return model


def scripted_loader(answers: Answers = (), *, shell: Any = None, **how: Any) -> ScriptedLoader:
    """Let `%llama load` of a shell, or of this Python without one, give scripted models; return the loader.

    `how` is passed on to `scripted_model`.
    """
    loader = sessions.current(shell).loader = ScriptedLoader(answers, **how)
    return loader
