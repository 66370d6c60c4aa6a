"""What a loaded file says of itself: template, sampling, guarded texts, memory foretold and used."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from llama_magic import formatters, gguf
from llama_magic.doors import here, option
from llama_magic.engine import build, embedding
from llama_magic.errors import OptionError
from llama_magic.loading.provenance import made_with
from llama_magic.model.file import LoadedFile
from llama_magic.request.sampling import Sampling
from llama_magic.request.stages import PARAMETERS
from llama_magic.words.counting import counted

if TYPE_CHECKING:
    from llama_magic.engine.crash_check import TrialVerdict
    from llama_magic.engine.engine import Engine
    from llama_magic.fit import Estimate
    from llama_magic.formatters import Formatter
    from llama_magic.gguf import GGUFInfo
    from llama_magic.loading.options import Settings
    from llama_magic.request.tokenizer import Tokenizer
    from llama_magic.sources import Resolved


@dataclass(frozen=True)
class Judged:
    """A file that may be loaded: its header, how it is to be held, what that takes, how its trial ended.

    `formatter` is what was asked for. `warnings` are of the estimate.
    """

    found: Resolved
    info: GGUFInfo
    formatter: str | Formatter
    settings: Settings
    estimate: Estimate
    warnings: tuple[str, ...]
    verdict: TrialVerdict

    @cached_property
    def chosen(self) -> Formatter:
        """The formatter: what was asked for, made for this file."""
        return formatters.choose(self.formatter, self.info)

    @cached_property
    def foretold(self) -> dict[str, int]:
        """Bytes of memory that are expected, by what they are for."""
        memory = {f"predicted_{what}": size for what, size, _ in self.estimate.parts()}
        memory["predicted_total"] = self.estimate.total
        memory["predicted_seeded"] = self.settings.seeded_bytes(self.info)
        memory["predicted_prompt_reader"] = self.settings.prompt_reader_bytes(self.info)
        return memory

    @cached_property
    def fingerprint(self) -> str:
        """What tells the file from others, of its header and 1 MB of its weights."""
        return gguf.fingerprint(self.info.digest, self.found.parts)

    def prepare(self) -> None:
        """Work out what needs no weights, while others read them."""
        _ = self.chosen, self.foretold, self.fingerprint


def describe(judged: Judged, engine: Engine, began: float) -> LoadedFile:
    """Return what a model keeps of its loading, which began at `began` (`time.perf_counter()`)."""
    found, info, settings, formatter = judged.found, judged.info, judged.settings, judged.chosen
    window, buffers = _measured(engine, info, settings)
    actual = dict(engine.weights.buffers)
    for kind, size in buffers.items():
        actual[kind] = actual.get(kind, 0) + size
    memory = judged.foretold | {f"actual_{k}": v for k, v in actual.items()}
    memory["actual_total"] = sum(actual.values())
    return LoadedFile(
        source=found,
        info=info,
        options=settings.shown(),
        window=window,
        formatter=formatter,
        sampling=file_sampling(info.metadata),
        load_s=time.perf_counter() - began,
        memory=memory,
        notes=_notes(judged, formatter),
        guarded=_guarded(engine.tokenizer, info, formatter),
        made_with={
            **made_with(found, info, judged.fingerprint, settings, judged.verdict, window),
            **({"formatter": formatter.name} if judged.formatter != "auto" else {}),
        },
        n_ctx_train=info.context_length,
        kv_bytes_per_token=sum(info.kv_bytes_per_token()),
    )


def _notes(judged: Judged, formatter: Formatter) -> tuple[str, ...]:
    """Return what is to be known of the file, of how it is held, and of this build."""
    notes = [*judged.found.notes, *judged.settings.notes, *judged.warnings, *formatter.notes]
    notes += [finding.message for finding in gguf.special_ids(judged.info)]
    if heads := judged.info.hparams.whole("nextn_predict_layers"):
        notes.append(
            f"The file has {counted(heads, 'layer')} that foretells further tokens (MTP), not used: the "
            "bindings have no stable function for it. A draft model does the same "
            f"({option('draft', 'SOURCE')})."
        )
    if judged.verdict.fell_back:
        notes.append(
            "This build of llama.cpp crashes with repacked weights on this CPU, so the model runs without "
            f"them (a little slower). To mend the build: {build.rebuild(build.processor_flags())}"
        )
    return tuple(dict.fromkeys(map(here, notes)))


def _measured(engine: Engine, info: GGUFInfo, settings: Settings) -> tuple[int, dict[str, int]]:
    """Return the window that llama.cpp made, and the bytes by kind of its context."""
    if engine.weights.generates:
        lane = engine.call(lambda core: core.lane(exact=False))
        # All answers together may have more cells than one may be long (--profile batch).
        return min(settings.window, lane.cells), lane.context.buffers
    context = engine.call(lambda core: embedding.context(core, info))
    return min(settings.window, context.n_ctx), context.buffers


def _guarded(tokenizer: Tokenizer, info: GGUFInfo, formatter: formatters.Formatter) -> frozenset[str]:
    """Return the texts that a message must not be able to write as tokens.

    Control tokens, ends of generation, and those user-defined tokens that the file's templates or the
    formatter write themselves. (Other user-defined tokens, such as runs of line breaks, are ordinary text.)
    """
    templates = "\n".join((*info.chat_templates.values(), formatter.source))
    user_defined = (tokenizer.text(i) for i in tokenizer.user_defined_ids)
    marks = {t for t in user_defined if len(t) > 2 and t.strip("▁ \t\r\n") and t in templates}
    return tokenizer.control_texts | frozenset(marks)


def file_sampling(metadata: Mapping[str, Any]) -> Sampling:
    """Return the sampling defaults that a file brings, llama.cpp's own where it says nothing."""
    changes: dict[str, Any] = {}
    for parameter in PARAMETERS.values():  # llama.cpp: common_init_sampler_from_model
        value = metadata.get(f"general.sampling.{parameter.file_key}") if parameter.file_key else None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            changes[parameter.name] = int(value) if parameter.type == "int" else float(value)
    try:
        return Sampling(**changes)
    except (OptionError, TypeError):
        return Sampling()  # a file may hold nonsense here; its findings say so
