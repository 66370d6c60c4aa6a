"""What `%%llama MODE` does: fill the body, make one call on the model, show, keep, bind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_magic import display
from llama_magic.display import hosts
from llama_magic.errors import GenerationInterrupted, OptionError, StructuredOutputError
from llama_magic.magics import _experiments as experiments
from llama_magic.magics import _looking as looking
from llama_magic.magics._call import CellRun, Samples
from llama_magic.magics._kernel import Kernel
from llama_magic.magics._lookup import find_schema
from llama_magic.magics._markers import without_markers
from llama_magic.magics._overlooked import overlooked
from llama_magic.magics._parse import CellCommand
from llama_magic.model.earlier import Earlier
from llama_magic.model.results import Completion
from llama_magic.session.blocks import split_blocks
from llama_magic.session.chat import Chat
from llama_magic.session.turns import Message, Turn, answer_message


def run_mode(kernel: Kernel, command: CellCommand, cell: str) -> Any:
    """Run one `%%llama` cell and return its result, or None where `-o` bound it."""
    cell = cell.replace("\r\n", "\n").removeprefix("\ufeff")  # as programs on Windows hand lines over
    body = cell.removesuffix("\n")  # IPython ends every cell with a line break
    if hosts.is_typed(kernel.shell):
        body = body.removesuffix("\n")
    body, markers = without_markers(body)
    if not body.strip():
        raise OptionError(
            f"%%llama {command.mode} has an empty body.",
            remedy="Write the prompt in the lines below the %%llama line.",
        )
    call = CellRun(kernel, command, body)
    if markers and not call.quiet:
        print(f"Not part of the prompt: {', '.join(markers)}")
    if command.mode in _TALKS and not call.quiet and not call.options.get("raw"):
        for told in overlooked(body, kernel.namespace, blocks=command.mode != "complete"):
            print(told)
    return _RUNNERS[command.mode](call)


def _complete(call: CellRun) -> Any:
    if "system" in call.options and not call.options.get("instruct"):
        raise OptionError(
            "--system needs a template, and complete has none.", remedy="Add --instruct, or use chat."
        )
    prompt = call.fill(call.body)
    call.model = call.kernel.get_model(call.options.get("model"))
    stream = call.model.complete(prompt, stream=True, system=call.system(), **call.keywords())
    return finish(call, stream, "complete")


def _chat(call: CellRun) -> Any:
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
    return finish(
        call,
        stream,
        "chat" if name == "default" else f"chat in session {name}",
        keep,
        Earlier(before, len(messages) + 1, last, chat.told),
    )


def _structured(call: CellRun) -> Any:
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
    named = getattr(schema, "__name__", "")
    return finish(call, stream, f"structured as {named}" if named else "structured")


def _messages(call: CellRun) -> tuple[list[Message], str | None, dict[str, str]]:
    """Return the body's turns, the system prompt, and as keyword what a last assistant: block begins.

    Blocks are filled one by one: no value opens one.
    """
    messages: list[Message] = []
    system = call.system()
    blocks = split_blocks(call.body)
    for role, text in blocks:
        filled = call.fill(text, f"the {role}: block" if len(blocks) > 1 else "the body")
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


def finish(
    call: CellRun,
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
            call.kernel.session.remember(error.completion)
        raise
    answers = list(result) if isinstance(result, (list, tuple)) else [result]
    for answer in answers:
        call.kernel.session.remember(answer)
    if keep is not None:
        keep(answers[0])
    result = result if isinstance(result, Completion) else Samples(answers)
    call.bind(result)
    if call.options.get("live") and not call.quiet:
        display.show_pen(result, call.options.get("out", "answer"))
    if interruption is not None or any(answer.finish_reason == "interrupted" for answer in answers):
        raise interruption or GenerationInterrupted(result)
    return None if "out" in call.options else call.kernel.mark_shown(result, quiet=call.quiet)


_TALKS = ("complete", "chat", "structured")  # of rows, their experiment looks after names
_RUNNERS: dict[str, Callable[[CellRun], Any]] = {
    "complete": _complete,
    "chat": _chat,
    "structured": _structured,
    "map": experiments.map_rows,
    "sweep": experiments.sweep,
    "decide": experiments.decide,
    "tokens": looking.tokens,
    "surprise": looking.surprise,
    "xray": looking.xray,
}
