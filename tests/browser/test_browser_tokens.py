"""The live token strip in real JupyterLab: typed in by keyboard, heard, saved, read later."""

from __future__ import annotations

from typing import Any

from browser.cells import assert_saved_well

LOAD = "%load_ext llama_magic\n%llama load --ctx 512 --threads 1"
READY = "%llama tokens --live The three"


def test_strip_and_count_follow_the_typing(opened: Any) -> None:
    """What is typed is drawn after a rest, and its count heard; the field keeps focus and caret; what stands
    there is saved, and read without the kernel."""
    tab = opened("typing.ipynb", [LOAD, READY])
    tab.run(0)
    tab.finished(0)
    tab.run(1)
    board = tab.cell(1).locator(".lm-board")
    field = board.locator('textarea[aria-label="Text to cut into tokens"]')
    field.wait_for()
    board.get_by_text("2 tokens", exact=False).first.wait_for()
    field.focus()
    tab.page.keyboard.press("End")
    tab.page.keyboard.type(" dinosaurs 🦕, naïvely", delay=5)
    tab.page.keyboard.press("Home")
    tab.page.keyboard.type("Oh: ")
    board.locator("kbd", has_text="🦕\u00a03/3").wait_for()
    board.locator("kbd", has_text="Oh").wait_for()
    assert field.input_value() == "Oh: The three dinosaurs 🦕, naïvely"
    assert tab.page.evaluate("() => document.activeElement.tagName") == "TEXTAREA"
    count = board.locator("p .lm-strip kbd, .lm-strip kbd").count()
    board.get_by_text(f"{count} tokens", exact=True).wait_for()
    region = board.locator("[role=status]").element_handle()
    tab.page.wait_for_function(
        "([r, n]) => r.textContent.startsWith(n + ' tokens, 34 characters')", arg=[region, count]
    )
    assert [seen for _, seen in tab.children(1)] == [False, True]
    tab.shot("board-tokens")
    assert tab.contrast(".lm-board .lm") >= 4.5
    tab.cell(0).locator(".jp-InputPrompt").click()  # ipywidgets' fields keep Ctrl+S to themselves
    assert_saved_well({"cells": [], "metadata": tab.save()["metadata"]})
    tab.reopen()
    tab.cell(1).locator(".jp-OutputArea-child").nth(1).wait_for(state="hidden")
    assert [seen for _, seen in tab.children(1)] == [True, False]
    assert "%%llama tokens\nOh: The three dinosaurs 🦕, naïvely" in tab.children(1)[0][0]
    assert not tab.errors
    assert not tab.elsewhere
