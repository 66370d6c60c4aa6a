"""Show an answer while it is written, and leave a static output behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from llama_magic import errors
from llama_magic.display import hosts
from llama_magic.display.bundle import Format, both, mimebundle
from llama_magic.display.live.terminal import Terminal
from llama_magic.display.static.doc import Answer, Head, Line, Node
from llama_magic.display.views.model.results import after, is_markdown
from llama_magic.model.earlier import Earlier
from llama_magic.model.results import Chunk, Completion
from llama_magic.threads import despite_interrupts

if TYPE_CHECKING:
    from llama_magic.model.stream import Stream
    from llama_magic.model.succession import Succession

    AnyStream: TypeAlias = Stream[Any] | Succession[Any]

Answers = Completion | list[Completion]  # a list where several samples were asked for


class View(Protocol):
    """What a host shows: pieces as they come, then the end. An interrupt may come in `begin`, too."""

    def begin(self) -> None: ...
    def feed(self, chunk: Chunk) -> None: ...
    def finish(self, bundle: dict[str, Any], completion: Answers | None) -> None: ...
    def quit(self) -> None: ...  # nothing more is done on a thread of its own, whatever came of `finish`


class Silent:
    """Show nothing while the answer grows, and one output at the end (`quiet`: none)."""

    def __init__(self, shell: Any, *, quiet: bool = False) -> None:
        self._shell, self._quiet = shell, quiet

    def begin(self) -> None:
        """Wait for the end."""

    def feed(self, chunk: Chunk) -> None:
        """Wait for the end."""

    def finish(self, bundle: dict[str, Any], completion: Answers | None) -> None:
        """Publish the static output once."""
        if not self._quiet:
            self._quiet = True
            hosts.publish(self._shell, bundle)

    def quit(self) -> None:
        """There is no thread."""


def show_stream(
    stream: AnyStream,
    *,
    title: str,
    model_name: str,
    format: Format = "auto",
    quiet: bool = False,
    shell: Any = None,
    earlier: Earlier | None = None,
) -> Answers:
    """Show a generation while it runs, replace the view by its static output, and return what came.

    `title` and `model_name` head the live view; `earlier` is what outputs before this one hold of a chat.
    Raises: GenerationInterrupted (a KeyboardInterrupt) with what was written, after an interrupt;
    any error of the stream, after the text so far was left as the output.
    """
    from llama_magic.model.tools.loop import ToolStream  # for weight: NumPy

    shell = shell if shell is not None else hosts.current_shell()
    view: View = Silent(shell, quiet=quiet)  # until there is the right one: it imports a widget library
    texts = {0: ""}  # by sample
    try:
        head = {"title": title, "model": model_name, "samples": stream.samples}
        head |= {"form": stream.mode == "structured", "fields": list(stream.fields)}
        head["after"] = after(stream.mode, stream.prompt)
        view = _view(stream, shell, format, quiet, head)
        if not isinstance(view, Silent) and isinstance(stream, ToolStream):
            stream.announce = None  # the view shows each call before it is run
        view.begin()
        for chunk in stream:
            texts[chunk.sample] = chunk.text
            view.feed(chunk)
        completion: Answers = stream.completion
        _finish(view, lambda: mimebundle(completion, format, earlier), completion)
        return completion
    except KeyboardInterrupt as stop:
        kept = _stopped(stream, stop)
        _finish(view, lambda: mimebundle(kept, format, earlier), kept)
        raise errors.GenerationInterrupted(kept) from None
    except BaseException as error:
        answers = {sample: Answer(text, is_markdown(stream.mode)) for sample, text in sorted(texts.items())}
        bundle = _broken(title, model_name, answers, error)
        _finish(view, lambda: bundle, None)
        raise
    finally:
        try:
            view.quit()
        finally:  # an interrupt that struck there finds it done again
            view.quit()


def _view(stream: AnyStream, shell: Any, format: Format, quiet: bool, head: dict[str, Any]) -> View:
    where = "plain" if quiet or format == "json" else hosts.host(shell)
    if where == "terminal":
        return Terminal(stream.progress)
    if where == "live":
        try:
            from llama_magic.display.live.live import Live  # ipywidgets
        except ImportError:  # no widget library: the answer is shown when it is there
            return Silent(shell)
        head["markdown"] = format != "text" and is_markdown(stream.mode)
        return Live(shell, head=head, budget=lambda: stream.budget, progress=stream.progress)
    return Silent(shell, quiet=quiet)


def _stopped(stream: AnyStream, stop: BaseException) -> Answers:
    """Return what was written; a further interrupt while the engine winds down is not lost work."""
    if isinstance(stop, errors.GenerationInterrupted) and stop.completion is not None:
        return stop.completion

    def settle() -> Answers:
        stream.cancel()
        return stream.completion

    try:
        return despite_interrupts(settle)
    except KeyboardInterrupt:
        return stream.completion


def _finish(view: View, bundle: Callable[[], dict[str, Any]], completion: Answers | None) -> None:
    despite_interrupts(lambda: view.finish(bundle(), completion))


def _broken(title: str, model_name: str, answers: dict[int, Answer], error: BaseException) -> dict[str, Any]:
    """Return the output of a generation that an error ended: the texts so far, and that an error ended it."""
    several = len(answers) > 1
    nodes: list[Node] = [Head(title, model_name, tone="bad")]
    for sample, answer in answers.items():
        nodes += [*([Head(f"sample {sample + 1}", "")] if several else []), answer]
    return both([*nodes, Line(f"Ended by an error: {type(error).__name__}.", tone="bad")])
