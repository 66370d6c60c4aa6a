"""What `%%llama MODE` does: fill the body, make one call on the model, show, keep, bind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from llama_magic import display
from llama_magic.display import hosts
from llama_magic.errors import GenerationInterrupted, OptionError, StructuredOutputError
from llama_magic.experiments.vote import vote
from llama_magic.magics._interpolate import interpolate_line
from llama_magic.magics._kernel import Kernel
from llama_magic.magics._lookup import find_bias, find_grammar, find_schema, find_tools
from llama_magic.magics._markers import without_markers
from llama_magic.magics._options import SAMPLING
from llama_magic.magics._parse import CellCommand
from llama_magic.model.earlier import Earlier
from llama_magic.model.interpolate import interpolate
from llama_magic.model.results import Completion
from llama_magic.session.blocks import split_blocks
from llama_magic.session.chat import Chat
from llama_magic.session.turns import Message, Turn, answer_message
from llama_magic.words.shown import Shown

_SAMPLING_KEYS = frozenset(option.key for option in SAMPLING)
# What the cell itself does; every other option is a keyword of the call on the model.
_OF_THE_CELL = {"grammar", "instruct", "live", "model", "new", "out", "format", "quiet", "raw", "schema"}
_OF_THE_CELL |= {"session", "system", "tools", *_SAMPLING_KEYS}


class Samples(Shown, list[Any]):
    """The answers of one call with `-N`, in order: a list of `Completion`."""

    @property
    def vote(self) -> Any:
        """What structured answers say together, field by field: `llama_magic.vote` of them."""
        return vote(self)


@dataclass
class Call:
    """One run of a cell: the command, the body, and where results go."""

    kernel: Kernel
    command: CellCommand
    body: str
    model: Any = field(init=False, default=None)

    @property
    def options(self) -> Mapping[str, Any]:
        return self.command.options

    def fill(self, text: str) -> str:
        """Return the text with `{{ }}` filled; it knows where the values stand."""
        return text if self.options.get("raw") else interpolate(text, self.kernel.namespace)

    def system(self) -> str | None:
        """Return the text of `--system`, filled like a body and like every option."""
        text = self.options.get("system")
        if text is None:
            return None
        return interpolate_line(text, self.kernel.namespace, raw=bool(self.options.get("raw")))

    def sampling(self) -> dict[str, Any]:
        """Return the sampling parameters to pass on: option over `%llama sampler` over %config."""
        given = {key: value for key, value in self.options.items() if key in _SAMPLING_KEYS}
        if "logit_bias" in given:
            given["logit_bias"] = find_bias(given["logit_bias"], self.model)
        return self.kernel.sampling_defaults() | given

    def keywords(self) -> dict[str, Any]:
        """Return every keyword of the generation call but the prompt and its kind."""
        given = {key: value for key, value in self.options.items() if key not in _OF_THE_CELL}
        if "grammar" in self.options:
            given["grammar"] = find_grammar(self.options["grammar"], self.kernel.namespace)
        if "tools" in self.options:
            given["tools"] = find_tools(self.options["tools"], self.kernel.namespace)
            if self.quiet and not given.get("tools_auto"):
                raise OptionError(
                    "-q shows nothing, so it could not be said which tool is called with what.",
                    remedy="Add --tools-auto to run tools unseen, or leave -q out.",
                )
        return self.kernel.call_defaults() | self.sampling() | given

    @property
    def quiet(self) -> bool:
        return bool(self.options.get("quiet", self.kernel.settings.quiet))

    def bind(self, result: Any) -> None:
        """Bind the result to the variable of `-o`, if there is one."""
        if name := self.options.get("out"):
            self.kernel.shell.push({name: result}, interactive=True)


def run_mode(kernel: Kernel, command: CellCommand, cell: str) -> Any:
    """Run one `%%llama` cell and return its result, or None where `-o` bound it."""
    body = cell.removesuffix("\n")  # IPython ends every cell with a line break
    if hosts.is_typed(kernel.shell):
        body = body.removesuffix("\n")
    body, markers = without_markers(body)
    if not body.strip():
        raise OptionError(
            f"%%llama {command.mode} has an empty body.",
            remedy="Write the prompt in the lines below the %%llama line.",
        )
    call = Call(kernel, command, body)
    if markers and not call.quiet:
        print(f"Not part of the prompt: {', '.join(markers)}")
    return _RUNNERS[command.mode](call)


def _complete(call: Call) -> Any:
    if "system" in call.options and not call.options.get("instruct"):
        raise OptionError(
            "--system needs a template, and complete has none.", remedy="Add --instruct, or use chat."
        )
    prompt = call.fill(call.body)
    call.model = call.kernel.get_model(call.options.get("model"))
    extra: dict[str, Any] = {"instruct": True} if call.options.get("instruct") else {}
    if (system := call.system()) is not None:
        extra["system"] = system
    stream = call.model.complete(prompt, stream=True, **extra, **call.keywords())
    return _finish(call, stream, "complete")


def _chat(call: Call) -> Any:
    name, fresh = call.options.get("session", "default"), bool(call.options.get("new"))
    messages, system, begun = _messages(call)
    chat = call.kernel.session.chats.get(name) or Chat(name)
    cell = call.kernel.cell_key()
    call.model = call.kernel.get_model(call.options.get("model"))
    everything = chat.messages_for(messages, cell=cell, system=system, fresh=fresh)
    stream = call.model.chat(everything, stream=True, **call.keywords(), **begun)
    plain = tuple(message | {"content": str(message["content"])} for message in messages)

    def keep(completion: Completion) -> None:
        turn = Turn(
            (*plain, *completion.steps, answer_message(completion)),
            cell,
            None if system is None else str(system),
            interrupted=completion.finish_reason == "interrupted",
            completion=completion,
        )
        chat.commit(turn, fresh=fresh)
        call.kernel.session.chats[name] = chat

    before, last = chat.saved_before(cell=cell, system=system, fresh=fresh)
    return _finish(call, stream, f"chat · {name}", keep, Earlier(before, len(messages) + 1, last))


def _structured(call: Call) -> Any:
    if "schema" not in call.options:
        raise OptionError(
            "%%llama structured needs --schema X.",
            remedy='X is a class, type or dict of your namespace, or a short form such as "name, age int".',
        )
    schema = find_schema(call.options["schema"], call.kernel.namespace)
    blocks = split_blocks(call.body)
    begun: dict[str, str] = {}
    if len(blocks) > 1 or blocks[0][0] != "user" or "system" in call.options:
        messages, system, begun = _messages(call)
        head = [{"role": "system", "content": system}] if system else []
        prompt: Any = head + messages
    else:
        prompt = call.fill(blocks[0][1])
    call.model = call.kernel.get_model(call.options.get("model"))
    stream = call.model.structured(prompt, schema, stream=True, **call.keywords(), **begun)
    return _finish(call, stream, f"structured · {getattr(schema, '__name__', 'schema')}")


def _messages(call: Call) -> tuple[list[Message], str | None, dict[str, str]]:
    """Return the body's turns, the system prompt, and as keyword what a last assistant: block begins.

    Blocks are filled one by one: no value opens one.
    """
    messages: list[Message] = []
    system = call.system()
    for role, text in split_blocks(call.body):
        filled = call.fill(text)
        if role == "system":
            if messages or system is not None:
                raise OptionError(
                    "The system prompt is given twice, or after the first turn.",
                    remedy="Write one system: block at the top, or --system, not both.",
                )
            system = filled
        else:
            messages.append({"role": role, "content": filled})
    begun: dict[str, str] = {}
    if len(messages) > 1 and messages[-1]["role"] == "assistant":
        begun = {"prefill": messages.pop()["content"]}
        if "prefill" in call.options:
            raise OptionError(
                "The answer is begun twice, by --prefill and by the last assistant: block.",
                remedy="Leave one of them out.",
            )
    if not messages or messages[-1]["role"] != "user":
        raise OptionError(
            f"The body ends with {messages[-1]['role'] if messages else 'system'}:, so nothing is asked.",
            remedy="End it with a user: block; after it, assistant: may begin the answer.",
        )
    return messages, system, begun


def _finish(
    call: Call,
    stream: Any,
    title: str,
    keep: Callable[[Completion], None] | None = None,
    earlier: Earlier | None = None,
) -> Any:
    """Show the stream; keep its answer in chat, history and `-o`; only then let an interruption through."""
    interruption: GenerationInterrupted | None = None
    try:
        result = display.show_stream(
            stream,
            title=title,
            model_name=call.model.name,
            format=call.options.get("format", call.kernel.settings.display),
            quiet=call.quiet,
            shell=call.kernel.shell,
            earlier=earlier,
        )
    except GenerationInterrupted as error:
        if error.completion is None:
            raise
        result, interruption = error.completion, error
    except StructuredOutputError as error:
        if error.completion is not None:
            call.kernel.session.record(error.completion)
        raise
    answers = list(result) if isinstance(result, (list, tuple)) else [result]
    for answer in answers:
        call.kernel.session.record(answer)
    if keep is not None:
        keep(answers[0])
    result = result if isinstance(result, Completion) else Samples(answers)
    call.bind(result)
    if interruption is not None or any(answer.finish_reason == "interrupted" for answer in answers):
        raise interruption or GenerationInterrupted(result)
    return None if "out" in call.options else call.kernel.mark_shown(result)


def _tokens(call: Call) -> Any:
    text = call.fill(call.body)
    return _look(call, lambda model: model.token_strip(text))


def _surprise(call: Call) -> Any:
    text = call.fill(call.body)
    return _look(call, lambda model: model.read(text))


def _xray(call: Call) -> Any:
    text = call.fill(call.body)

    def trace(model: Any) -> Any:
        given = call.kernel.call_defaults() | dict(call.options)
        seed = {"seed": given["seed"]} if "seed" in given else {}
        return model.xray(text, model.sampling.replace(**call.sampling()), **seed)

    if not call.options.get("live"):
        return _look(call, trace)
    call.model = call.kernel.get_model(call.options.get("model"))
    result = _interruptible(lambda: trace(call.model))
    call.bind(result)
    if not call.quiet:
        display.show_live(result, call.kernel.shell)
    return None if "out" in call.options or call.quiet else call.kernel.mark_shown(result)


def _look(call: Call, look: Callable[[Any], Any]) -> Any:
    """Run a mode that generates nothing; the display hook shows its result, or this does for `-o`.

    What an interrupted reading has so far is bound and shown, then the interrupt goes on.
    """
    call.model = call.kernel.get_model(call.options.get("model"))
    interruption: GenerationInterrupted | None = None
    try:
        result = _interruptible(lambda: look(call.model))
    except GenerationInterrupted as error:
        if error.completion is None:
            raise
        result, interruption = error.completion, error
    call.bind(result)
    if ("out" in call.options or interruption is not None) and not call.quiet:
        display.show(result, call.kernel.shell)
    if interruption is not None:
        raise interruption
    return None if "out" in call.options or call.quiet else result


def _interruptible(look: Callable[[], Any]) -> Any:
    """Return what `look` does; an interrupt between its steps is said in the same short way."""
    try:
        return look()
    except GenerationInterrupted:
        raise
    except KeyboardInterrupt:
        raise GenerationInterrupted(None) from None


_RUNNERS: dict[str, Callable[[Call], Any]] = {
    "complete": _complete,
    "chat": _chat,
    "structured": _structured,
    "tokens": _tokens,
    "surprise": _surprise,
    "xray": _xray,
}
