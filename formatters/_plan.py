"""Finds out what a template does to conversations, and how to repair one that it cannot write.

A template is run on a conversation of the same shape whose texts are marker words. Each word must
stand in the prompt exactly once: a refused role raises, a silently dropped one is missing. If so,
repairs are tried, fewest first. The verdict is kept for each shape, and long regular conversations
share one, so a chat costs about one rendering a turn.
"""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from llama_magic.bounds.meter import MAX_SECONDS, LimitError
from llama_magic.doors import option
from llama_magic.errors import TemplateError

from . import _messages as repairs
from ._guard import CONTROL_LIKE
from ._types import Message

Repair = Callable[[list[Message]], list[Message]]
Run = Callable[[list[Message], dict[str, Any]], str]

_ORDER: tuple[Repair, ...] = (
    repairs.developer_to_system,
    repairs.tool_to_user,
    repairs.later_system_to_user,
    repairs.system_to_user,
    repairs.merge_neighbours,
    repairs.user_first,
)
_FORMS: tuple[tuple[Repair, ...], ...] = (
    (repairs.in_parts,),
    (repairs.in_parts, repairs.none_for_calls, repairs.arguments_as_objects),
    (),
    (repairs.none_for_calls,),
    (repairs.arguments_as_objects,),
    (repairs.none_for_calls, repairs.arguments_as_objects),
    (repairs.arguments_as_text,),
    (repairs.none_for_calls, repairs.arguments_as_text),
    (repairs.typed,),
)
_ROLE_LINE = re.compile(r"\W*\w[^:]{0,30}:\s*")
_MARK = re.compile(r"qzmark(\d+)x")
_AS_DATA = re.compile(r"""['"]type['"]: ?['"]text['"]""")


@dataclass(frozen=True)
class TemplatePlan:
    """How conversations of one shape are written by one template."""

    repairs: tuple[Repair, ...] = ()
    forms: tuple[Repair, ...] = ()  # how the messages are dressed, their texts unchanged
    lost: tuple[int, ...] = ()  # tool results, and texts beside tool calls, that the template leaves out
    calls_lost: bool = False  # it leaves out tool calls
    before: dict[str, tuple[str, ...]] = field(default_factory=dict)
    late: frozenset[str] = frozenset()  # roles whose texts stand later than their place in the conversation
    probe: str = ""

    def apply(self, messages: list[Message]) -> list[Message]:
        """Repair the conversation."""
        return _apply(self.repairs, messages)

    def dress(self, messages: list[Message]) -> list[Message]:
        """Put the messages into the form that the template wants."""
        return repairs.without_parts(_apply(self.forms, messages))


def _apply(steps: tuple[Repair, ...], messages: list[Message]) -> list[Message]:
    for step in steps:
        messages = step(messages)
    return messages


def mark(index: int) -> str:
    """Return the marker word of a message: letters and digits only, so that no filter changes it."""
    return f"qzmark{index}x"


def marked(messages: list[Message]) -> list[Message]:
    """Return the messages with marker words for their texts; empty texts stay empty."""
    return [_marked(i, m) for i, m in enumerate(messages)]


def _marked(index: int, message: Message) -> Message:
    words: Message = {"content": mark(index)} if message["content"].strip() else {}
    if parts := message.get(repairs.PARTS):
        # The first written part bears the message's own word, the others words of no message.
        written = [place for place, text in enumerate(parts) if text.strip()]
        names = {place: mark(index + _PART * n) for n, place in enumerate(written)}
        words[repairs.PARTS] = [names.get(place, text) for place, text in enumerate(parts)]
    if message.get("tool_calls"):  # the name itself also stands among the tools
        words["tool_calls"] = [
            _named(item, f"{_CALL}{index}x{n}") for n, item in enumerate(message["tool_calls"])
        ]
    return {**message, **words}


def _named(item: Any, name: str) -> Any:
    """Return a call under another name."""
    body = item.get("function", item) if isinstance(item, dict) else None
    if not isinstance(body, dict) or not isinstance(body.get("name"), str):
        return item
    return {**item, "function": {**body, "name": name}} if body is not item else {**item, "name": name}


_CALL = "qzcall"
_PART = 1_000_000  # above all indices of messages


