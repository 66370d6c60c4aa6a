"""Hostile answers in JupyterLab: nothing runs, nothing is fetched, every word is there."""

from __future__ import annotations

from typing import Any

import hostile

from browser.cells import HELD, IMPORTS


def test_hostile_answers_in_the_live_view_and_reopened(opened: Any) -> None:
    """A hundred hostile texts, each as HTML and as Markdown, all in a live view, a long one: nothing runs,
    nothing is fetched, every word is there, also in the saved notebook, reopened and trusted."""
    show = "import hostile\nfrom display_answers import completion\n"
    show += "for t in hostile.TEXTS: d.show(completion(t), format={!r})"
    live = (
        "text = ''.join(t + '\\n\\nnext\\n\\n' for t in hostile.TEXTS)\n"
        f"s = stream(Script(text, {HELD}), max_tokens=3900)\n"
        "d.show_stream(s, title='chat', model_name='m')"
    )
    whole = "d.show_stream(stream(' '.join([hostile.LONG[:100000]] * 2)), title='chat', model_name='m');"
    rows = [IMPORTS, show.format("html"), live + ";", show.format("markdown"), whole]
    tab = opened("hostile.ipynb", rows)
    for index in range(2):
        tab.run(index)
    tab.finished(1)
    tab.run(2)
    tab.live(2).get_by_text("next").last.wait_for()
    tab.shot("lab-hostile-live")
    tab.release()
    tab.finished(2)
    for index in (3, 4):
        tab.run(index)
        tab.finished(index)
    assert_dead(tab)
    shown = tab.cell(1).inner_text()
    for text in hostile.TEXTS:
        for word in hostile.words(text):
            assert word in shown
    tab.shot("lab-hostile")
    assert_saved_well_hostile(tab.save())
    tab.reopen()
    tab.command("notebook:trust")
    tab.static(1, "onerror")
    # What would act late acts before this: a broken image reports its error after those that were there.
    tab.page.evaluate(
        "() => new Promise((end) => Object.assign(document.body.appendChild(new Image()),"
        " { onerror: end, src: '/nothing.png' }).remove())"
    )
    assert_dead(tab)
    tab.shot("lab-hostile-reopened")


def assert_dead(tab: Any) -> None:
    """Assert that no text ran, opened a dialog, fetched an address, or became an element that could."""
    assert tab.page.evaluate("() => window.pwned") is None
    assert not tab.dialogs
    assert not [address for address in tab.elsewhere if "evil" in address]
    outputs = tab.page.locator(".jp-OutputArea-output")
    assert (
        outputs.locator(
            "script, iframe, object, embed, form, img, video, audio, base, meta, svg:not(.lm *)"
        ).count()
        == 0
    )
    assert outputs.locator("mjx-container, .MathJax").count() == 0
    assert outputs.locator('a[href]:not([href^=http]):not([href^="#"])').count() == 0


def assert_saved_well_hostile(notebook: dict[str, Any]) -> None:
    """As `assert_saved_well`, but the words `<script` may stand in plain text and receipts."""
    assert "widgets" not in notebook["metadata"]
    for output in (output for one in notebook["cells"] for output in one["outputs"] if "data" in output):
        assert "application/vnd.jupyter.widget-view+json" not in output["data"]
        for kind in ("text/html", "text/markdown"):
            if kind in output["data"] and kind == "text/html":
                assert "<script" not in "".join(output["data"][kind])
