"""What a lesson asks of its reader: a prediction before a cell is run, and an exercise that checks itself.

lm.lesson.predict("Which word comes next?", ["sea", "broccoli"], answer="sea")
lm.lesson.check(my_answer, 42)
"""

from __future__ import annotations

from llama_magic.lesson.exercise import Checked, check
from llama_magic.lesson.question import Question, predict

__all__ = ["Checked", "Question", "check", "predict"]
