"""Long lists: folded, paged, in an order that is looked for, whole in HTML."""

from __future__ import annotations

import html as escaping
import re
from dataclasses import replace

from display_answers import bare, completion
from example_views import example_views

import llama_magic as lm
from llama_magic.display import to_html, to_text
from llama_magic.display.static.doc import Code
from llama_magic.display.static.html import fragment
from llama_magic.display.views.gguf.tensors import tensors
from llama_magic.gguf import TensorInfo
from llama_magic.magics.doctor import Check, DoctorReport
from llama_magic.session.history import History
from llama_magic.testing import scripted_model


def _tensor(name: str) -> TensorInfo:
    return TensorInfo(name, (4, 8), "F32", 128, 0)


def test_tensors_are_folded_by_block_in_the_order_of_numbers() -> None:
    """blk.2 comes before blk.10, wherever the file has them; what is of no block comes first, unfolded."""
    names = ["blk.10.b", "blk.10.a", "token_embd", "blk.2.a", "v.blk.0.a", "blk.0.a", "output"]
    html = bare("".join(map(fragment, tensors(map(_tensor, names)))))
    assert re.findall(r"<summary>(.*?)</summary>", html) == [
        "blk.0: 1 tensor, 128 B",
        "blk.2: 1 tensor, 128 B",
        "blk.10: 2 tensors, 256 B",
        "v.blk.0: 1 tensor, 128 B",
    ]
    order = ["token_embd", "output", "blk.0.a", "blk.2.a", "blk.10.b", "blk.10.a", "v.blk.0.a"]
    assert re.findall(r"<tr><td>(.*?)</td>", html) == order
    assert html.index("token_embd") < html.index("<details>")


def test_a_template_is_shown_to_the_letter_with_its_parts_told_apart() -> None:
    """Statements are bold, expressions marked, remarks slanted; its text is escaped and as it stands."""
    source = "{% if a < 1 %}<b>{{ b }}</b>{# why #}\n  text{% endif %}{{ '{{' }} {"
    html = fragment(Code(source, template=True))
    assert escaping.unescape(re.sub(r"<[^>]*>", "", html)) == source
    assert re.findall(r"<b>(.*?)</b>", html) == ["{% if a &lt; 1 %}", "{% endif %}"]
    assert re.findall(r"<span [^>]*>(.*?)</span>", html) == ["{{ b }}", "{{ &#39;{{&#39; }}"]
    assert re.search(r"<i [^>]*>\{# why #\}</i>", html)
    assert "&lt;b&gt;" in html


def test_a_long_history_is_paged_the_newest_first() -> None:
    """50 a page, the other pages folded, each answer on one of them; text formats show the first page."""
    history = History()
    for number in range(1, 121):
        history.add(completion(f"answer{number}"))
    html = bare(to_html(history))
    assert re.findall(r"<summary>(.*?)</summary>", html) == ["70 to 21", "20 to 1"]
    assert re.findall(r"answer(\d+)", html) == [str(number) for number in range(120, 0, -1)]
    text = to_text(history)
    assert re.findall(r"answer(\d+)", text) == [str(number) for number in range(120, 70, -1)]
    assert text.endswith("50 of 120: %llama history N shows the last N, history.to_pandas() has all.")
    assert text.splitlines()[0].endswith("the newest first · all chat · all ended by themselves")
    assert text.splitlines()[1].split() == ["#", "prompt", "answer", "how"]
    assert text.splitlines()[2].endswith("  1 token, seed 42, 1 s")
    history.add(replace(completion("other"), model="another"))
    assert "another" in to_text(history)
    history.add(completion("cut", finish_reason="length"))
    assert to_text(history).splitlines()[0].endswith("the newest first · all chat")
    assert to_text(history).splitlines()[2].endswith("  1 token, smollm2, cut, seed 42,")


def test_a_command_that_doctor_gives_can_be_copied() -> None:
    """It stands once, behind the last problem that it mends, whole and on one line, however long."""
    command = "pip install " + "x" * 400
    checks = (Check("b", "2", "Do so:", command), Check("d", "4", "And so:", command))
    text = to_text(DoctorReport(checks)).splitlines()
    assert text.count(command) == 1
    assert text[1:4] == ["b: 2. Do so:", "d: 4. And so:", "b and d, for a shell:"]
    assert text[4] == command
    assert f"<code>{command}</code>" in re.sub(
        r" (class|style)=\"[^\"]*\"", "", to_html(DoctorReport(checks))
    )
    assert str(DoctorReport(checks)).splitlines()[-1] == f"! d: And so: {command}"


def test_doctor_shows_problems_first_and_folds_what_is_well() -> None:
    """A sentence a problem, with its advice; of what is well the number, and in HTML a fold."""
    checks = (Check("a", "1"), Check("b", "2", "Do so."), Check("c", "3"), Check("d", "4", "And so."))
    text = to_text(DoctorReport(checks)).splitlines()
    assert text[0] == "doctor: 2 problems, 2 checks are well"
    assert text[1:4] == ["b: 2. Do so.", "d: 4. And so.", "the 2 checks that are well"]
    html = to_html(DoctorReport(checks))
    assert html.index("Do so.") < html.index("And so.") < html.index("<details") < html.index(">c<")
    well = to_text(DoctorReport(checks[:1])).splitlines()
    assert well[:2] == ["doctor: 0 problems, 1 check is well", "the 1 check that is well"]


def test_an_answer_has_no_blank_line_in_a_list() -> None:
    """A row of the history is no higher than its words are, and begins with them."""
    history = History()
    history.add(completion("\n\nOne.\n \n\nTwo."))
    history.add(completion("\n" * 1000 + "Three."))
    answer = history.table().headers.index("answer")
    assert [row[answer] for row in history.table().rows] == ["One.\nTwo.", "Three."]


def test_the_texts_of_many_sequences_are_behind_one_line() -> None:
    """Each has a line of its own up to five."""
    state = example_views()["kv"]
    for count, lines in ((5, 5), (6, 7)):
        many = replace(state, sequences=tuple(replace(state.sequences[0], id=f"s{i}") for i in range(count)))
        assert to_html(many).count("<summary") == lines


def test_the_first_error_of_many_answers_is_in_sight() -> None:
    """The grid shows the row whose answers differ most, where nothing may have failed."""
    model = scripted_model(lambda request: "good")
    runs = lm.map([{"text": "Fine."}, {"text": None}], "{{ text }}", model=model, over={"seed": [1, 2]})
    said = "2 answers failed. Row 1: {{ text }} on line 1 of the prompt has no text"
    assert said in to_text(runs)
    assert "failed" not in to_text(runs[:1])


def test_a_tree_scrolls_where_the_page_is_narrow() -> None:
    """Its lines do not break: on a telephone they would no longer stand below each other."""
    html = to_html(example_views()["tree"])
    assert re.search(r'<pre class="lm-code lm-drawn" style="white-space:pre;[^"]*overflow:auto"', html)
