"""The options of `load`: checked, completed from profile, file and machine, and put in one frozen record."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_magic import fit, gguf, sources
from llama_magic.doors import option
from llama_magic.engine.contexts import Contexts
from llama_magic.engine.native import Adapter, ContextOptions
from llama_magic.environment import MOST_THREADS
from llama_magic.errors import InputTypeError, OptionError, SourceError
from llama_magic.loading.draft import Draft, check_source
from llama_magic.words.files import expanded, whole_file
from llama_magic.words.given import quoted, whole, whole_number
from llama_magic.words.names import meant

if TYPE_CHECKING:
    from llama_magic.fit import Estimate, LoadProfile, Machine, Speed
    from llama_magic.formatters import Formatter
    from llama_magic.gguf import GGUFInfo

DEFAULT_PROFILE = "balanced"
ALL_LAYERS = -1
_CHOICES: dict[str, tuple[str, ...]] = {
    "kv_type": ("f16", "q8_0", "q4_0"),
    "flash_attn": ("auto", "on", "off"),
    "rope_scaling": ("none", "linear", "yarn"),
    "profile": tuple(fit.PROFILES),
}
_WHOLE = {"ctx": 0, "threads": 1, "batch": 1, "yarn_orig_ctx": 0}
_MOST_SCALE = 3e38  # what a float32 holds
_FLAGS = ("mmap", "mlock")
_ROPE = (
    "rope_scaling", "rope_freq_base", "rope_freq_scale", "yarn_ext_factor", "yarn_attn_factor",
    "yarn_beta_fast", "yarn_beta_slow", "yarn_orig_ctx",
)  # fmt: skip

# Keywords of `load` that are no options of the engine, and what other libraries and the magic call ours.
_OF_LOAD = {"name", "dry_run", "progress", "sha256", "revision", "offline"}
CALLED_ELSEWHERE = {
    "as_": "name", "context_length": "ctx", "max_seq_len": "ctx", "window": "ctx", "ngl": "gpu_layers",
    "n_ctx": "ctx", "ctx_size": "ctx", "num_ctx": "ctx", "n_gpu_layers": "gpu_layers",
    "num_gpu": "gpu_layers",
    "n_threads": "threads", "num_thread": "threads", "n_batch": "batch", "batch_size": "batch",
    "num_batch": "batch", "cache_type_k": "kv_type", "cache_type_v": "kv_type", "use_mmap": "mmap",
    "use_mlock": "mlock", "lora_path": "lora", "alias": "name", "rope_scale": "rope_freq_scale",
    "type_k": "kv_type", "type_v": "kv_type", "cache_type": "kv_type", "chat_format": "formatter",
    "chat_template": "formatter", "draft_model": "draft", "model_draft": "draft", "md": "draft",
}  # fmt: skip

_NOT_OF_LOAD = {
    **dict.fromkeys(
        ("model_path", "path", "model", "filename", "repo_id", "source", "url", "hf"),
        "It is the first argument: lm.load('file.gguf'), lm.load('owner/repo:Q4_K_M').",
    ),
    **dict.fromkeys(
        ("seed", "temperature", "top_p", "top_k", "min_p", "max_tokens", "stop"),
        "It belongs to a call: model.chat(…, seed=7, temperature=0).",
    ),
    **dict.fromkeys(("embedding", "embeddings", "logits_all"), "Nothing needs it: leave it out."),
    "verbose": "llama.cpp prints nothing here; progress=False shows no progress either.",
}


@dataclass(frozen=True, kw_only=True)
class Settings(fit.Tuning):
    """Every option of a load, settled. Equal settings on the same file mean the same model object."""

    window: int
    cells: int
    profile: str
    rope: tuple[tuple[str, Any], ...] = ()
    lora: tuple[Adapter, ...] = ()
    draft: Draft | None = None
    formatter: str = "auto"
    template: str | None = None  # digest of its file: an edited one is another
    notes: tuple[str, ...] = ()

    def held(self, info: GGUFInfo, machine: Machine, loaded: bool | None = None) -> Settings:
        """Return the settings with it said whether the weights are mapped, as pays on this machine now.

        `loaded` says so of weights of that file which are in memory already, to be shared.
        """
        if self.mmap is not None:
            return self
        reads = not (self.gpu_layers or self.mlock) and fit.pays_to_read(info, machine)
        return replace(self, mmap=not reads if loaded is None else loaded)

    def context(self) -> ContextOptions:
        """Return the parameters that every context of the engine is derived from."""
        return ContextOptions(
            cells=self.cells,
            batch=self.batch,
            ubatch=self.ubatch,
            threads=self.threads,
            type_k=self.type_k,
            type_v=self.type_v,
            flash_attn=self.flash_attn,
            swa_full=self.swa_full,
            adapters=self.lora,
            **dict(self.rope),
        )

    def estimate(self, info: GGUFInfo) -> Estimate:
        """Predict the memory of the load."""
        return self._memory(info, Contexts(self.context()).shared)

    def seeded_bytes(self, info: GGUFInfo) -> int:
        """Predict the memory that the first answer with a seed adds: a context of its own."""
        return self._further_bytes(info, Contexts(self.context()).exact)

    def prompt_reader_bytes(self, info: GGUFInfo) -> int:
        """Predict the memory that prompts beside many answers add; 0 where they are read among them."""
        if self.gpu_layers or info.only_embeds or any(info.recurrent_state_bytes):
            return 0
        return self._further_bytes(info, Contexts(self.context()).prompt_reader)

    def _further_bytes(self, info: GGUFInfo, context: ContextOptions) -> int:
        made = self._memory(info, context)
        return made.private - made.repacked - made.adapters - made.draft

    def _memory(self, info: GGUFInfo, context: ContextOptions) -> Estimate:
        layers = info.block_count + 1 if self.gpu_layers == ALL_LAYERS else self.gpu_layers
        how = fit.Options(
            ctx=self.window,
            cells=context.cells,
            n_seq=context.sequences,
            type_k=context.type_k,
            type_v=context.type_v,
            batch=context.batch,
            ubatch=context.ubatch,
            gpu_layers=layers,
            flash_attn=context.flash_attn,
            swa_full=context.swa_full,
            outputs=context.outputs,
            extra_bufts=self.extra_bufts,
            mmap=self.mapped,
            adapters=sum(adapter.stamp[0] for adapter in context.adapters),
            draft=0 if self.draft is None else self.draft.bytes_for(self.window, self),
        )
        return fit.estimate(info, how)

    def speed(self, info: GGUFInfo, machine: Machine, filled: int = 0) -> Speed | None:
        """Return the most tokens a second that one stream can write; None with layers on a GPU."""
        if self.gpu_layers:
            return None
        return fit.speed(info, machine, threads=self.threads, filled=filled, kv_type=self.type_k)

    @staticmethod
    def store_budget(machine: Machine) -> int:
        """Return the bytes of host memory for sequences moved out of the cache: an eighth of what is free."""
        return min(2 * 2**30, machine.ram_available // 8)

    def shown(self) -> dict[str, Any]:
        """Return the settings as a user would write them."""
        data = {"window": self.window, "cells": self.cells, **asdict(replace(self, draft=None))}
        data["lora"] = [f"{adapter.path}:{adapter.scale:g}" for adapter in self.lora]
        data["draft"] = None if self.draft is None else self.draft.origin
        data.update(data.pop("rope") and dict(self.rope))
        del data["notes"], data["template"]
        return data


@dataclass(frozen=True)
class LoadOptions:
    """The options as they were given; None where nothing was said."""

    ctx: int | None = None
    gpu_layers: int | None = None
    threads: int | None = None
    batch: int | None = None
    kv_type: str | None = None
    flash_attn: str | None = None
    mmap: bool | None = None
    mlock: bool | None = None
    rope_freq_base: float | None = None
    rope_freq_scale: float | None = None
    rope_scaling: str | None = None
    yarn_ext_factor: float | None = None
    yarn_attn_factor: float | None = None
    yarn_beta_fast: float | None = None
    yarn_beta_slow: float | None = None
    yarn_orig_ctx: int | None = None
    profile: str | None = None
    formatter: str | Formatter | None = None
    lora: tuple[Adapter, ...] = ()
    draft: str | os.PathLike[str] | Draft | None = None

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> LoadOptions:
        """Check names, types and values; an unknown name is an error that names the nearest."""
        known = {f.name for f in fields(cls)}
        given = {name: value for name, value in options.items() if value is not None}
        for name, value in given.items():
            if name in _NOT_OF_LOAD:
                raise OptionError(f"There is no load option {name!r}.", remedy=_NOT_OF_LOAD[name])
            if name not in known:
                raise OptionError(
                    f"There is no load option {name!r}. {meant(name, known | _OF_LOAD, CALLED_ELSEWHERE)}"
                )
            given[name] = _checked(name, value)
        if "gpu_layers" in given:
            given["gpu_layers"] = _layers(given["gpu_layers"])
        if "lora" in given:
            given["lora"] = _adapters(given["lora"])
        return cls(**given)

    def over(self, defaults: Mapping[str, Any]) -> LoadOptions:
        """Return the options with defaults where nothing was said."""
        unsaid = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        return replace(self, **unsaid)

    def settle(self, info: GGUFInfo, machine: Machine, *, gpu: bool) -> Settings:
        """Fill in what was not given: from the profile, the file and this machine."""
        base = fit.profile(self.profile or DEFAULT_PROFILE, machine, info)
        notes: list[str] = []
        least = self._least(base, machine, notes, gpu=gpu)
        if least.type_k != "f16" and least.flash_attn == "off":
            raise OptionError(
                f"{option('kv_type', least.type_k)} needs flash attention, but {option('flash_attn', 'off')} "
                "was asked for.",
                remedy=f"Leave {option('flash_attn')} at auto, or use {option('kv_type', 'f16')}.",
            )
        if least.type_k != "f16" and (odd := fit.odd_head(info)):
            raise OptionError(
                f"{option('kv_type', least.type_k)} keeps 32 numbers together, and heads of this model have "
                f"{odd}, no multiple of that.",
                remedy=f"Load it with {option('kv_type', 'f16')}.",
            )
        window = self._window(info, machine, base.window, least, notes)
        one = replace(least, window=window, cells=window)
        windows = 1 if info.only_embeds else base.windows  # texts are embedded one after the other
        cells = fit.affordable_cells(one.estimate(info), machine, windows)
        batch = min(one.batch, fit.round_context(cells))
        if self.batch and batch < self.batch:
            notes.append(f"A batch of {self.batch:,} tokens is more than the {cells:,} that the cache holds.")
        return replace(one, cells=cells, batch=batch, ubatch=min(batch, one.ubatch), notes=tuple(notes))

    def _least(self, base: LoadProfile, machine: Machine, notes: list[str], *, gpu: bool) -> Settings:
        """Return the settings with the shortest window, to be lengthened."""
        said = {
            "threads": self.threads,
            "batch": self.batch,
            "type_k": self.kv_type,
            "type_v": self.kv_type,
            "flash_attn": self.flash_attn,
            "mmap": self.mmap,
            "mlock": self.mlock,
            "gpu_layers": self.gpu_layers if gpu or self.gpu_layers is not None else 0,
        }
        tuning = asdict(base.tuning) | {name: value for name, value in said.items() if value is not None}
        tuning["ubatch"] = min(tuning["batch"], tuning["ubatch"])
        self._note_threads(tuning["threads"], machine, notes)
        return Settings(
            **tuning,
            window=fit.round_context(0),
            cells=fit.round_context(0),
            profile=base.name,
            rope=tuple((n, getattr(self, n)) for n in _ROPE if getattr(self, n) is not None),
            lora=self.lora,
            draft=self.draft if isinstance(self.draft, Draft) else None,
            formatter=str(self.formatter or "auto"),
            template=_template_stamp(self.formatter),
        )

    @staticmethod
    def _note_threads(threads: int, machine: Machine, notes: list[str]) -> None:
        if threads > max(1, machine.logical_cores):
            fewer = "1 is" if machine.physical_cores == 1 else f"{machine.physical_cores} are"
            notes.append(
                f"{threads} threads on {machine.logical_cores} cores wait for each other at every step: "
                f"{fewer} faster."
            )

    def _window(
        self, info: GGUFInfo, machine: Machine, unasked: int, least: Settings, notes: list[str]
    ) -> int:
        known = info.positions
        if known and self.ctx is not None and self.ctx > known:
            raise OptionError(
                f"A window of {self.ctx:,} tokens was asked for, and this model has an embedding for each of "
                f"{known:,} positions: there is no RoPE to stretch.",
                remedy=f"Load it with {option('ctx', known)}, or less.",
            )
        window = self._any_window(info, machine, unasked, least, notes)
        return min(window, known) if known else window

    def _any_window(
        self, info: GGUFInfo, machine: Machine, unasked: int, least: Settings, notes: list[str]
    ) -> int:
        trained = info.context_length
        if not self.ctx:
            fits = fit.largest_context(least.estimate(info), machine)
            wanted = unasked if self.ctx is None else trained
            if trained and fits < min(wanted, trained):
                notes.append(
                    f"A window of {fits:,} tokens is what fits; the model was trained on {trained:,}."
                )
            return min(fits, unasked) if self.ctx is None else fits
        window = fit.round_context(self.ctx)
        if window != self.ctx and not 0 < info.positions < window:
            notes.append(f"llama.cpp rounds a window of {self.ctx:,} up to {window:,} tokens.")
        if trained and window > trained:
            notes.append(
                f"A window of {window:,} tokens is more than the {trained:,} that the model was trained on; "
                "answers may turn to nonsense beyond that (the option rope_scaling stretches it)."
            )
        return window


def _checked(name: str, value: Any) -> Any:
    """Return an option's value; a whole number as Python's own."""
    if name in _CHOICES:
        if not isinstance(value, (str, type(None))) or value not in _CHOICES[name]:
            raise OptionError(f"{name} is {quoted(value)}; expected one of {', '.join(_CHOICES[name])}.")
    elif name in _WHOLE:
        value = whole_number(name, value)
        most = MOST_THREADS if name == "threads" else 2**31 - 1
        if not _WHOLE[name] <= value <= most:
            raise OptionError(f"{name} is {quoted(value)}; expected {_WHOLE[name]} to {most:,}.")
    elif name in _FLAGS:
        if not isinstance(value, bool):
            raise InputTypeError(f"{name} is {quoted(value)}; expected True or False.")
    elif name in _ROPE:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InputTypeError(f"{name} is {quoted(value)}; expected a number.")
        least = 0 if name.startswith("rope") else -1  # 0, or -1 for YaRN, means: as the file says
        if not least <= value <= 1e12 or 0 < abs(value) < 1e-6:
            raise OptionError(f"{name} is {quoted(value)}; expected a finite number, {least} or more.")
    elif name == "draft":
        check_source(value)
    elif name == "formatter":
        return _formatter(value)
    return value


def _formatter(value: Any) -> Any:
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    if value == "":
        raise OptionError("formatter is empty; expected a name, the path of a .jinja file, or auto.")
    if not isinstance(value, str) and not hasattr(value, "render"):
        raise InputTypeError(
            f"formatter is a {type(value).__name__}; expected a name, a path or a Formatter."
        )
    return value


def _template_stamp(formatter: str | Formatter | None) -> str | None:
    """Return the digest of a template file; None where the formatter is no file, or none that can be read."""
    if not isinstance(formatter, str):
        return None
    try:
        return hashlib.sha256(whole_file(expanded(formatter))).hexdigest()
    except (OSError, ValueError):
        return None


def _layers(value: Any) -> int:
    if isinstance(value, str) and value == "all":
        return ALL_LAYERS
    number = whole(value)
    if number is None or not -1 <= number < 2**31:
        raise OptionError(f"gpu_layers is {quoted(value)}; expected a whole number or 'all'.")
    return number


def _adapters(entries: Any) -> tuple[Adapter, ...]:
    entries = [entries] if isinstance(entries, (str, os.PathLike)) or _is_pair(entries) else entries
    if not isinstance(entries, (list, tuple)):
        raise InputTypeError(
            f"lora is {quoted(entries)}; expected a path, PATH:SCALE, (path, scale), or a list of these."
        )
    adapters = tuple(_adapter(entry) for entry in entries)
    paths = [adapter.path for adapter in adapters]
    for path in paths:
        if paths.count(path) > 1:
            raise OptionError(
                f"lora names {path.name} more than once.", remedy="Name it once, with the sum of the scales."
            )
    return adapters


_ADAPTERS = (
    "lora takes a GGUF adapter (llama.cpp's convert_lora_to_gguf.py makes one); behind a colon its scale."
)


def _is_pair(given: Any) -> bool:
    """Tell a path and its scale from two paths."""
    return (
        isinstance(given, tuple) and len(given) == 2 and not isinstance(given[1], (str, os.PathLike, tuple))
    )


def _adapter_file(text: str) -> Path:
    """Return the file of an adapter; what is none is named as a model's is."""
    try:
        if text and sources.parse(text).kind not in ("url", "hub"):
            return sources.resolve(text, offline=True).path.resolve()
        raise SourceError(
            f"{text} is no file on this machine." if text else "The path is empty.",
            remedy="Download the adapter, and give its path.",
        )
    except SourceError as error:
        remedy = f"{error.said[1] or ''} {_ADAPTERS}".strip()
        message = f"There is no LoRA adapter at {quoted(text)}: {error.said[0]}"
        raise SourceError(message, remedy=remedy) from None


def _adapter(entry: Any) -> Adapter:
    """Read `PATH`, `PATH:SCALE` or a pair; the file must exist, and be a GGUF."""
    given, scale = entry, 1.0
    if isinstance(entry, (tuple, list)) and len(entry) == 2:
        given, scale = entry
    if not isinstance(given, (str, os.PathLike)) or isinstance(scale, bool):
        raise InputTypeError(
            f"lora holds {quoted(entry)}; expected a path, PATH:SCALE, or a pair (path, scale)."
        )
    text = os.fspath(given)
    head, colon, tail = text.rpartition(":")
    if colon and not os.path.exists(text):
        with contextlib.suppress(ValueError):  # else it is a colon of the path itself
            scale, text = float(tail), head
    if not isinstance(scale, (int, float)) or not abs(scale) <= _MOST_SCALE:  # NaN is not
        raise OptionError(
            f"lora holds {quoted(entry)}: the scale is {quoted(scale)}; expected a finite number."
        )
    path = _adapter_file(text)
    facts = path.stat()
    content = gguf.fingerprint(gguf.inspect(path).digest, [path])
    return Adapter(path, float(scale), (facts.st_size, facts.st_mtime_ns), content)
