"""Every verb, mode and option of the magics, as data.

The parser, the help texts, tab completion and README's table all read this one list.
"""

from __future__ import annotations

from dataclasses import replace

from llama_magic.magics._rows import Action, Mode, Option, Verb
from llama_magic.request.stages import PARAMETERS, Parameter

FORMATS = ("auto", "markdown", "text", "html", "json")
SPECULATE = ("auto", "off")
OVERFLOW = ("error", "drop-oldest", "truncate-prompt")
PROFILES = ("fast", "balanced", "quality", "memory", "batch")
KV_TYPES = ("f16", "q8_0", "q4_0")


def _o(flags: str, kind: str, help_: str, metavar: str = "", **more: object) -> Option:
    return Option(tuple(flags.split()), kind, help_, metavar, **more)  # type: ignore[arg-type]  # a row


MODEL = _o("-m --model", "model", "a loaded model's name, or a source to load", "NAME", completes="models")
OUT = _o("-o --out", "name", "bind the result to this variable", "NAME")
LIVE = _o(
    "--live",
    "flag",
    "tokens: as one types; xray: with sliders, stages to drag and 100 draws; an answer: then the pen below "
    "it, to pick or write over any token",
)
RAW = _o("--raw", "flag", "leave {{ }} in the body as it is")
SEED = _o(
    "--seed",
    "seed",
    "make the answer reproducible, to the token, whatever runs beside it; else a seed is drawn and recorded",
    "N",
)
FORMAT = _o("--format", "choice", "how the answer is shown and saved; json is the receipt", choices=FORMATS)
QUIET = _o("-q --quiet", "flag", "show nothing while it runs and nothing after")

LOAD = (
    _o("--as", "text", "the name to keep it under", "NAME", dest="name"),
    _o("--ctx", "count", "context window in tokens; 0: as trained, capped by what fits", "N"),
    _o("--gpu-layers", "layers", "layers to put on the GPU", "N|all"),
    _o("--threads", "positive", "CPU threads", "N"),
    _o("--batch", "positive", "tokens read in one step", "N"),
    _o("--kv-type", "choice", "type of the KV cache's numbers", choices=KV_TYPES),
    _o("--flash-attn", "choice", "flash attention", choices=("auto", "on", "off")),
    _o("--mmap", "flag", "map the file into memory (the default where huge pages cannot be had)"),
    _o(
        "--no-mmap",
        "flag",
        "read the file into memory instead (the default for up to a quarter of what is free)",
        value=False,
        dest="mmap",
    ),
    _o("--mlock", "flag", "keep the weights from being swapped out"),
    _o("--rope-freq-base", "float", "RoPE base frequency", "F"),
    _o("--rope-freq-scale", "float", "RoPE frequency scale", "F"),
    _o("--rope-scaling", "choice", "how RoPE is stretched", choices=("none", "linear", "yarn")),
    _o("--yarn-ext-factor", "float", "YaRN extrapolation mix", "F"),
    _o("--yarn-attn-factor", "float", "YaRN attention factor", "F"),
    _o("--yarn-beta-fast", "float", "YaRN low correction dim", "F"),
    _o("--yarn-beta-slow", "float", "YaRN high correction dim", "F"),
    _o("--yarn-orig-ctx", "count", "YaRN's original context window", "N"),
    _o("--profile", "choice", "a set of load options by purpose", choices=PROFILES),
    _o("--formatter", "text", "prompt format", "auto|NAME|PATH.jinja", completes="formatters"),
    _o("--lora", "text", "an adapter to apply", "PATH[:SCALE]", repeat=True, completes="adapters"),
    _o(
        "--draft",
        "text",
        "a small model of the same tokens that guesses ahead",
        "SOURCE",
        completes="sources",
    ),
)
FETCH = (
    _o("--sha256", "text", "digest that the file must have", "HEX"),
    _o("--revision", "text", "branch, tag or commit of a hub repository", "REV"),
    _o("--offline", "flag", "use what is on disk only"),
)
SERVE = (
    _o("--host", "text", "address to listen at; any but a loopback address needs a key", "ADDRESS"),
    _o("--port", "count", "port to listen at; 0: any that is free", "N"),
    _o("--key-env", "text", "the environment variable that holds the key", "VAR"),
)
# Of a server in place of a file.
_CONNECT = (
    _o("--model", "text", "one of the server's models", "ID"),
    _o("--key-env", "text", "the environment variable that holds the key", "VAR"),
    _o("--stall", "float", "seconds that a stream may be silent", "S"),
    _o("--no-probe", "flag", "try nothing, believe all", value=False, dest="probing"),
)
DRY_RUN = _o("--dry-run", "flag", "resolve and estimate, do not load")


