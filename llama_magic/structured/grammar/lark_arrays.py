"""Lark rules for arrays whose items depend on each other: unique ones of a finite set, and `contains`."""

from __future__ import annotations

from typing import Any

from llama_magic.structured.grammar.lark_writer import RuleWriter


def array_rule(writer: RuleWriter, rule: dict[str, Any]) -> str:
    """Write the rule of an array; return its name."""
    return _unique(writer, rule) if rule["unique"] else _counted(writer, rule)


def _unique(writer: RuleWriter, rule: dict[str, Any]) -> str:
    """The parameter of the rule is the set of values that were written, those `contains` asks for first."""
    values = [*rule["fitting"], *rule["others"]]
    wanted, count = len(rule["fitting"]), len(values)
    ends = [f"bit_count_ge([0:{count}], {rule['low']})"] if rule["low"] else []
    ends += [f"bit_count_ge([0:{wanted}], {rule['least']})"] if rule["least"] else []
    rest = writer.later_rule()
    first, more = [], []
    for index, value in enumerate(values):
        item = writer.leaf({"enum": [value]})
        guards = [f"bit_clear({index})"]
        guards += [f"bit_count_lt([0:{count}], {rule['high']})"] if rule["high"] < count else []
        if rule["most"] is not None and index < wanted:
            guards.append(f"bit_count_lt([0:{wanted}], {int(rule['most'])})")
        more.append(f"{writer.comma} {item} {rest}::set_bit({index}) %if {_all(guards)}")
        if rule["high"] > 0 and not (rule["most"] == 0 and index < wanted):
            first.append(f"{item} {rest}::{1 << index}")
    condition = f"%if {_all(ends)}" if ends else ""
    writer.write_later(rest, [f'{writer.blank} "]" {condition}', *more], head=f"{rest}::_ ")
    lines = [f'"[" {writer.blank} ({" | ".join(first)})'] if first else []
    return writer.rule(*([] if ends else [f'"[" {writer.blank} "]"']), *lines)


def _all(conditions: list[str]) -> str:
    together = conditions[0]
    for condition in conditions[1:]:
        together = f"and({together}, {condition})"
    return together


def _counted(writer: RuleWriter, rule: dict[str, Any]) -> str:
    """One rule for each (number of items, number of them that fit), as far as these are to be told apart."""
    if "item" in rule:
        kinds = [(writer.emit(rule["item"]), 0), (writer.emit(rule["wanted"]), 1)]
    else:
        pairs = ((rule["others"], 0), (rule["fitting"], 1))
        kinds = [(writer.leaf({"enum": values}), more) for values, more in pairs if values]
    steps = _steps(rule, [more for _, more in kinds])
    if (0, 0) not in steps:
        return writer.leaf(False)
    names = {state: writer.later_rule() for state in steps}
    for state, targets in steps.items():
        comma = writer.comma if state[0] else writer.blank
        ways = [
            f"{comma} {item} {names[target]}"
            for (item, _), target in zip(kinds, targets, strict=True)
            if target in names
        ]
        ends = state[0] >= rule["low"] and state[1] >= rule["least"]
        writer.write_later(names[state], [*ways, *([f'{writer.blank} "]"'] if ends else [])])
    return writer.rule(f'"[" {names[0, 0]}')


_State = tuple[int, int]


def _steps(rule: dict[str, Any], kinds: list[int]) -> dict[_State, list[_State | None]]:
    """Return, for each state from which the array can end, the state after an item of each kind."""
    low, high, least, most = rule["low"], rule["high"], rule["least"], rule["most"]
    top = max(1, low if high is None else high)
    best = least if most is None else int(most)

    def after(state: _State, more: int) -> _State | None:
        count, fits = state
        if (high is not None and count >= high) or (most is not None and fits + more > best):
            return None
        return min(count + 1, top), min(fits + more, best)

    states = [(count, fits) for count in range(top + 1) for fits in range(best + 1)]
    steps = {state: [after(state, more) for more in kinds] for state in states}
    alive = {state for state in states if state[0] >= low and state[1] >= least}
    while more_alive := {s for s in states if s not in alive and alive.intersection(steps[s])}:
        alive |= more_alive
    return {state: targets for state, targets in steps.items() if state in alive}
