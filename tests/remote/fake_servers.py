"""Servers on 127.0.0.1 that speak as vLLM, Ollama, llama-server and plain OpenAI do, and misbehave on demand.

They answer each question with `answer`, a word (with the blank before it) a token. A constraint is kept: the
first choice is written, or the least JSON of the schema; but `Faults.ignores` names kinds that are taken and
ignored, as vLLM does with fields it does not know. A window is kept as the real ones do, or not at all.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "fake-1b"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKS = ("<|im_start|>", "<|im_end|>")
_PIECES = re.compile(r"<\|im_\w+\|>|\s*[^\s<]+|\s+|<")


@dataclass
class Faults:
    """What goes wrong. `statuses` are answered first, one a generation; others after so many pieces."""

    statuses: list[int] = field(default_factory=list)
    retry_after: str = ""
    cut_after: int | None = None
    error_after: int | None = None
    stall_after: int | None = None
    silent_after: int | None = None
    garbage_after: int | None = None
    ignores: frozenset[str] = frozenset()
    no_seed: bool = False
    no_end: bool = False
    cuts_in_silence: bool = False
    key: str = ""
    release: threading.Event = field(default_factory=threading.Event)


@dataclass
class Fake:
    """A server that runs. `asked` are the bodies of generations, `hung_up` counts clients that left."""

    kind: str
    faults: Faults
    answer: str
    window: int
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    hung_up: threading.Event = field(default_factory=threading.Event)
    words: dict[str, int] = field(default_factory=dict)
    draws: int = 0
    together: threading.Barrier | None = None  # where texts that are scored wait for each other
    numbering: Any = field(default_factory=threading.Lock)  # each connection has a thread
    handler: Any = None

    def ids(self, text: str) -> list[int]:
        with self.numbering:
            return [self.words.setdefault(piece, 10 + len(self.words)) for piece in _PIECES.findall(text)]

    def text(self, ids: list[int]) -> str:
        with self.numbering:
            pieces = {number: piece for piece, number in self.words.items()}
        return "".join(pieces[number] for number in ids)

    def rendered(self, messages: list[dict[str, Any]], opens: bool = True) -> str:
        turns = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
        return turns + ("<|im_start|>assistant\n" if opens else "")


def least_json(schema: Any) -> str:
    """Return a small instance of the few schemas that tests ask for."""
    if "enum" in schema:
        return json.dumps(schema["enum"][0])
    if schema.get("type") == "object":
        inner = (f"{json.dumps(k)}: {least_json(v)}" for k, v in schema.get("properties", {}).items())
        return "{" + ", ".join(inner) + "}"
    return {"integer": "7", "number": "1.5", "boolean": "true"}.get(schema.get("type", ""), '"word"')


def _likely(fake: Fake, token: int) -> dict[str, Any]:
    return {"logprob": -float(token), "rank": 2, "decoded_token": fake.text([token])}


def _top() -> dict[str, Any]:
    return {"logprob": -0.25, "rank": 1, "decoded_token": " the"}


def _told(fake: Fake, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return choices with vLLM's `prompt_logprobs`, the last one first."""
    asked = body["prompt"]
    prompts = asked if isinstance(asked[0], list) else [asked]
    top = {"3": _top()} if body["prompt_logprobs"] else {}
    return [
        {
            "index": place,
            "text": "",
            "prompt_logprobs": [None, *({str(i): _likely(fake, i), **top} for i in ids[1:])],
        }
        for place, ids in reversed(list(enumerate(prompts)))
    ]


def _odds(fake: Fake, body: dict[str, Any]) -> dict[str, Any]:
    """Return what llama-server tells of the one token that it writes, which its bias makes it.

    A piece with "?" stands for a part of a character, of which nothing is told, but among the others.
    """
    [[token, _]] = body["logit_bias"]
    entry = {"id": token, **_likely(fake, token)}
    if body["n_probs"] > 1:
        return {
            "completion_probabilities": [
                {**entry, "top_logprobs": [{"id": i, **_likely(fake, i)} for i in fake.words.values()]}
            ]
        }
    return {"completion_probabilities": [] if "?" in fake.text([token]) else [{**entry, "top_logprobs": []}]}