def _of_parameter(parameter: Parameter) -> Option:
    """Return the option that sets a sampling parameter."""
    kind = parameter.reader or parameter.type
    return Option(
        tuple(parameter.flags.split()) or (parameter.option,),
        kind,
        parameter.help,
        parameter.metavar or {"int": "N", "float": "F"}[kind],
        repeat=kind in ("escaped", "bias"),
        dest=parameter.name,
    )


SAMPLING = tuple(map(_of_parameter, PARAMETERS.values()))
TIMEOUT = _o(
    "--timeout", "float", "end it after this many seconds (each answer, each row); what is there is kept", "S"
)
TAG = _o("--tag", "text", "a word to find answers again by, in history and record", "T")
LIMITS = (
    _o("-n --max-tokens", "positive", "longest answer, in tokens", "N"),
    SEED,
    _o("--stop", "escaped", r"a text that ends the answer (\n and \t are read)", "S", repeat=True),
    _o("--logprobs", "count", "keep log-probabilities and K alternatives of each token", "K"),
    _o(
        "-N --samples",
        "positive",
        "answers to draw from the one prompt; a chat goes on with the first",
        "N",
        dest="n",
    ),
    _o("--overflow", "choice", "what to do when prompt and answer exceed the window", choices=OVERFLOW),
    TIMEOUT,
    TAG,
    _o("--speculate", "choice", "guess tokens ahead where that pays", choices=SPECULATE),
    _o("--fresh", "flag", "reuse nothing of the KV cache", value=False, dest="reuse"),
)
CONSTRAINTS = (
    _o(
        "--grammar",
        "grammar",
        "GBNF: the text, a variable that holds it, or a .gbnf file",
        "GBNF",
        completes="grammars",
    ),
    _o("--regex", "regex", "the whole answer matches this", "RE"),
    _o("--choices", "choices", "the answer is one of these", '"A|B|C"'),
)
PREFILL = _o(
    "--prefill", "template", "what the answer begins with; a last assistant: block is the same", "TEXT"
)
DROP_THINKING = _o(
    "--drop-thinking", "flag", "leave out the thinking of earlier turns, and say what that frees"
)
SYSTEM = _o("--system", "template", "the system prompt", "TEXT")
TOOLS = (
    _o("--tools", "tools", "functions of your namespace that the model may call", "F,G", completes="tools"),
    _o("--tool-choice", "text", "whether a tool is called, or which one", "auto|none|required|NAME"),
    _o("--tools-auto", "flag", "run tools without a line before that says what is called with what"),
    _o("--tool-rounds", "positive", "rounds of tool calls, at most", "N"),
    _o("--tools-as-text", "flag", "write tools as text where the template has no place for them"),
)
SCHEMA = _o(
    "--schema",
    "schema",
    'a class, type or dict of the namespace, or a short form: "name, age int"',
    "X",
    completes="schemas",
)
_SHOW = (LIVE, OUT, FORMAT, QUIET, RAW)
_GENERATE = (MODEL, *LIMITS, *SAMPLING)

