"""Boards in real JupyterLab: sliders and stages by keyboard and mouse, and what is heard of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from browser.boards import board, saved


def test_sliders_move_by_keyboard_and_what_they_lead_to_is_heard(tab: Any) -> None:
    """Every slider and field has a name; an arrow key redraws; one sentence is announced after a rest."""
    live = board(tab)
    for control in live.locator("[role=slider], [role=textbox], input, textarea").all():
        named = control.get_attribute("aria-label") or control.evaluate("n => n.labels?.[0]?.textContent")
        assert named, control.evaluate("n => n.outerHTML")
    handle = live.get_by_role("slider", name="temperature")
    assert handle.get_attribute("aria-description") == "0 is greedy, more is bolder"
    handle.focus()
    tab.page.keyboard.press("Shift")  # from here on the keyboard is what is used: focus is seen
    assert handle.evaluate("n => getComputedStyle(n).outlineStyle") == "solid"
    for _ in range(4):
        tab.page.keyboard.press("ArrowRight")
    live.get_by_text("--temperature 1 --top-k 40").wait_for()
    region = live.locator("[role=status]").last.element_handle()
    tab.page.wait_for_function("r => /tokens are left of 49,152.*is drawn/.test(r.textContent)", arg=region)
    assert region.text_content().count("left of") == 1
    tab.shot("board-focus")
    for _ in range(20):
        tab.page.keyboard.press("ArrowLeft")
    live.locator(".lm-warn", has_text="greedy decoding: top_k, top_p and min_p are not used").wait_for()
    tab.page.wait_for_function("r => r.textContent.includes('greedy decoding')", arg=region)
    assert not tab.errors
    assert not tab.elsewhere


def test_the_whole_board_is_reached_by_tab(tab: Any) -> None:
    """Sliders, numbers, seed, order, buttons in reading order, each with a focus that is seen."""
    live = board(tab)
    live.get_by_role("slider", name="temperature").focus()
    seen = []
    where = (
        "() => { const n = document.activeElement;"
        " return n.getAttribute('aria-label') || n.textContent || n.labels?.[0]?.textContent; }"
    )
    for _ in range(20):
        tab.page.keyboard.press("Tab")
        seen.append(tab.page.evaluate(where))
        outline = tab.page.evaluate("() => getComputedStyle(document.activeElement).outline")
        assert "solid 2px" in outline, seen[-1]
    assert live.locator('[title="null"]:visible').count() == 0  # ipywidgets' word where no tooltip is given
    assert seen[:3] == ["temperature, as a number", "top_k", "top_k, as a number"]
    assert seen[11:14] == ["seed", "penalties off", "penalties later"]
    buttons = [
        "Show more samplers, the order as text",
        "Next seed",
        "Draw 100 times",
        "Reset",
        "Keep as output",
        "what the stages do",
    ]
    assert seen[-6:] == buttons
    live.get_by_role("button", name="Show more samplers, the order as text").press("Enter")
    live.get_by_role("slider", name="xtc_probability").wait_for()
    tab.shot("board-more")
    live.get_by_role("button", name="Hide more samplers, the order as text").press("Enter")
    live.get_by_role("slider", name="xtc_probability").wait_for(state="hidden")


def stages(live: Any) -> list[str]:
    """Return the names in the row of stages; assert that the table has those that are on in that order."""
    chips = live.locator(".lm-stage")
    names = [chip.get_attribute("data-stage") for chip in chips.all()]
    ran = [name for name, chip in zip(names, chips.all(), strict=True) if " off" not in chip.inner_text()]
    live.locator("tbody").first.get_by_text(ran[0]).wait_for()
    shown = [row.inner_text().split()[0] for row in live.locator("tbody").first.locator("tr").all()]
    assert shown == ["logits", *ran, "draw"]
    return names


def test_stages_are_moved_by_keyboard(tab: Any) -> None:
    """One stop of Tab; arrows go from stage to stage, Alt and an arrow move it, two buttons do the same; its
    place is heard, the focus stays on it, and the chain runs in that order."""
    live = board(tab)
    before = stages(live)
    live.locator('.lm-stage[tabindex="0"]').focus()
    for _ in range(len(before) - 1):
        tab.page.keyboard.press("ArrowRight")
    focused = "() => document.activeElement.dataset.stage"
    assert tab.page.evaluate(focused) == "temperature"
    tab.page.keyboard.press("ArrowRight")  # there is none after it
    for _ in range(3):
        tab.page.keyboard.press("Alt+ArrowLeft")
    assert tab.page.evaluate(focused) == "temperature"
    heard = live.locator("[role=status]").first
    assert heard.text_content() == "temperature is now stage 6 of 9."
    order = ["penalties", "dry", "top_n_sigma", "top_k", "typical_p", "temperature", "top_p", "min_p", "xtc"]
    live.get_by_text(f'--samplers "{";".join(order)}"').wait_for()
    assert stages(live) == order
    assert live.get_by_label("order").input_value() == ";".join(order)
    live.get_by_role("button", name="temperature later").press("Enter")
    order[5:7] = ["top_p", "temperature"]
    live.get_by_text(f'--samplers "{";".join(order)}"').wait_for()
    assert stages(live) == order
    live.get_by_role("button", name="Reset").press("Enter")
    live.get_by_text("--samplers").wait_for(state="detached")
    assert stages(live) == before
    assert not tab.errors


def test_a_stage_is_dragged(tab: Any) -> None:
    """It changes places with those it passes while the pointer is down; Escape puts all back; a press is no
    drag. The kernel is asked when it is let go."""
    live = board(tab)
    before = stages(live)
    chip = live.locator('.lm-stage[data-stage="temperature"]')

    def over(name: str) -> list[str]:
        """Press on the stage and go over another, a bit behind its middle; return what stands there then."""
        chip.scroll_into_view_if_needed()
        box, other = chip.bounding_box(), live.locator(f'.lm-stage[data-stage="{name}"]').bounding_box()
        tab.page.mouse.move(box["x"] + 9, box["y"] + 9)
        tab.page.mouse.down()
        tab.page.mouse.move(box["x"] + 12, box["y"] + 9)
        tab.page.mouse.move(other["x"] + other["width"] * 0.4, other["y"] + other["height"] / 2)
        return [str(stage.get_attribute("data-stage")) for stage in live.locator(".lm-stage").all()]

    moved = [name for name in before if name != "temperature"]
    moved.insert(moved.index("top_p"), "temperature")
    assert over("top_p") == moved
    tab.shot("board-drag")
    tab.page.keyboard.press("Escape")
    assert stages(live) == before
    tab.page.mouse.up()
    assert over("top_p") == moved
    assert live.locator("tbody").first.locator("tr").nth(2).inner_text().startswith("top_p")
    tab.page.mouse.up()
    live.get_by_text(f'--samplers "{";".join(moved)}"').wait_for()
    assert stages(live) == moved
    chip.click()
    assert stages(live) == moved
    assert chip.get_attribute("aria-pressed") == "true"
    assert not tab.errors


def test_a_hundred_draws_are_shown(tab: Any) -> None:
    """A row a token: how often it came, a bar as long as that beside one for its probability, and seeds."""
    live = board(tab)
    live.get_by_role("button", name="Draw 100 times").press("Enter")
    live.get_by_text("seeds of 100 would have drawn another token").wait_for()
    rows = [row.locator("td").all_inner_texts() for row in live.locator("tbody").nth(1).locator("tr").all()]
    assert sum(int(row[1]) for row in rows) == 100
    assert [row[2] for row in rows] == [f"{row[1]}%" for row in rows if int(row[1]) > 9] + [
        f"{row[1]}.0%" for row in rows if int(row[1]) <= 9
    ]
    widths = "n => n.getBoundingClientRect().width"
    first, second = live.locator("tbody").nth(1).locator("tr").first.locator(".lm-p").all()
    share = first.evaluate(widths) / second.evaluate(widths)
    assert share == pytest.approx(int(rows[0][1]) / float(rows[0][3].rstrip("%")), rel=0.05)
    region = live.locator("[role=status]").last.element_handle()
    tab.page.wait_for_function("r => /would have drawn another/.test(r.textContent)", arg=region)
    tab.shot("board-draws")
    assert tab.contrast(".lm-board .lm") >= 4.5
    assert "would have drawn another token" in saved(tab)[0]["text/plain"]


def test_an_order_as_text(tab: Any) -> None:
    """A mistake is said beside the last good table; the order then changes the stages."""
    live = board(tab)
    live.get_by_role("button", name="the order as text").press("Enter")
    order = live.get_by_label("order")
    order.fill("temperature;topk")
    order.press("Enter")
    live.get_by_text("Did you mean top_k?").wait_for()
    assert live.locator("tbody tr").count() == 6
    order.fill("temperature;top_k")
    order.press("Enter")
    live.get_by_text('--samplers "temperature;top_k"').wait_for()
    assert [row.inner_text().split("\t")[0] for row in live.locator("tbody tr").all()] == [
        "logits",
        "temperature 0.8",
        "top_k 40",
        "draw",
    ]


def test_boards_follow_the_theme(tab: Any) -> None:
    """Every text of both boards has a contrast of 4.5 or more, in both themes."""
    tab.run(2)
    tab.cell(2).locator(".lm-board textarea").wait_for()
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        tab.theme(theme)
        tab.shot(f"board-{theme[-5:].strip().lower()}")
        assert tab.contrast(".lm-board .lm") >= 4.5, theme
        assert tab.contrast(".lm-board .widget-label") >= 4.5, theme


def test_a_board_has_one_left_edge_and_the_letters_of_what_is_saved(tab: Any) -> None:
    """No button stands out of line; a view on it is as large as an output; a field's ring is not cut off."""
    live = board(tab)
    edge = live.evaluate("n => n.getBoundingClientRect().x")
    buttons = live.get_by_role("button", name=re.compile("^(Next seed|Show more samplers.*)$"))
    assert [one.evaluate("n => n.getBoundingClientRect().x") for one in buttons.all()] == [edge] * 2
    assert live.locator(".lm").last.evaluate("n => getComputedStyle(n).fontSize") == "14px"
    field = live.get_by_label("seed")
    field.focus()
    tab.page.keyboard.press("Shift")
    assert field.evaluate("n => getComputedStyle(n).outlineOffset") == "-2px"


def test_a_narrow_window_holds_the_board(tab: Any) -> None:
    """On a phone, and at the width of a side panel, nothing is cut off, and a slider has room to be moved."""
    live = board(tab)
    tab.page.keyboard.press("Control+b")
    tab.page.set_viewport_size({"width": 380, "height": 900})
    tab.shot("board-narrow")
    assert live.locator(".noUi-target").first.bounding_box()["width"] > 120
    for part in [live, *live.locator(".widget-slider, .widget-text, button, .lm-head").all()]:
        assert part.evaluate("n => n.scrollWidth <= n.clientWidth + 1"), part.evaluate("n => n.className")
    table = live.locator(".lm").last
    assert table.evaluate("n => getComputedStyle(n).overflowX") == "auto"
