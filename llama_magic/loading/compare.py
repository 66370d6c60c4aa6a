"""The quants of a hub repository side by side: what each takes, how fast it would be, which to choose.

Nothing is downloaded but one header.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from llama_magic import fit, gguf, sources
from llama_magic.doors import entered
from llama_magic.errors import InvalidGGUFError, SourceError, shown_briefly
from llama_magic.loading.plan import load_line, planned
from llama_magic.words import amounts
from llama_magic.words.given import at_least
from llama_magic.words.shown import Shown
from llama_magic.words.signature import checked

if TYPE_CHECKING:
    from llama_magic.fit import Machine
    from llama_magic.gguf import GGUFInfo
    from llama_magic.sources import HubModel, HubModels

_FAMILIES = 4  # headers read of one repository, at most: one of each model that it holds
_LOSSLESS = 9.0  # bits a weight; what is above (F16, F32) answers no better than Q8_0
_SLOW = 5.0  # tokens a second


@dataclass(frozen=True)
class Quant:
    """One model of a repository beside the others. Sizes are in bytes, windows in tokens.

    `memory` is predicted for `window`; `tokens_per_second` is the most that this machine can write. None
    where it is not known. `bits` are bits a weight over the whole file.
    """

    quantisation: str
    files: tuple[str, ...]
    size: int | None
    bits: float | None
    memory: int | None
    window: int | None
    largest_window: int | None
    fits: bool | None
    tokens_per_second: float | None
    load_line: str
    cached: bool = False


@dataclass(frozen=True)
class Comparison(Shown):
    """The models of a hub repository, the smallest first, and which to take on this machine."""

    repo: str
    rows: tuple[Quant, ...]
    recommendation: str
    machine: Machine
    recommended: Quant | None = None
    notes: tuple[str, ...] = ()
    info: GGUFInfo | None = field(default=None, repr=False, compare=False)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with one row a model."""
        import pandas as pd

        return pd.DataFrame([asdict(row) for row in self.rows])

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        verdicts = {True: "fits", False: "does not fit", None: ""}
        lines = [
            f"{row.quantisation:<12} {amounts.size(row.size):>8}  {verdicts[row.fits]:<12}  {row.load_line}"
            for row in self.rows
        ]
        return "\n".join((*lines, self.recommendation, *self.notes))


@checked
@shown_briefly("The comparison")
def compare(
    source: Any,
    *,
    ctx: int | None = None,
    revision: str | None = None,
    offline: bool | None = None,
    machine: Machine | None = None,
) -> Comparison:
    """Compare the quantisations of a hub repository: size, memory, window, speed on this machine.

    Costs the repository's file list and one header (of the smallest file, or of one that is here already) by
    byte ranges; where the repository holds several models, one header each, four at most. `ctx` is the window
    to plan for (default: 8,192 tokens, or what the model was trained for). Offline, what is cached is
    compared.
    Raises `SourceError`, `OptionError`.
    """
    ctx = None if ctx is None else at_least(1, "ctx", ctx, " of tokens")
    listing = sources.hub_models(source, revision=revision, offline=offline)
    return compare_models(listing, ctx, machine or fit.machine())


def compare_models(listing: HubModels, ctx: int | None, machine: Machine) -> Comparison:
    """Compare the models of a list; see `compare`."""
    families: dict[str, list[HubModel]] = {}
    for model in listing.models:
        families.setdefault(_family(model), []).append(model)
    notes = [*listing.notes, *_projectors(listing)]
    headers: dict[str, tuple[HubModel, GGUFInfo]] = {}
    for name, models in list(families.items())[:_FAMILIES]:
        try:
            headers[name] = _header(listing, models)
        except (SourceError, InvalidGGUFError) as error:
            notes.append(f"No header of {models[0].files[0]}: {error.message}")
    if len(families) > _FAMILIES:
        notes.append(f"{listing.repo} holds {len(families)} models; the headers of {_FAMILIES} were read.")
    rows = tuple(_row(listing, m, headers.get(_family(m)), ctx, machine) for m in listing.models)
    longest = max((row.window or 0 for row in rows), default=0)
    if ctx is not None and 0 < longest < ctx:
        notes.append(
            f"A window of {ctx:,} tokens was asked for. The longest that a model here was trained for, and "
            f"that fits, is {longest:,} tokens; that is planned."
        )
    best = _best(rows)
    first = next(iter(headers.values()), None)
    return Comparison(
        listing.repo, rows, _advice(rows, best, machine), machine, best, tuple(notes), first and first[1]
    )