_STRUCTURED = (
    SCHEMA,
    _o("--show-schema", "flag", "let the model read the schema, with its descriptions"),
    _o("--retries", "count", "times to ask again when a check after the mask fails", "N"),
    _o("--pressure", "flag", "show per field how hard the mask held the model"),
    _o("--think", "flag", "let the model think first, and constrain what comes after", dest="thinking"),
)
# Of many prompts as one value: what each answer may be asked for with, and what all of them are.
_ANSWERS = (*_GENERATE, *CONSTRAINTS, *_STRUCTURED, SYSTEM)
_EXPERIMENT = (
    _o("--over", "axes", "axes: options and names in the prompt, with values", '"style=dry,warm; seed=1..4"'),
    _o("--models", "models", "an axis of loaded models and sources", "A,B", completes="models"),
    _o(
        "--score",
        "score",
        "a function of a run, or the column that the answer is to equal",
        "NAME",
        completes="scores",
    ),
    _o(
        "--record",
        "text",
        "keep answers in this file, and go on from what it holds",
        "PATH",
        completes="files",
    ),
    _o("--on-error", "choice", "what to do with a row that fails", choices=("keep", "stop")),
    _o("--dry-run", "flag", "count tokens and foretell the time, ask nothing"),
)
_DECIDES = (
    _o("--options", "choices", "the answers to weigh, or a function of the row that gives them", '"A|B|C"'),
    _o("--abstain-below", "float", "choose nothing where the likeliest option has less, 0 to 1", "P"),
    _o("--end", "flag", "count the end of the answer, so that 1 and 10 exclude each other"),
)

MODES = {
    mode.name: mode
    for mode in (
        Mode(
            "complete",
            "raw text to continue, without a template",
            "Completion",
            (
                *_GENERATE,
                *CONSTRAINTS,
                _o("--instruct", "flag", "wrap the body as one user turn"),
                SYSTEM,
                *_SHOW,
            ),
        ),
        Mode(
            "chat",
            "one user turn, or system:/user:/assistant: blocks (the default mode)",
            "Completion",
            (
                *_GENERATE,
                *CONSTRAINTS,
                SYSTEM,
                PREFILL,
                DROP_THINKING,
                _o("--session", "text", "the conversation this turn belongs to", "NAME", completes="chats"),
                _o("--new", "flag", "start the conversation afresh; the old one is kept as a branch"),
                *TOOLS,
                *_SHOW,
            ),
        ),
        Mode(
            "structured",
            "a prompt whose answer is an instance of X",
            "Completion, `.parsed` is the instance",
            (
                *_GENERATE,
                *_STRUCTURED,
                SYSTEM,
                PREFILL,
                *_SHOW,
            ),
        ),
        Mode(
            "map",
            "a prompt with {{ column }}, asked for every row; several under lines `=== name`",
            "Runs",
            (*_ANSWERS, *_EXPERIMENT, OUT, FORMAT, QUIET),
            arguments="DF",
            least=1,
            most=1,
            completes="rows",
        ),
        Mode(
            "sweep",
            "a prompt with {{ name }}, asked with every combination; several under lines `=== name`",
            "Runs",
            (*_ANSWERS, *_EXPERIMENT, OUT, FORMAT, QUIET),
            arguments="[DF]",
            most=1,
            completes="rows",
        ),
        Mode(
            "decide",
            "a question with {{ column }}; how likely each option is as its answer, nothing drawn",
            "Odds",
            (MODEL, *_DECIDES, TIMEOUT, SYSTEM, *_EXPERIMENT, OUT, FORMAT, QUIET),
            arguments="DF",
            least=1,
            most=1,
            completes="rows",
        ),
        Mode(
            "tokens",
            "text to split into tokens; several to compare under lines `=== name`",
            "TokenStrip, TokenStrips",
            (MODEL, LIVE, OUT, QUIET, RAW),
        ),
        Mode(
            "surprise",
            "text to read through; nothing is generated",
            "ReadThrough",
            (MODEL, TIMEOUT, OUT, QUIET, RAW),
        ),
        Mode(
            "xray",
            "a raw prompt, or system:/user: blocks; the next token's road through the sampler chain",
            "SamplerTrace",
            (
                MODEL,
                SEED,
                TIMEOUT,
                *SAMPLING,
                LIVE,
                OUT,
                QUIET,
                RAW,
            ),
        ),
    )
}
DEFAULT_MODE = "chat"

