"""Several answers to one prompt, saved: side by side where they are instances, the many folded."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from display_answers import answering, bare, completion

from llama_magic.display import to_html, to_markdown, to_text
from llama_magic.model.results import Completion


def structured(**parsed: Any) -> Completion:
    """Return a structured answer of so many tokens as it has fields."""
    return replace(completion(json.dumps(parsed), mode="structured", n=len(parsed)), parsed=parsed)


def test_instances_stand_side_by_side() -> None:
    """A row a field, a column a sample; a field that one lacks is a dash; a vote comes after them."""
    answers = [structured(name="Ada", age=36), structured(name="Bo"), structured(name="Ada", age=40)]
    text = to_text(answers)
    assert re.search(r"^field +sample 1 +sample 2 +sample 3$", text, re.MULTILINE)
    assert re.search(r"^name +Ada +Bo +Ada$", text, re.MULTILINE)
    assert re.search(r"^age +36 +– +40$", text, re.MULTILINE)
    assert re.search(r"^sample 2 +1 +101 +ended by itself$", text, re.MULTILINE)
    assert "| name | Ada | Bo | Ada |" in to_markdown(answers)
    asked = answering('{"name": "Ada"}').structured(
        "Who?", {"type": "object", "properties": {"name": {}}}, n=3
    )
    voted = to_text(asked)
    assert voted.index("sample 3") < voted.index("vote: 3 answers") < voted.index("longest sample")


def test_one_that_is_no_instance_is_shown_as_it_is() -> None:
    """Then each has a heading of its own, and none is left out."""
    broken = completion('{"name": "Bo', mode="structured", finish_reason="length")
    text = to_text([structured(name="Ada"), broken])
    assert "sample 1: 1 token, 101 of 4,096 tokens · ended by itself" in text
    assert '{"name": "Bo' in text
    assert "cut at max_tokens" in text


def test_what_a_sample_thought_is_folded_above_it() -> None:
    """As above a single answer; a sample that did not think has no fold."""
    html = to_html([completion("Paris."), completion("Lyon?", thinking="Not the capital.")])
    assert re.findall(r"<summary[^>]*>(.*?)</summary>", html) == ["thinking"]
    places = [html.index(text) for text in ("Paris.", "sample 2", "Not the capital.", "Lyon?")]
    assert places == sorted(places)


def test_samples_above_five_are_folded() -> None:
    """Texts and instances alike: five are seen, the others lie behind their numbers, all of them."""
    texts = [completion(f"answer{i}") for i in range(1, 12)]
    html = bare(to_html(texts))
    assert re.findall(r"<summary>(.*?)</summary>", html) == ["samples 6 to 10", "sample 11"]
    assert re.findall(r"answer(\d+)", html) == [str(i) for i in range(1, 12)]
    assert html.index("answer5") < html.index("<details>") < html.index("answer6")
    many = [structured(name=f"n{i}") for i in range(1, 7)]
    html = bare(to_html(many))
    assert "<summary>sample 6</summary>" in html
    assert "<tr><td>name</td>" + "".join(f"<td>n{i}</td>" for i in range(1, 6)) + "</tr>" in html


def test_samples_of_a_text_say_what_they_go_on_from() -> None:
    """The prompt that was completed stands once, before all of them."""
    text = to_text([completion("One", mode="complete"), completion("Two", mode="complete")])
    assert text.count("after “") == 1
    assert text.index("after “") < text.index("One")
