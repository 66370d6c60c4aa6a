"""`rerun`: an answer asked again, by its receipt."""

from __future__ import annotations

from typing import Any

from llama_magic.errors import shown_briefly
from llama_magic.experiments.finding import find_model
from llama_magic.model.again import receipt_of
from llama_magic.model.options import StructuredOptions, shows
from llama_magic.words.signature import checked


@shows(StructuredOptions)
@checked
@shown_briefly("The call")
def rerun(answer: Any, *, model: Any = None, **changes: Any) -> Any:
    """Ask again what an answer, or its receipt, says was asked; `changes` are options of a call.

    `answer`: a `Completion`, of this process or a record, its receipt, or an entry of the history. `model`:
    the model to ask, or a name; left out, the one that wrote it, which must be loaded. Nothing changed, a
    seeded answer comes out equal where file and engine are; see `Model.rerun`.
    """
    receipt, _ = receipt_of(answer)
    return find_model(receipt, model).rerun(answer, **changes)
