"""JupyterLab in a real browser: streaming, stopping, saving, the demo model, the prompt pad."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from browser.cells import BEGUN, HELD, IMPORTS, LINGERS, assert_saved_well, cell

MD = "## Plan\n\nBuy **eggs** and `flour`.\n\n- first\n- second\n\n```python\nprint('<b>')\n```\n\nDone. "


def test_stream_then_static_then_saved_reloaded_and_restarted(opened: Any) -> None:
    """Text grows, is replaced by static output, and stands after save, reload and restart. A restart in the
    middle of an answer leaves in its place what had come, and that is saved."""
    tab = opened("stream.ipynb", [IMPORTS, cell(repr(MD), HELD), BEGUN], own_kernel=True)
    tab.run(0)
    tab.run(1)
    live = tab.live(1)
    live.locator("strong", has_text="eggs").wait_for()
    tab.shot("lab-live")
    words = live.inner_text()
    assert re.search(r"100 prompt \+ \d+ written of 4,096 tokens", words)
    assert "first token" in words
    tab.release()
    static = tab.static(1, "Done.")
    assert tab.cell(1).locator(".lm-live").count() == 0
    assert static.locator(".lm-text li").count() == 2
    assert static.locator("pre code").inner_text().strip() == "print('<b>')"
    tab.shot("lab-static")
    assert_saved_well(tab.save(), "application/vnd.llama-magic.v1+json", "text/plain", "ended by itself")
    tab.reload()
    tab.wait_idle()
    assert tab.static(1, "Done.").locator("strong").inner_text() == "eggs"
    tab.shot("lab-reloaded")
    tab.run(0)
    tab.run(2)
    tab.live(2).get_by_text("word20").wait_for()
    tab.restart()
    tab.cell(2).locator(".lm-live").wait_for(state="detached")
    assert_saved_well(tab.save(), "word20", "The kernel ended before the answer did.")
    assert "Buy eggs and flour." in tab.static(1, "Done.").inner_text()
    tab.run(0)
    tab.run(1)
    tab.live(1)
    tab.release()
    tab.static(1, "Done.")
    tab.shot("lab-restarted")
    assert not tab.elsewhere
    assert not tab.errors


def test_stop_while_writing_keeps_the_text(opened: Any) -> None:
    """The Stop button reaches the busy kernel at once; the text stays and the model is usable at once."""
    tab = opened("stop.ipynb", [IMPORTS, BEGUN, cell("'again'")])
    tab.run(0)
    tab.run(1)
    live = tab.live(1)
    live.get_by_text("word20").wait_for()
    stop = live.get_by_role("button", name="Stop")
    stop.focus()
    tab.shot("lab-stop-focus")
    tab.page.keyboard.press("Enter")
    static = tab.static(1, "stopped before its end")
    assert "word20" in static.inner_text()
    assert "Interrupted: what was written is kept." in tab.cell(1).inner_text()
    tab.shot("lab-stopped")
    tab.run(2)
    tab.static(2, "again")
    assert_saved_well(
        tab.save(), "stopped before its end", '\\"finish_reason\\": \\"interrupted\\"'.replace("\\", "")
    )


def test_stop_while_the_prompt_is_read(opened: Any) -> None:
    """Reading is told in tokens, and Stop works in it."""
    tab = opened("reading.ipynb", [IMPORTS, cell("'x'", "reading=threading.Event()")])
    tab.run(0)
    tab.run(1)
    live = tab.live(1)
    live.get_by_text(re.compile(r"reading the prompt: \d+ of 100")).wait_for()
    tab.shot("lab-reading")
    live.get_by_role("button", name="Stop").click()
    tab.static(1, "stopped before its end")


def test_two_cells_one_after_the_other_and_a_rerun(opened: Any) -> None:
    """Queued cells each show their own text; running one again gives the same output in the same place."""
    one, two = (cell(f"'{word} ' * 30", HELD) for word in ("one", "two"))
    tab = opened("two.ipynb", [IMPORTS, one, two])
    for index in range(3):
        tab.run(index)
    tab.live(1)
    tab.release()
    tab.live(2)
    tab.release()
    assert "two" in tab.static(2, "two").inner_text()
    first = tab.static(1, "one").inner_html()
    assert "two" not in first
    tab.run(1)
    tab.live(1)
    tab.release()
    assert tab.static(1, "one").inner_html() == first
    assert tab.output(1).count() == 1


def test_a_cell_run_again_and_again_saves_as_one_small_output(opened: Any) -> None:
    """Equal each time with a seed, under 100 kB, without widget state."""
    tab = opened("again.ipynb", [IMPORTS, cell("'word ' * 200", options="seed=7")])
    tab.run(0)
    outputs = set()
    for _ in range(5):
        tab.run(1)
        tab.finished(1)
        outputs.add(tab.static(1, "word").inner_html())
    assert len(outputs) == 1
    notebook = tab.save()
    assert_saved_well(notebook)
    assert len(json.dumps(notebook)) < 100_000
    assert len(notebook["cells"][1]["outputs"]) == 1


def test_structured_answers_fill_a_form(opened: Any) -> None:
    """Fields not yet written are greyed, and fill while the answer is generated, inner ones in place."""
    ada = '{"name": "Ada", "home": {"town": "London", "zip": 12345}, "wrote": "Notes"}'
    kind = (
        "import pydantic\nclass Home(pydantic.BaseModel):\n    town: str\n    zip: int\n"
        "class Person(pydantic.BaseModel):\n    name: str\n    home: Home\n    wrote: str\n"
    )
    at = ada.index('"wrote"')
    source = kind + cell(repr(ada), f"at={at}, hold=threading.Event()", "mode='structured', schema=Person")
    tab = opened("form.ipynb", [IMPORTS, source])
    tab.run(0)
    tab.run(1)
    live = tab.live(1)
    live.get_by_text("12345").wait_for()
    rows = live.locator("tbody tr").all()
    assert [row.locator("td").all_inner_texts() for row in rows] == [
        ["name", "Ada"],
        ["home.town", "London"],
        ["home.zip", "12345"],
        ["wrote", "not yet"],
    ]
    assert live.locator(".lm-empty").all_inner_texts() == ["not yet"]
    tab.shot("lab-form")


def test_the_live_region_announces_sentences(opened: Any) -> None:
    """Screen readers hear whole sentences, not tokens."""
    tab = opened("heard.ipynb", [IMPORTS, cell("'One two. Three four' + ' more' * 80", HELD)])
    tab.run(0)
    tab.run(1)
    region = tab.live(1).locator("[aria-live=polite]")
    tab.page.wait_for_function("r => r.textContent.includes('two')", arg=region.element_handle())
    assert region.inner_text().strip() == "One two."


def test_five_hundred_tokens_a_second_are_shown_live(opened: Any) -> None:
    """2,000 tokens in 4 s, from the first to the last, while the answer is still open; it ends whole."""
    text = "''.join('word%d ' % i + '\\n\\n' * (i % 40 == 39) for i in range(2000))"
    script = f"delay=1 / 500, {HELD}"
    tab = opened("fast.ipynb", [IMPORTS, cell(text, script, "max_tokens=3900")])
    tab.run(0)
    tab.run(1)
    live = tab.live(1)
    live.locator(".lm-text").get_by_text("word1999").wait_for()
    words = [f"word{i}" for i in range(2000)]
    assert live.locator(".lm-text").inner_text().split() == words
    tab.release()
    static = tab.static(1, "word1999")
    assert static.locator(".lm-text").inner_text().split() == words
    assert static.locator(".lm-text p").count() == 50


def test_the_demo_model_writes_in_the_live_view(opened: Any) -> None:
    """A seeded chat with SmolLM2: text and figures come live, and the static output is what was written; run
    again, it is the same to the letter."""
    asks = "%%llama chat -n 32 --seed 7 -o r\nsystem: You are a storyteller.\nuser: Tell a story of a dragon."
    load = f"%llama load --ctx 1024 --threads 1\n{LINGERS}"
    tab = opened("demo.ipynb", ["%load_ext llama_magic", load, asks, "print(repr(r.text))"])
    tab.run(0)
    tab.run(1)
    tab.finished(1)
    tab.run(2)
    live = tab.live(2)
    live.get_by_text("tok/s").first.wait_for()
    live.locator(".lm-text", has_text=re.compile(r"(\S+\s+){15}")).wait_for()
    seen = live.inner_text()
    tab.release()
    first = tab.static(2, "written of 1,024 tokens")
    answer = first.locator(".lm-text").inner_text()
    html = first.inner_html()
    assert len(answer.split()) > 15
    assert answer[:20] in seen
    assert "prompt +" in seen
    tab.run(3)
    tab.finished(3)
    written = ast.literal_eval(tab.output(3).inner_text().strip())
    assert re.sub(r"\W", "", written) == re.sub(r"\W", "", answer)
    tab.run(2)
    tab.finished(2)
    assert tab.static(2, "written of").inner_html() == html
    tab.shot("lab-demo")
    assert_saved_well(tab.save(), answer[:20])


def test_guesses_are_shown_while_they_are_proved(opened: Any) -> None:
    """Under the text: how many came, those that did underlined, the others crossed out."""
    watch = (
        "() => { window.guessed = []; new MutationObserver(() => {"
        " for (const line of document.querySelectorAll('.lm-live .lm-foot:not([hidden])'))"
        " if (line.textContent.includes('guesses'))"
        " window.guessed.push([line.textContent, line.innerHTML]); })"
        ".observe(document.body, { subtree: true, childList: true, characterData: true }); }"
    )
    asks = (
        "%%llama complete -n 60 --seed 7 -t 0 -o r\n" + "One day the tide comes in, then it goes out. " * 12
    )
    load = f"%load_ext llama_magic\n%llama load --ctx 512 --threads 1\n{LINGERS}"
    tab = opened("guesses.ipynb", [load, asks, "print(r.usage.accepted_tokens, r.usage.drafted_tokens)"])
    tab.run(0)
    tab.finished(0)
    tab.page.evaluate(watch)
    tab.run(1)
    tab.live(1).locator(".lm-foot", has_text="guesses accepted: …").wait_for()
    tab.release()
    shown = tab.static(1, "guesses accepted")
    tab.run(2)
    tab.finished(2)
    came, made = map(int, tab.output(2).inner_text().split())
    assert f"({came} of {made} guesses accepted)" in shown.inner_text()
    seen = [(re.findall(r"(\d+) of (\d+) guesses accepted: …", text), html) for text, html in
            tab.page.evaluate("() => window.guessed")]  # fmt: skip
    counts = [tuple(map(int, found[0])) for found, _ in seen]
    assert counts == sorted(counts)
    assert counts[-1] <= (came, made)
    assert any("<ins>" in html and "tide" in html for _, html in seen)
    assert not tab.errors


def test_the_prompt_pad(opened: Any) -> None:
    """Typing moves the gauge, Run writes, Stop stops, and the prompt becomes a cell below, at once."""
    model = f"p = d.pad(answering(Script('word ' * 200, at=20, {HELD}))); p"
    tab = opened("pad.ipynb", [IMPORTS, model])
    tab.run(0)
    tab.run(1)
    board = tab.cell(1).locator(".lm-board")
    board.locator("textarea").wait_for()
    board.locator("textarea").fill("one two three four")
    board.get_by_text("12 prompt + 0 written of 4,096 tokens").wait_for()
    board.get_by_role("button", name="Show sampling").click()
    board.get_by_text("temperature").wait_for()
    tab.shot("lab-pad")
    board.get_by_role("button", name="Run").click()
    board.get_by_text("word word word").wait_for()
    board.get_by_role("button", name="Stop").click()
    board.get_by_text("stopped before its end").wait_for()
    tab.shot("lab-pad-answer")
    board.get_by_role("button", name="Insert as cell").click()
    board.get_by_text("This cell stands below:").wait_for()
    assert "%%llama chat --session pad --new -n 256" in tab.cell(2).locator(".cm-content").inner_text()
    assert tab.page.locator(".jp-Notebook .jp-Cell").count() == 3
    assert "widgets" not in tab.save()["metadata"]