def shape(messages: list[Message]) -> list[Message]:
    """Return the shortest conversation of the same kinds of exchanges; only alternating ones are cut."""
    head = 1 if messages and messages[0]["role"] == "system" else 0
    turns = messages[head:]
    if len(turns) <= 4 or not all(
        m["role"] == ("assistant" if i % 2 else "user") and m.keys() <= _TEXTS for i, m in enumerate(turns)
    ):
        return messages
    kept: list[Message] = []
    seen: Counter[tuple[Any, ...]] = Counter()
    for one in range(0, len(turns) - 1, 2):
        pair = turns[one : one + 2]
        kind = tuple((bool(m["content"].strip()), *sorted(m.keys())) for m in pair)
        seen[kind] += 1
        if seen[kind] <= 2 - len(turns) % 2:  # two of each, or one and the last turn
            kept += pair
    return [*messages[:head], *kept, *turns[len(turns) - len(turns) % 2 :]]


_TEXTS = frozenset({"role", "content", *repairs.REASONING})  # no tool calls, whose places matter


def key(messages: list[Message], variables: dict[str, Any]) -> str:
    """Return a key by which conversations of one shape are alike."""
    turns = [
        (m["role"], bool(m["content"].strip()), len(m.get(repairs.PARTS, ())), *sorted(m.keys() - {"role"}))
        for m in messages
    ]
    calls = [m.get("tool_calls") for m in messages if m.get("tool_calls")]
    return repr((turns, calls, sorted((k, repr(v)) for k, v in variables.items())))


def make_plan(run: Run, messages: list[Message], variables: dict[str, Any], bos: str = "") -> TemplatePlan:
    """Return the smallest repair with which the template writes each message once.

    Raises TemplateError, naming message and role, where nothing helps.
    """
    useful = [repair for repair in _ORDER if repair(messages) != messages]
    forms = [form for form in _FORMS if not form or _apply(form, messages) != messages]
    if not any(m.get(repairs.PARTS) for m in messages):
        forms = [form for form in forms if repairs.in_parts not in form]
    attempts: list[_Attempt] = []
    # Each trial is within the limit of a template; all together are within this.
    until = time.thread_time() + MAX_SECONDS / 2 + len(messages) * _SECONDS_PER_MESSAGE
    for count in range(len(useful) + 1):
        for chosen in itertools.combinations(useful, count):
            for form in forms:
                attempt = _try(run, messages, variables, TemplatePlan(chosen, form))
                if attempt.error is not None and isinstance(attempt.error.__cause__, LimitError):
                    raise attempt.error  # each further try would cost the whole limit again
                if attempt.good and not attempt.plan.calls_lost and not attempt.opens_again(bos):
                    return attempt.plan
                attempts.append(attempt)
                if time.thread_time() > until:
                    raise TemplateError(
                        "The chat template was stopped: it takes too long to see how it writes a few words.",
                        remedy=f"Choose another: {option('formatter', 'NAME')}, or a file, PATH.jinja.",
                    ) from LimitError("probes")
    # Tool calls and results may be left out of a prompt, turns may not. A second BOS is a last resort.
    for attempt in attempts:
        if attempt.good:
            return attempt.plan
    for attempt in attempts:
        if attempt.error is None and all(messages[i]["role"] in _TOOL_ROLES for i in attempt.missing):
            return replace(attempt.plan, lost=(*attempt.plan.lost, *attempt.missing))
    raise _refusal(messages, attempts[0])


_SECONDS_PER_MESSAGE = 0.001  # templates that are heavy take some 30 us, and are tried a dozen times
_TOOL_ROLES = ("tool", "function", "ipython")


@dataclass(frozen=True)
class _Attempt:
    plan: TemplatePlan
    messages: list[Message]
    error: TemplateError | None = None
    missing: tuple[int, ...] = ()

    @property
    def good(self) -> bool:
        return self.error is None and not self.missing

    def opens_again(self, bos: str) -> bool:
        """Say whether a BOS stands before a later system text, as if the conversation began again."""
        pieces = _MARK.split(self.plan.probe)
        return bool(bos) and any(
            self.messages[int(index)]["role"] == "system" and bos in before
            for before, index in zip(pieces[2::2], pieces[3::2], strict=False)
            if int(index) < len(self.messages)
        )


