"""A model for other projects' agents: it speaks OpenAI's chat completions and Responses, not streamed, on loopback."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, TypeAlias

from tests.providers.server import Body, Refused, Threads

KEY = "sk-only-on-loopback"
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
USAGE = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
USED = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}
DETAILS = {"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
           "output_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Use:
    """A tool call of the model."""

    tool: str
    given: dict[str, object]


Mind: TypeAlias = Callable[[list[str]], Use | str]
"""Maps the results of all calls so far to the next call, or to the final text."""


@dataclass
class Model:
    """A running model: its address, and the refused requests."""

    mind: Mind
    url: str = ""
    """The value for a client's OPENAI_BASE_URL."""
    refusals: list[str] = field(default_factory=list)
    """Why requests were answered with 400."""

    def answer(self, path: str, key: str, body: Body) -> Body:
        if key != f"Bearer {KEY}" or body.get("stream"):
            raise Refused("the key is wrong, or a stream was asked for")
        match path:
            case "/v1/chat/completions":
                return self.chat(body)
            case "/v1/responses":
                return self.responses(body)
        raise Refused(f"there is no {path}")

    def chat(self, body: Body) -> Body:
        for tool in body.get("tools", []):
            check_tool(tool["function"])
        messages = body["messages"]
        uses = [call["id"] for each in messages for call in each.get("tool_calls") or []]
        seen = {each["tool_call_id"]: text(each["content"]) for each in messages if each["role"] == "tool"}
        if "tools" not in body:  # this model's replies are code, and its output comes in user messages
            seen = {str(at): text(each["content"]) for at, each in enumerate(messages[2:]) if each["role"] == "user"}
            uses = list(seen)
        then = self.mind(in_order(uses, seen))
        said: Body = {"role": "assistant", "content": then if isinstance(then, str) else None, "refusal": None}
        if isinstance(then, Use):
            function = {"name": then.tool, "arguments": json.dumps(then.given)}
            said["tool_calls"] = [{"id": f"call_{len(uses)}", "type": "function", "function": function}]
        stop = "tool_calls" if isinstance(then, Use) else "stop"
        choice = {"index": 0, "message": said, "finish_reason": stop, "logprobs": None}
        return {"id": f"chatcmpl-{len(uses)}", "object": "chat.completion", "created": 1, "model": body["model"],
                "choices": [choice], "usage": USAGE}  # fmt: skip

    def responses(self, body: Body) -> Body:
        for tool in body["tools"]:
            check_tool(tool)
        items = body["input"] if isinstance(body["input"], list) else []
        uses = [item["call_id"] for item in items if item.get("type") == "function_call"]
        seen = {item["call_id"]: text(item["output"]) for item in items if item.get("type") == "function_call_output"}
        then = self.mind(in_order(uses, seen))
        item: Body
        if isinstance(then, Use):
            item = {"type": "function_call", "id": f"fc_{len(uses)}", "call_id": f"call_{len(uses)}",
                    "name": then.tool, "arguments": json.dumps(then.given), "status": "completed"}  # fmt: skip
        else:
            content = [{"type": "output_text", "text": then, "annotations": []}]
            item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
        return {"id": f"resp_{len(uses)}", "object": "response", "created_at": 1, "model": body["model"],
                "output": [item], "parallel_tool_calls": True, "tool_choice": "auto", "tools": body["tools"],
                "status": "completed", "usage": {**USED, **DETAILS}}  # fmt: skip


@contextmanager
def thinking(mind: Mind) -> Iterator[Model]:
    model = Model(mind)
    server = Threads(("127.0.0.1", 0), type("Talk", (Talk,), {"model": model}))
    model.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Talk(BaseHTTPRequestHandler):
    """Speaks HTTP for a model."""

    protocol_version = "HTTP/1.1"
    timeout = 60
    model: Model

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = 200
        try:
            told = self.model.answer(self.path, self.headers.get("Authorization", ""), body)
        except Refused as e:
            self.model.refusals.append(str(e))
            error = {"message": str(e), "type": "invalid_request_error", "param": None, "code": None}
            status, told = 400, {"error": error}
        written = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(written)))
        self.end_headers()
        self.wfile.write(written)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def check_tool(tool: Body) -> None:
    schema = tool.get("parameters") or {}
    if not NAME.fullmatch(tool["name"]) or schema.get("type") != "object":
        raise Refused(f"{tool['name']}: bad name, or its parameters are no object")
    if tool.get("strict"):
        check_strict(schema, tool["name"])


def check_strict(schema: Body, where: str) -> None:
    properties = schema.get("properties", {})
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False or set(schema.get("required", [])) != set(properties)
    ):
        raise Refused(f"{where}: is strict, but a property is optional, or others are permitted")
    for name, each in properties.items():
        check_strict(each, f"{where}.{name}")


def in_order(uses: list[str], seen: dict[str, str]) -> list[str]:
    """Return the result of each call; refuse a call without a result, and a result without a call."""
    if set(uses) != set(seen):
        raise Refused(f"No tool output found for call, or no call for output: {set(uses) ^ set(seen)}")
    return [seen[use] for use in uses]


def text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content if "text" in part)
