"""`verify`: every seeded answer of a notebook or record written again, and compared token by token."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from llama_magic.doors import option
from llama_magic.errors import (
    GenerationInterrupted,
    LlamaMagicError,
    OptionError,
    StructuredOutputError,
    shown_briefly,
)
from llama_magic.experiments import finding
from llama_magic.experiments.difference import first_difference, steps_of
from llama_magic.experiments.saved_answers import Saved, maps_of, read_answers
from llama_magic.loading import hooks
from llama_magic.model import shapes
from llama_magic.model.again import sample_of
from llama_magic.model.bounded import bounded
from llama_magic.model.results import Completion
from llama_magic.words.counting import counted
from llama_magic.words.shown import Printed
from llama_magic.words.signature import checked

if TYPE_CHECKING:
    from llama_magic.model.model import Model
    from llama_magic.model.shapes import Receipt

Told = Callable[["Verdict", int], None]  # called with each verdict and how many there will be


@dataclass(frozen=True)
class Verdict:
    """One answer: where it stands, and whether it came out equal.

    `step` is the first token that differs (from 0), `expected` its text as it was and `found` as it is here,
    "" where one has ended. `reasons` is what of prompt, file, build, threads, KV type and the rest is another
    here, as (what, then, now). `error` says why it could not be written again.
    """

    where: str
    equal: bool
    step: int | None = None
    expected: str = ""
    found: str = ""
    reasons: tuple[tuple[str, Any, Any], ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Verification(Printed):
    """What came out of `verify`. True where every seeded answer came out equal, or there was none.

    `unseeded` answers were not asked again: they drew their seed, and promise nothing. `maps` cells of a
    notebook asked for many answers, which stand in a record, and were not compared. `seconds` is the time
    that it took, loading what was not here included.
    """

    of: str
    verdicts: tuple[Verdict, ...]
    unseeded: int = 0
    seconds: float = 0.0
    maps: int = 0

    @property
    def total(self) -> int:
        return len(self.verdicts)

    @property
    def equal(self) -> int:
        """How many came out equal."""
        return sum(verdict.equal for verdict in self.verdicts)

    def __bool__(self) -> bool:
        return self.equal == self.total

    @property
    def badge(self) -> str:
        """One line: "14 of 14 answers come out equal here"."""
        if not self.total:
            return f"No seeded answer in {self.of}"
        verb = "comes" if self.total == 1 else "come"
        return f"{self.equal} of {counted(self.total, 'answer')} {verb} out equal here"

    @property
    def beside(self) -> str:
        """What was not compared, since the file does not hold it; "" where there is none."""
        cells = f"{counted(self.maps, 'cell')} {'maps or decides' if self.maps == 1 else 'map or decide'}"
        return (
            f"{cells} over rows: those answers were not compared; verify their record." if self.maps else ""
        )


@checked
@shown_briefly("Verifying")
def verify(
    of: Any, *, model: Any = None, told: Told | None = None, timeout: float | None = None, **options: Any
) -> Verification:
    """Write every seeded answer again and compare it, token by token.

    `of`: the path of a notebook, a record or an export, a `Record`, or answers. Asked is `model`, or the
    loaded model of the same file; else the file is looked for on this disk and loaded as it was then, with
    `options` of `load` in place of those (so is a file that `model` names). Where it is not found the current
    model is asked, and the file is named as another. `told` hears each verdict. Nothing of it goes into
    history or record.

    Raises `SourceError` for a file that is none of these, `InputTypeError` for what is no answer;
    `GenerationInterrupted` on Ctrl-C, and `OutOfTimeError` after `timeout` seconds, whose `completion` is the
    `Verification` of the answers that were written again by then.
    """
    with bounded(timeout):
        return _verified(of, model, told, options)


def _verified(of: Any, model: Any, told: Told | None, options: dict[str, Any]) -> Verification:
    began = time.perf_counter()
    name, found = read_answers(of)
    seeded = [one for one in found if one.receipt.get("seeded")]
    verdicts: list[Verdict] = []

    def made() -> Verification:
        unseeded, seconds = len(found) - len(seeded), time.perf_counter() - began
        return Verification(name, tuple(verdicts), unseeded, seconds, maps_of(of))

    try:
        with _Models(model, options) as models:
            for one in seeded:
                verdicts.append(models.judge(one))
                if told is not None:
                    told(verdicts[-1], len(seeded))
    except KeyboardInterrupt:
        so_far = made()
        words = (
            f"{so_far.total:,} of {counted(len(seeded), 'answer')} were written again, {so_far.equal:,} equal"
        )
        raise GenerationInterrupted(so_far, words) from None
    except _RefusedError as refused:
        raise refused.error from None
    return made()


class _RefusedError(Exception):
    """The caller's own options are refused, which is no matter of an answer."""

    def __init__(self, error: LlamaMagicError) -> None:
        super().__init__(error.message)
        self.error = error