def _try(run: Run, messages: list[Message], variables: dict[str, Any], plan: TemplatePlan) -> _Attempt:
    originals = marked(messages)
    try:
        text = run(plan.dress(plan.apply(originals)), variables)
    except TemplateError as error:
        return _Attempt(plan, messages, error)
    missing = tuple(i for i, m in enumerate(originals) if any(w not in text for w in _words(m, plan)))
    if repairs.in_parts in plan.forms and _AS_DATA.search(text):
        missing = tuple(range(len(originals)))  # it writes the list itself, not the texts in it
    order = [number for word in _MARK.findall(text) if (number := int(word)) < _PART]
    late = frozenset(
        originals[i]["role"]
        for place, i in enumerate(order)
        if i < len(originals) and any(j > i for j in order[:place])
    )
    calls = [name for m in originals for name in _called(m)]
    lost = any(name not in text for name in calls)
    # Where a template writes the calls of a message, leaving out the text beside them is its own form.
    beside = tuple(i for i in missing if messages[i].get("tool_calls") and not lost)
    missing = tuple(i for i in missing if i not in beside)
    plan = replace(plan, calls_lost=lost, lost=beside, before=_before(text, messages), late=late, probe=text)
    return _Attempt(plan, messages, None, missing)


def _words(message: Message, plan: TemplatePlan) -> list[str]:
    """Return the marker words of a message that must stand in the prompt."""
    parts = message.get(repairs.PARTS) if repairs.in_parts in plan.forms else None
    return [text for text in (parts or [message["content"]]) if text.strip()]


def _called(message: Message) -> list[str]:
    """Return the names of the functions that a message calls."""
    items = message.get("tool_calls") or []
    bodies = [item.get("function", item) for item in items if isinstance(item, dict)]
    return [body["name"] for body in bodies if isinstance(body, dict) and isinstance(body.get("name"), str)]


def _before(text: str, messages: list[Message]) -> dict[str, tuple[str, ...]]:
    """Return for each role what stands just before its texts, at most 24 characters."""
    found: dict[str, set[str]] = {}
    end = 0
    for match in _MARK.finditer(text):
        index = int(match.group(1))
        lead = text[max(end, match.start() - 24) : match.start()]
        if index < len(messages) and lead.strip():
            found.setdefault(messages[index]["role"], set()).add(lead)
        end = match.end()
    return {role: tuple(sorted(leads, key=len, reverse=True)) for role, leads in found.items()}


def _refusal(messages: list[Message], first: _Attempt) -> TemplateError:
    if first.error is not None:
        roles = ", ".join(f"[{i}] {m['role']}" for i, m in enumerate(messages[:8]))
        more = ", …" if len(messages) > 8 else ""
        return TemplateError(
            f"{first.error.said[0]} The conversation was: {roles}{more}.",
            remedy=first.error.said[1]
            or f"Change the order of the messages, or choose another {option('formatter')}.",
        )
    index = first.missing[0]
    return TemplateError(
        f"The chat template leaves out messages[{index}] (role {messages[index]['role']!r}).",
        remedy=f"Use the roles system, user, assistant and tool, or choose another {option('formatter')}.",
    )


def glue(probe: str) -> list[str]:
    """Return what the template itself wrote before, between and after the texts of a probe.

    Of what stands before the first text only the end: a default system prompt may be there.
    """
    first, *rest = [text for place, text in enumerate(_MARK.split(probe)) if place % 2 == 0]
    return [first[-60:], *rest]


def turn_marks(pieces: Iterable[str]) -> frozenset[str]:
    """Return the strings by which a template opens and closes turns.

    Control-like marks ("<|im_start|>", "[INST]"); where a stretch has none, its lines that end in
    a colon ("USER:", "### Instruction:").
    """
    marks: set[str] = set()
    for text in pieces:
        found = CONTROL_LIKE.findall(text)
        marks.update(found)
        if not found:
            marks.update(line.strip() for line in text.splitlines() if _ROLE_LINE.fullmatch(line))
    return frozenset(marks)