def _projectors(listing: HubModels) -> list[str]:
    """Say which projector belongs to which quants."""
    quants: dict[str, list[str]] = {}
    for model in listing.models:
        if model.projector is not None:
            quants.setdefault(model.projector, []).append(model.quant or model.label)
    return [
        f"{projector} is the projector (images or sound) of "
        f"{'every model here' if len(quants) == 1 else ', '.join(names)}; here text alone is read."
        for projector, names in quants.items()
    ]


def _family(model: HubModel) -> str:
    """Return the name without its quantisation: files of one family are the same model."""
    quant = model.quant or ""
    return re.sub(r"[-._]+", "-", re.sub(re.escape(quant), "", model.name, flags=re.IGNORECASE)).strip("-")


def _header(listing: HubModels, models: Sequence[HubModel]) -> tuple[HubModel, GGUFInfo]:
    """Read one header for all: of a file on this disk, else of the smallest on the server."""
    model = next((m for m in models if m.parts), models[0])
    if model.parts:
        info = gguf.inspect(model.parts[0], parts=model.parts)
    else:
        at = f"@{listing.revision}" if listing.revision else ""
        readers = sources.open_parts(f"hf:{listing.repo}:{model.files[0]}{at}")
        info = gguf.inspect(readers[0], parts=readers[1:])
    if not info.tensors:
        raise InvalidGGUFError("The file has no tensors.", field="header.tensor_count", offset=8)
    gguf.validate(info)
    return model, info


def _row(
    listing: HubModels,
    model: HubModel,
    header: tuple[HubModel, GGUFInfo] | None,
    ctx: int | None,
    machine: Machine,
) -> Quant:
    source = listing.source(model)
    if header is None or model.size is None:
        return Quant(
            model.quant or model.label, model.files, model.size, None, None, None, None, None, None,
            load_line(source, entered()), bool(model.parts),
        )  # fmt: skip
    read, info = header
    if read is not model:
        info = gguf.requantised(info, model.quant or model.label, model.size)
    found = planned(info, source, ctx, machine)
    return Quant(
        quantisation=model.quant or info.quantisation,
        files=model.files,
        size=model.size,
        bits=8 * info.tensor_bytes / max(1, info.n_params),
        memory=found.memory,
        window=found.window,
        largest_window=found.largest_window,
        fits=found.fits,
        tokens_per_second=found.speed.tokens_per_second if found.speed else None,
        load_line=found.load_line,
        cached=bool(model.parts),
    )


def _best(rows: Sequence[Quant]) -> Quant | None:
    """Choose the most precise that fits with the longest window planned, leaving out what gains nothing."""
    fitting = [row for row in rows if row.fits and row.size is not None]
    longest = max((row.window or 0 for row in fitting), default=0)
    good = [row for row in fitting if row.window == longest and (row.bits or 0) <= _LOSSLESS] or fitting
    quick = [row for row in good if (row.tokens_per_second or _SLOW) >= _SLOW]
    return max(quick or good[:1], key=lambda row: row.bits or 0, default=None)


def _advice(rows: Sequence[Quant], best: Quant | None, machine: Machine) -> str:
    if best is None:
        known = [row for row in rows if row.memory is not None]
        if not known:
            return "What fits cannot be told without a header."
        least = min(known, key=lambda row: row.memory or 0)
        return (
            f"None fits: the smallest, {least.quantisation}, needs {amounts.size(least.memory)}, and "
            f"{amounts.size(machine.ram_available)} are free. Take a smaller model."
        )
    words = [
        f"Take {best.quantisation}: the most precise that fits, {amounts.size(best.memory)} of the "
        f"{amounts.size(machine.ram_available)} that are free with a window of {best.window:,} tokens."
    ]
    larger = [row for row in rows if row.fits and (row.bits or 0) > _LOSSLESS]
    if larger and (best.bits or 0) <= _LOSSLESS:
        words.append(f"{larger[0].quantisation} fits too, and answers no better.")
    slower = [r for r in rows if r.fits and r not in larger and (r.bits or 0) > (best.bits or 0)]
    if slower:
        words.append(f"{slower[0].quantisation} fits too, but writes fewer than {_SLOW:g} tokens a second.")
    elif (small := _quicker(rows, best)) is not None:
        ratio = (small.tokens_per_second or 0) / (best.tokens_per_second or 1)
        words.append(
            f"{small.quantisation} can write {ratio:.1f} times as fast in {amounts.size(small.memory)}, at "
            "some loss."
        )
    return " ".join(words)


def _quicker(rows: Sequence[Quant], best: Quant) -> Quant | None:
    """Return the largest of about 4 bits or more that writes clearly faster than the best."""
    pace = 1.3 * (best.tokens_per_second or 0)
    found = [r for r in rows if r.fits and (r.bits or 0) >= 4 and pace < (r.tokens_per_second or 0)]
    return found[-1] if pace and found else None