_INSPECT = (
    _o("--tensors", "flag", "list every tensor"),
    _o("--tokenizer", "flag", "describe the tokenizer"),
    _o("--template", "flag", "show the chat template"),
)
_CHAT_ACTIONS = (
    Action("show", "its turns"),
    Action("undo", "take the last turn away"),
    Action("reset", "forget every turn and every branch"),
    Action("edit", "go back to before turn N; the next %%llama chat cell writes it anew", ("N",)),
    Action("take", "let a branch of an answer stand as its turn's answer", ("ANSWER",), ("answers",)),
    Action("fork", "go on under another name; this chat stays as it is", ("NEW",)),
    Action("save", "write it to a file", ("PATH",), ("chat files",)),
    Action("load", "let the turns of a file stand in place of these", ("PATH",), ("chat files",)),
)
_KV_ACTIONS = (
    Action("save", "write the sequence used last, or this one", ("PATH", "[SEQUENCE]"), ("files", "")),
    Action("restore", "take a saved sequence back", ("PATH",), ("files",)),
    Action("clear", "forget every sequence that no answer is using"),
    Action("fork", "keep what A holds under the name B", ("A", "B")),
)


def _with_out(verb: Verb) -> Verb:
    """Let what a verb gives back be bound, as that of a cell."""
    return verb if verb.gives in ("nothing", "widget") else replace(verb, options=(*verb.options, OUT))


def _one_of(actions: tuple[Action, ...]) -> str:
    return f"[{'|'.join(action.usage for action in actions)}]"


