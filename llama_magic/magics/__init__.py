"""`%llama` and `%%llama`: parse a line, make one call on the Python API, show what comes back.

Importing this package and registering the magics costs a few milliseconds: no llama.cpp,
no widgets, no numpy. Everything else is imported by the first command that needs it.

- `_magics` is the object that IPython knows, `_kernel` what commands ask of the kernel that they run in.
- `_options` is the table of verbs, modes and options; `_rows` says what a row holds, `_actions` checks
  those of a verb. `_help` and `_complete` (Tab) read it, too.
- A line: `_parse` makes a frozen command of it. `_words` cuts it, `_braces`, `_variables` and
  `_filling` (of `{{ }}`) fill in variables, `_readers` read values, `_other_names` knows what other tools
  call an option, `_mistakes` says what a word was likely to mean.
- A verb: `_verbs` runs it; those with much to do have a file: `_aliases`, `_chats`, `_connect`, `doctor`,
  `_inspect`, `_records`, `serve`, `verify`.
- A cell: `_modes` runs it as a `_call`; `_looking` has the modes that write nothing, `_experiments` those
  of many prompts. `_interpolate`, `_lookup`, `_markers` and `_overlooked` read its texts.
- A line that ends in "?", which IPython would take for its own help: `_questions`.
- Ctrl-C where none of our lines can catch it: `_interrupts`, `_lost`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llama_magic.magics import _interrupts
from llama_magic.weakly import WeakTable

if TYPE_CHECKING:
    from llama_magic.magics._magics import LlamaMagics

__all__ = ["reference_markdown", "register", "unregister"]

# The magics object holds %config's values, so a reload must find the same one again.
_known: WeakTable[Any, LlamaMagics] = WeakTable()
_MATCHER = "llama_magic"  # our name among the matchers of IPython's completer


def register(ipython: Any) -> None:
    """Add the magics and their tab completion to an IPython shell; a second call changes nothing."""
    # weight: IPython, of which `import llama_magic` is free
    from llama_magic.magics import _questions
    from llama_magic.magics._magics import LlamaMagics

    magics = _known.get(ipython)
    if magics is None:
        magics = _known.put(ipython, LlamaMagics(shell=ipython, parent=ipython))
    if magics not in ipython.configurables:
        ipython.configurables.append(magics)
    ipython.register_magics(magics)
    magics.kernel.mute_shown_results()
    _interrupts.install(ipython)
    _questions.install(ipython)
    _remove_matcher(ipython)
    ipython.Completer.custom_matchers.append(_matcher(ipython))


def unregister(ipython: Any) -> None:
    """Take the magics out of the shell again; the session with its models stays."""
    from llama_magic.magics import _questions  # weight: as above

    magics: Any = _known.get(ipython)
    if magics is None:
        return
    manager = ipython.magics_manager
    for kind in ("line", "cell"):
        if getattr(manager.magics[kind].get("llama"), "__self__", None) is magics:
            del manager.magics[kind]["llama"]
    manager.registry.pop(type(magics).__name__, None)
    if magics in ipython.configurables:
        ipython.configurables.remove(magics)
    magics.kernel.unmute_results()
    _interrupts.uninstall(ipython)
    _questions.uninstall(ipython)
    _remove_matcher(ipython)


def reference_markdown() -> str:
    """Return the tables of verbs, modes and options as Markdown, for README."""
    from llama_magic.magics._help import reference_markdown as render  # weight: the whole table

    return render()


def _matcher(shell: Any) -> Any:
    """Return a matcher for IPython's completer.

    The older hook `complete_command` sees no assignment, and jedi's Python names stand before its answers.
    """

    def match(context: Any) -> dict[str, Any]:
        if "llama" not in context.full_text:
            return {"completions": []}
        from IPython.core.completer import SimpleCompletion  # weight: both are for the first Tab

        from llama_magic.magics._complete import complete

        word, candidates = complete(shell, context)
        completions = [SimpleCompletion(text=candidate, type="magic") for candidate in candidates]
        return {"completions": completions, "matched_fragment": word, "suppress": True, "ordered": True}

    match.matcher_api_version = 2  # type: ignore[attr-defined]
    match.matcher_identifier = _MATCHER  # type: ignore[attr-defined]
    return match


def _remove_matcher(ipython: Any) -> None:
    matchers = ipython.Completer.custom_matchers
    matchers[:] = [m for m in matchers if getattr(m, "matcher_identifier", "") != _MATCHER]