class _Models:
    """The models that are asked: those that are here, and those that are loaded for this alone.

    `given` is the one to ask, or its name. A file that it names is loaded with the options, and where it is
    the file of an answer otherwise as it was then.
    """

    def __init__(self, given: Any, options: dict[str, Any]) -> None:
        named = hooks.named_model(given) if isinstance(given, str) else None
        self._given = given if named is None else named
        self._options = options
        if options and not isinstance(self._given, (str, type(None))):
            raise OptionError(
                f"{', '.join(map(option, options))} would be of a load, and the model to ask is loaded.",
                remedy="Leave out the one or the other, or name a file as the model.",
            )
        self._own: dict[Any, Model] = {}
        self._unloaded: dict[Any, LlamaMagicError] = {}
        self._is_named: dict[Any, bool] = {}  # by fingerprint: whether that is the file which is named
        self._written: tuple[Any, list[Completion[Any]]] = (None, [])  # the last call, for all its samples

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        while self._own:
            self._own.popitem()[1].close()

    def judge(self, one: Saved) -> Verdict:
        """Write an answer again and say how it comes out."""
        receipt = one.receipt
        if "earlier" in receipt:
            return Verdict(one.where, equal=False, error="It goes on from answers that are not in this file.")
        try:
            shapes.check(receipt)
            model = self._model(receipt)
            again = self._again(model, receipt)
        except LlamaMagicError as error:
            return Verdict(one.where, equal=False, error=error.message)
        then, now = steps_of(receipt, again)
        if receipt["finish_reason"] in ("interrupted", "timeout"):
            now = now[: len(then)]  # it was stopped, and went no further
        step = first_difference([key for key, _ in then], [key for key, _ in now])
        prompts = _prompts(receipt, again)
        if step is None and not prompts:
            return Verdict(one.where, equal=True)
        reasons = (*prompts, *_lost_order(receipt), *finding.differences(receipt, model))
        place = len(then) if step is None else step
        was, is_here = ("".join(text for _, text in side[place : place + 1]) for side in (then, now))
        return Verdict(one.where, equal=False, step=step, expected=was, found=is_here, reasons=reasons)

    def _again(self, model: Model, receipt: Receipt) -> Completion[Any]:
        key = (id(model), receipt.get("request"), receipt.get("asked", {}).get("seed", receipt["seed"]))
        if self._written[0] != key or not receipt.get("request"):
            try:
                made = model.repeated(receipt)
            except StructuredOutputError as error:  # the answer was none then, too
                made = list(error.completions) or [error.completion]
            self._written = key, made
        return sample_of(receipt, self._written[1])

    def _model(self, receipt: Receipt) -> Model:
        named = self._given if isinstance(self._given, str) else None
        if self._given is not None and named is None:
            given: Model = self._given
            return given
        here = finding.models_here()
        if named is None and not self._options and (found := finding.made_by(receipt, here)) is not None:
            return found
        file = receipt.get("file", {}).get("fingerprint")
        if named is not None and file not in self._is_named:
            self._is_named[file] = finding.is_file(named, receipt)
        then = finding.load_options(receipt) if named is None or self._is_named[file] else {}
        wanted = then | self._options
        key = (named or file, repr(sorted(wanted.items())))
        if key in self._own:
            return self._own[key]
        if key in self._unloaded:
            raise self._unloaded[key]
        path = named or finding.file_on_disk(receipt)
        if path is None:
            if here and not self._options:
                return here[0]
            name = receipt.get("file", {}).get("name", receipt["model"])
            raise OptionError(
                f"The model that wrote it, {name}, is not on this disk, where models are looked for. If it "
                f"lies elsewhere, name its file as the model to ask: {option('model', 'PATH')}."
            )
        try:
            return self._loaded(key, path, wanted)
        except LlamaMagicError as error:
            self._unloaded[key] = error
            raise

    def _loaded(self, key: Any, path: str, options: dict[str, Any]) -> Model:
        """Load a file, to be closed at the end if this call brings it here."""
        from llama_magic.loading.load import load  # for weight: llama.cpp

        before = hooks.loaded()
        try:
            model: Model = load(path, **options)
        except LlamaMagicError as error:
            if self._options or self._given is not None:  # it is the caller's own that is refused
                raise _RefusedError(error) from error
            raise
        if not any(model is one for one in before):
            self._own[key] = model
        return model


def _prompts(receipt: Receipt, again: Completion[Any]) -> tuple[tuple[str, Any, Any], ...]:
    """Return what differs of the prompts: the template may have become another."""
    digest = hashlib.sha256(again.prompt.encode("utf-8", "replace")).hexdigest()
    if receipt.get("prompt", again.prompt) == again.prompt and receipt.get("prompt_sha256", digest) == digest:
        return ()
    return (("prompt", receipt.get("prompt", "another"), again.prompt),)


def _lost_order(receipt: Receipt) -> tuple[tuple[str, Any, Any], ...]:
    """Return what differs of a schema whose fields a file has sorted: receipts of before held it as JSON."""
    schema = receipt.get("asked", {}).get("constraint", {}).get("schema")
    if not isinstance(schema, Mapping) or not _has_order(schema):
        return ()
    lost = "lost in this file, saved by an earlier version (run its cell again)"
    return (("order of the schema's fields", lost, "by name"),)


def _has_order(schema: Any) -> bool:
    """Whether an object in a schema has several fields."""
    if isinstance(schema, Mapping):
        fields = schema.get("properties")
        several = isinstance(fields, Mapping) and len(fields) > 1
        return several or any(map(_has_order, schema.values()))
    return isinstance(schema, list) and any(map(_has_order, schema))