class Handler(BaseHTTPRequestHandler):
    """One connection. `fake` is set by `serve`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # as real servers do: a body would wait 40 ms behind its head
    fake: Fake

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self._locked():
            return
        fake = self.fake
        found: Any = None
        if self.path == "/v1/models":
            row: dict[str, Any] = {"id": MODEL, "object": "model", "owned_by": fake.kind}
            if fake.kind == "vllm":
                row["max_model_len"] = fake.window
            found = {"object": "list", "data": [row]}
        elif self.path == "/version" and fake.kind == "vllm":
            found = {"version": "0.12.0"}
        elif self.path == "/api/version" and fake.kind == "ollama":
            found = {"version": "0.13.1"}
        elif self.path == "/props" and fake.kind == "llama-server":
            found = {
                "default_generation_settings": {"n_ctx": fake.window},
                "total_slots": 4,
                "chat_template": TEMPLATE,
                "bos_token": "",
                "eos_token": "<|im_end|>",
                "build_info": "b1-fake",
            }
        self.tell(found) if found is not None else self._error(404, "File Not Found")

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length))
        if self._locked():
            return
        self.fake.paths.append(self.path)
        short = self._short(body)
        if short is not None:
            self.tell(short)
            return
        paths = {
            "vllm": ("/v1/completions", "/v1/chat/completions"),
            "openai": ("/v1/completions", "/v1/chat/completions"),
            "llama-server": ("/completion", "/v1/completions", "/v1/chat/completions"),
            "ollama": ("/api/chat", "/api/generate", "/v1/chat/completions", "/v1/completions"),
        }[self.fake.kind]
        if self.path not in paths:
            self._error(404, "File Not Found")
            return
        self._generate(body)

    # --- short questions ------------------------------------------------------------------

    def _short(self, body: dict[str, Any]) -> Any:
        fake = self.fake
        if self.path == "/tokenize" and fake.kind == "vllm":
            text = body["prompt"] if "prompt" in body else fake.rendered(body["messages"])
            ids = fake.ids(text)
            return {"count": len(ids), "max_model_len": fake.window, "tokens": ids}
        if self.path == "/detokenize" and fake.kind == "vllm":
            return {"prompt": fake.text(body["tokens"])}
        if self.path == "/tokenize" and fake.kind == "llama-server":
            text = body["content"] if body.get("parse_special") else re.sub(r"<\|", "< |", body["content"])
            return {"tokens": [{"id": i, "piece": fake.text([i])} for i in fake.ids(text)]}
        if self.path == "/detokenize" and fake.kind == "llama-server":
            return {"content": fake.text(body["tokens"])}
        if self.path == "/apply-template" and fake.kind == "llama-server":
            return {"prompt": fake.rendered(body["messages"])}
        if self.path == "/api/show" and fake.kind == "ollama":
            return {"model_info": {"llama.context_length": 8192}, "capabilities": ["completion"]}
        if self.path == "/api/embed" and fake.kind == "ollama":
            return {"embeddings": [[3.0, 4.0] for _ in body["input"]]}
        if self.path == "/v1/embeddings":
            rows = [{"index": i, "embedding": [3.0, 4.0 + i]} for i, _ in enumerate(body["input"])]
            return {"data": rows[::-1]}
        return None

    # --- answers --------------------------------------------------------------------------

    def _generate(self, body: dict[str, Any]) -> None:
        fake, faults = self.fake, self.fake.faults
        fake.asked.append(body)
        if faults.statuses:
            self._error(faults.statuses.pop(0), "not now")
            return
        if "prompt_logprobs" in body or (fake.kind == "llama-server" and not body.get("stream", True)):
            if fake.together is not None:
                fake.together.wait(120)
            self.tell(_odds(fake, body) if fake.kind == "llama-server" else {"choices": _told(fake, body)})
            return
        prompt = self._prompt(body)
        if len(fake.ids(prompt)) > fake.window and not faults.cuts_in_silence:
            self._error(400, f"This model's maximum context length is {fake.window} tokens.")
            return
        most = (
            body.get("max_tokens")
            or body.get("n_predict")
            or body.get("options", {}).get("num_predict")
            or 99
        )
        pieces = _PIECES.findall(self._text(body))
        reason = "length" if len(pieces) > most else "stop"
        shape = _SHAPES[
            fake.kind if fake.kind in ("ollama", "llama-server") and "/v1/" not in self.path else "openai"
        ]
        chat = "chat" in self.path
        if not body.get("stream", False):
            usage = {"prompt_tokens": len(fake.ids(prompt)), "completion_tokens": 1}
            self.tell({"usage": usage, "prompt_eval_count": usage["prompt_tokens"], "choices": []})
            return
        self._stream(shape(fake, body, pieces[:most], reason, len(fake.ids(prompt)), chat))

    def _prompt(self, body: dict[str, Any]) -> str:
        prompt = body.get("prompt")
        if isinstance(prompt, list):
            return self.fake.text(prompt)
        return self.fake.rendered(body["messages"]) if prompt is None else str(prompt)

    def _text(self, body: dict[str, Any]) -> str:
        fake, ignores = self.fake, self.fake.faults.ignores
        asked = body.get("structured_outputs") or {}
        schema = asked.get("json") or body.get("json_schema") or body.get("format")
        if schema is None and "response_format" in body:
            schema = body["response_format"]["json_schema"]["schema"]
        if schema is not None and "json" not in ignores:
            return least_json(schema)
        if "choice" in asked and "choices" not in ignores:
            return str(asked["choice"][0])
        if "regex" in asked and "regex" not in ignores:
            return str(asked["regex"])
        grammar = asked.get("grammar") or body.get("grammar")
        if grammar and "gbnf" not in ignores:
            return str(re.findall(r'"((?:[^"\\]|\\.)*)"', grammar)[0])
        seed = body.get("seed", body.get("options", {}).get("seed"))
        if fake.answer:
            return fake.answer
        fake.draws += 1
        return f"drawn with {fake.draws if fake.faults.no_seed else seed} as told"

    def _stream(self, values: Iterator[tuple[bytes, bool]]) -> None:
        faults = self.fake.faults
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        sent = 0
        try:
            for data, piece in values:
                if not piece and sent and faults.no_end:
                    break
                if self._go_wrong(sent):
                    return
                self.send(data)
                sent += piece
            self.send(b"")
        except (BrokenPipeError, ConnectionResetError):
            self.fake.hung_up.set()
            self.close_connection = True

    def _go_wrong(self, sent: int) -> bool:
        faults = self.fake.faults
        if faults.silent_after == sent:
            self.connection.recv(1)  # not a byte more, until the client has hung up
        if faults.stall_after == sent:
            while not faults.release.wait(0.02):
                self.send(b": still here\n\n")  # so that a client that left is noticed
        if faults.error_after == sent:
            self.send(b'data: {"error": {"message": "out of memory", "code": 500}}\n\n')
            return True
        if faults.garbage_after == sent:
            self.send(b"data: <html>504 Gateway Time-out</html>\n\n")
            return True
        if faults.cut_after == sent:
            self.close_connection = True
            self.connection.shutdown(2)
            return True
        return False

    # --- HTTP -----------------------------------------------------------------------------

    def _locked(self) -> bool:
        key = self.headers.get("authorization", "")
        self.fake.keys.append(key)
        if self.fake.faults.key and key != f"Bearer {self.fake.faults.key}":
            self._error(401, f"Incorrect API key provided: {key.removeprefix('Bearer ')}")
            return True
        return False

    def tell(self, found: Any, status: int = 200) -> None:
        data = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        if status in (429, 503) and self.fake.faults.retry_after:
            self.send_header("retry-after", self.fake.faults.retry_after)
        self.end_headers()
        self.wfile.write(data)

    def _error(self, status: int, message: str) -> None:
        self.tell({"error": {"message": message, "code": status}}, status)

    def send(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


Values = Iterator[tuple[bytes, bool]]


def _sse(found: Any) -> bytes:
    return b"data: " + json.dumps(found, ensure_ascii=False).encode() + b"\n\n"


def _called(fake: Fake, body: dict[str, Any]) -> str:
    """Return the tool that must be called, the first where any will do; "" where none must be."""
    choice = body.get("tool_choice", "auto")
    if not body.get("tools") or choice in ("none", "auto") or "tools" in fake.faults.ignores:
        return ""
    named = choice["function"]["name"] if isinstance(choice, dict) else ""
    return named or str(body["tools"][0]["function"]["name"])


def _openai(
    fake: Fake, body: dict[str, Any], pieces: list[str], reason: str, read: int, chat: bool
) -> Values:
    """Yield chunks of completions or chat completions: pieces (True), then what ends the answer (False)."""
    if chat:
        yield _sse({"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]}), False
    if called := _called(fake, body):
        pieces, reason = [], "tool_calls"
        for part in ({"name": called, "arguments": ""}, {"arguments": '{"at": '}, {"arguments": '"x"}'}):
            call = {"index": 0, "type": "function", "function": part}
            yield _sse({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}), True
    for piece in pieces:
        choice: dict[str, Any] = {"index": 0, "finish_reason": None}
        choice |= {"delta": {"content": piece}} if chat else {"text": piece}
        if body.get("return_token_ids"):
            choice["token_ids"] = fake.ids(piece)
        if body.get("logprobs"):
            new = {"token": piece, "logprob": -0.5, "top_logprobs": [{"token": piece, "logprob": -0.5}]}
            old = {"tokens": [piece], "token_logprobs": [-0.5], "top_logprobs": [{piece: -0.5, " b": -1.5}]}
            choice["logprobs"] = {"content": [new]} if chat else old
        yield _sse({"choices": [choice]}), True
    end: dict[str, Any] = {"index": 0, "finish_reason": reason}
    yield _sse({"choices": [end | ({"delta": {}} if chat else {"text": ""})]}), False
    if body.get("stream_options"):
        usage = {"prompt_tokens": read, "completion_tokens": len(pieces)}
        yield _sse({"choices": [], "usage": usage}), False
    yield b"data: [DONE]\n\n", False


def _llama_server(
    fake: Fake, body: dict[str, Any], pieces: list[str], reason: str, read: int, chat: bool
) -> Values:
    for piece in pieces:
        found: dict[str, Any] = {"content": piece, "tokens": fake.ids(piece), "stop": False}
        if body.get("n_probs"):
            [number] = fake.ids(piece)
            entry = {"id": number, "token": piece, "bytes": list(piece.encode()), "logprob": -0.5}
            found["completion_probabilities"] = [entry | {"top_logprobs": [entry]}]
        yield _sse(found), True
    end = {"content": "", "tokens": [], "stop": True, "stop_type": "limit" if reason == "length" else "eos"}
    yield (
        _sse(end | {"tokens_evaluated": read, "tokens_predicted": len(pieces), "timings": {"cache_n": 3}}),
        False,
    )


def _ollama(
    fake: Fake, body: dict[str, Any], pieces: list[str], reason: str, read: int, chat: bool
) -> Values:
    for piece in pieces:
        found: dict[str, Any] = {"message": {"content": piece}} if chat else {"response": piece}
        if body.get("logprobs"):
            found["logprobs"] = [{"token": piece, "logprob": -0.5, "top_logprobs": []}]
        yield json.dumps(found | {"done": False}).encode() + b"\n", True
    end = {"done": True, "done_reason": reason, "prompt_eval_count": read, "eval_count": len(pieces)}
    yield (
        json.dumps(end | ({"message": {"content": ""}} if chat else {"response": ""})).encode() + b"\n",
        False,
    )


_SHAPES: dict[str, Callable[..., Values]] = {
    "openai": _openai,
    "llama-server": _llama_server,
    "ollama": _ollama,
}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # twenty clients come at once

    def handle_error(self, *_: Any) -> None:
        """Say nothing of clients that left."""


def serve(kind: str, answer: str = "", window: int = 256, **faults: Any) -> tuple[Fake, Callable[[], None]]:
    """Start a fake server; return it and what stops it."""
    fake = Fake(kind, Faults(**faults), answer, window)
    fake.handler = type("Bound", (Handler,), {"fake": fake})
    server = _Server(("127.0.0.1", 0), fake.handler)
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop() -> None:
        fake.faults.release.set()
        server.shutdown()
        server.server_close()

    return fake, stop