VERBS = {
    verb.name: _with_out(verb)
    for verb in (
        Verb(
            "load",
            "[SOURCE]",
            "resolve, verify, load, make current",
            "Model",
            (*LOAD, *FETCH, DRY_RUN),
            most=1,
            completes=("sources",),
        ),
        Verb(
            "pull",
            "SOURCE",
            "resolve and download only",
            "path",
            FETCH,
            least=1,
            most=1,
            completes=("sources",),
        ),
        Verb(
            "connect",
            "[URL]",
            "a server in place of a file: the same cells, its abilities tried and shown",
            "Model",
            (
                _o("--as", "text", "the name to keep it under", "NAME", dest="name"),
                _o("--ctx", "count", "context window in tokens, where the server does not tell it", "N"),
                *_CONNECT,
            ),
            most=1,
        ),
        Verb(
            "alias",
            "[NAME [SOURCE]]",
            "let a task's name stand for a model and its options; loaded when first asked for",
            "Alias, or a table",
            (*LOAD[1:], *FETCH, *_CONNECT, _o("--remove", "flag", "let the name stand for nothing again")),
            most=2,
            completes=("aliases", "sources"),
        ),
        Verb("use", "NAME", "choose the current model", "Model", least=1, most=1, completes=("loaded",)),
        Verb("models", "", "list loaded and on-disk models with their sizes", "table"),
        Verb(
            "unload",
            "[NAME]",
            "really free the memory",
            "nothing",
            (_o("--all", "flag", "every model"),),
            most=1,
            completes=("loaded",),
        ),
        Verb(
            "inspect",
            "[SOURCE or NAME]",
            "read a GGUF header without loading weights",
            "GGUFInfo",
            (*_INSPECT, *FETCH[1:]),
            most=1,
            completes=("models",),
        ),
        Verb(
            "tokens",
            "TEXT",
            "the token strip: pieces, ids, special tokens, count",
            "TokenStrip",
            (MODEL, LIVE),
            text=True,
        ),
        Verb(
            "sampler",
            "[k=v …|reset]",
            "show, set or reset the sampler chain",
            "Sampling",
            most=99,
            completes=("parameters",),
        ),
        Verb(
            "kv",
            _one_of(_KV_ACTIONS),
            "the state of the KV cache",
            "KVState",
            (MODEL,),
            actions=_KV_ACTIONS,
            most=3,
            completes=("actions",),
        ),
        Verb("chats", "", "list the conversations of this kernel", "table"),
        Verb(
            "chat",
            f"NAME {_one_of(_CHAT_ACTIONS)}",
            "one conversation",
            "Chat",
            (
                _o("--prompt", "flag", "with show: the prompt that was really sent, template included"),
                _o("--branch", "positive", "with show or fork: take this kept branch", "N"),
            ),
            actions=_CHAT_ACTIONS,
            least=1,
            most=3,
            completes=("chats", "actions"),
        ),
        Verb("pad", "", "a prompt pad with live token count, sliders, Run and Stop", "widget", (MODEL,)),
        Verb(
            "pen",
            "[NAME]",
            "pick or write over any token of an answer (a variable, or a number of history; else the last)",
            "widget",
            most=1,
            completes=("answers",),
        ),
        Verb(
            "history",
            "[N] [save PATH]",
            "the generations of this kernel, or the last N; save writes their receipts",
            "table, `.to_pandas()`",
            (_o("--grep", "regex", "those whose prompt or answer matches this", "RE"), TAG),
            most=3,
            completes=("", "files"),
        ),
        Verb(
            "record",
            "[PATH|off]",
            "keep every answer from now on in one SQLite file; without a word: show it",
            "`Record`, `.to_pandas()`",
            (TAG,),
            most=1,
            completes=("files",),
        ),
        Verb(
            "replay",
            "[PATH|off]",
            "answer requests that equal one of a record from it, and say so",
            "nothing",
            (_o("--only", "flag", "answer nothing else; needs neither weights nor llama.cpp"),),
            most=1,
            completes=("files",),
        ),
        Verb(
            "rerun",
            "N [k=v …]",
            "ask again what generation N was asked, with some options changed",
            "Completion",
            (MODEL, *LIMITS, *SAMPLING, FORMAT, QUIET),
            least=1,
            most=99,
            completes=("", "parameters"),
        ),
        Verb(
            "diff",
            "A B",
            "the first token where two generations part, and what each held likely there; of two runs the "
            "rows that changed",
            "`Difference`, `Changes`",
            least=2,
            most=2,
        ),
        Verb(
            "verify",
            "[NOTEBOOK|RECORD]",
            "write every seeded answer again: n of n, or the first token that differs and why",
            "`Verification`",
            (MODEL, TIMEOUT, *LOAD[1:]),
            most=1,
            completes=("files",),
        ),
        Verb(
            "stats",
            "[reset]",
            "requests, waits, speeds and errors of a model",
            "ModelStats",
            (MODEL,),
            most=1,
        ),
        Verb(
            "bench",
            "[NAME]",
            "how fast a model reads and writes, as llama-bench says it: pp512, tg128",
            "Bench, `.to_pandas()`",
            (
                _o("-p --n-prompt", "count", "tokens to read; 0: leave it out", "N"),
                _o("-n --n-gen", "count", "tokens to write; 0: leave it out", "N"),
                _o("-r --repetitions", "positive", "how often each is measured", "N"),
                TIMEOUT,
            ),
            most=1,
            completes=("models",),
        ),
        Verb(
            "serve",
            "[NAME …|stop]",
            "serve models to other programs: OpenAI's API, and llama-server's",
            "Server",
            SERVE,
            most=99,
            completes=("models",),
        ),
        Verb("doctor", "", "versions, devices, crash check, caches, advice", "report"),
    )
}
