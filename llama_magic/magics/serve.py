"""`%llama serve` and `llama-magic serve`: models for other programs."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any, NoReturn

from llama_magic import display
from llama_magic.errors import OptionError
from llama_magic.magics import _help
from llama_magic.magics._kernel import Kernel
from llama_magic.magics._options import FETCH, LOAD, SERVE
from llama_magic.magics._parse import LineCommand, parse_arguments
from llama_magic.magics._rows import Verb
from llama_magic.serving.server import Server, check_place, serve, servers
from llama_magic.words.counting import counted


def serve_verb(kernel: Kernel, command: LineCommand) -> Any:
    """Serve the models that a line names, or the current one; `stop` ends what is served."""
    if command.words == ("stop",):
        if command.options:
            raise OptionError("%llama serve stop takes no option.")
        running = servers()
        for server in running:
            server.stop()
        print(f"Stopped {counted(len(running), 'server')}." if running else "Nothing is served.")
        return None
    check_place(**command.options)
    models = [kernel.get_model(name) for name in command.words or (None,)]
    server = serve(*models, **command.options)
    display.show_server(server, kernel.shell)
    return kernel.mark_shown(server)


# Of a shell: the same options, and those of `load`, for the one model that is served.
_COMMAND = Verb(
    "serve",
    "[SOURCE]",
    "load a model, and serve it to other programs until Ctrl-C",
    "an exit status",
    (*SERVE, *LOAD, *FETCH),
    most=1,
)


def command(arguments: Sequence[str]) -> int:
    """Run `llama-magic serve`."""
    asked = parse_arguments(_COMMAND, arguments)
    if asked.help:
        print(_help.verb_help(_COMMAND).replace("%llama", "llama-magic"))
        return 0
    from llama_magic.loading.load import load  # weight: llama.cpp

    mine = {option.key for option in SERVE}
    options = {key: value for key, value in asked.options.items() if key not in mine}
    place = {key: value for key, value in asked.options.items() if key in mine}
    check_place(**place)
    signal.signal(signal.SIGTERM, _end)
    with display.LoadProgress() as progress:
        model = load(asked.words[0] if asked.words else None, progress=progress, **options)
        progress.done(model)
    with model, serve(model, **place) as server:
        _say(server)
        server.wait()
    return 0


def _end(_number: int, _frame: object) -> NoReturn:
    """End as Ctrl-C does, but as what was asked for: so a service manager or a container stops it."""
    raise SystemExit(0)


def _say(server: Server) -> None:
    print(
        f"Serving {', '.join(server.models)} at {server.url}/v1 ({_key(server)}). Ctrl-C stops it.",
        flush=True,
    )


def _key(server: Server) -> str:
    return "with a key" if server.has_key else "this machine only, without a key"
