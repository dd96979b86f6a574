"""Serve a small model on loopback as chat completions; runs in its own virtual environment, without hotdesk's packages.

The model was never taught to use tools: the tools are listed for it, and the first characters of a call are written
for it. Its continuation is passed on unchanged, including unknown names and broken arguments.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

WINDOW = 8192
LONGEST = 160
"""Most tokens of a reply; a model of this size repeats itself after that."""
BEGIN = '<tool_call>\n{"name": "'
NEXT = '", "arguments": '
END = "</tool_call>"
DIRECT = build_opener(ProxyHandler({}))


def prompt(body: dict[str, Any]) -> str:
    tools = [tool["function"] for tool in body.get("tools", [])]
    told = [(message["role"], written(message)) for message in body["messages"]]
    if tools:
        listed = "\n".join(map(json.dumps, tools))
        told[0] = (told[0][0], f"{told[0][1]}\n\nThe tools are:\n{listed}\nTo use one write:\n{example(tools[0])}")
    turns = "".join(f"<|im_start|>{'user' if role == 'tool' else role}\n{text}<|im_end|>\n" for role, text in told)
    return f"{turns}<|im_start|>assistant\n{BEGIN if tools else ''}"


def example(tool: dict[str, Any]) -> str:
    given = dict.fromkeys(tool["parameters"]["required"], "...")
    return f"{BEGIN}{tool['name']}{NEXT}{json.dumps(given)}}}\n{END}"


def written(message: dict[str, Any]) -> str:
    calls = [each["function"] for each in message.get("tool_calls", [])]
    uses = [f"{BEGIN}{each['name']}{NEXT}{each['arguments']}}}\n{END}" for each in calls]
    return "\n".join(filter(None, [message.get("content"), *uses]))


def delta(said: str, has_tools: bool) -> dict[str, Any]:
    """Return the model's output as a message: a tool call if there are tools and it has that form, else text."""
    name, found, rest = said.partition(NEXT.strip())
    if not has_tools or not found:
        return {"content": said}
    given = rest.partition(END)[0].strip()
    given = given.removesuffix("}") if given.count("}") > given.count("{") else given
    return {"tool_calls": [{"index": 0, "id": "", "function": {"name": name, "arguments": given}}]}


def chunks(body: dict[str, Any], answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    message = delta(answer["content"], bool(body.get("tools")))
    cut = answer.get("stop_type") == "limit"
    reason = "length" if cut else "tool_calls" if "tool_calls" in message else "stop"
    yield {"choices": [{"index": 0, "delta": message, "finish_reason": None}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    read, wrote = answer["tokens_evaluated"], answer["tokens_predicted"]
    usage = {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}
    yield {"choices": [], "usage": usage}


class Handler(BaseHTTPRequestHandler):
    """Answers one request after another."""

    beneath = ""
    """Address of llama.cpp's server."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.startswith("/plain/"):
            body.pop("tools", None)
        asked = {"prompt": prompt(body), "n_predict": min(LONGEST, body["max_tokens"]), "stop": [END, "<|im_end|>"]}
        try:
            with DIRECT.open(f"{self.beneath}/completion", json.dumps(asked).encode()) as told:
                answer = json.load(told)
        except HTTPError as e:
            self.give(e.code, "application/json", e.read().decode())
            return
        common = {"id": "c", "object": "chat.completion.chunk", "created": int(time.time()), "model": body["model"]}
        lines = [json.dumps({**common, **chunk}) for chunk in chunks(body, answer)]
        self.give(200, "text/event-stream", "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]))

    def give(self, code: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main(file: str) -> None:
    """Serve a model's file until terminated: with tools, and below /plain without. Print the port."""
    library: Any = import_module("xllamacpp")
    params = library.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = file, WINDOW, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.sampling.seed, params.verbosity = 7, 0
    own = library.Server(params)
    Handler.beneath = own.listening_address
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
