"""A server that speaks chat completions, streamed, like the self-hosted servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.providers.server import Body, Provider, Refused, Script, only, picture, serving

FIELDS = "stream stream_options max_tokens max_completion_tokens tools tool_choice temperature"


def text(said: str) -> Body:
    return {"content": said}


def thinking(thought: str, key: str = "reasoning_content") -> Body:
    return {key: thought}


def tool(name: str, **given: object) -> Body:
    return {"name": name, "arguments": json.dumps(given)}


@contextmanager
def chat_server(script: Script) -> Iterator[Chat]:
    """Run a server whose model follows a script. Clients use `base_url`; tests read `requests` and set `trouble`."""
    with serving(Chat(script, "/v1")) as made:
        yield made


class Chat(Provider):
    """A server of chat completions."""

    def answer(self, path: str, headers: dict[str, str], body: Body) -> list[tuple[str, Body | str]]:
        """Check a request and return its events. A scripted message may have a `stop`: a finish reason."""
        if path != "/v1/chat/completions":
            raise Refused(f"there is no {path}")
        self.check(body)
        said = [dict(each) for each in self.script(body)]
        return [("", event) for event in self.events(body, said)] + [("", "[DONE]")]

    def error(self, status: int, why: str, param: str = "") -> Body:
        return {"error": {"message": why, "type": "invalid_request_error", "code": status}}

    def events(self, body: Body, said: list[Body]) -> Iterator[Body]:
        stop = next((each.pop("stop") for each in said if "stop" in each), None)
        common = {
            "id": f"chatcmpl-{self.number()}",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": body["model"],
        }
        index = -1
        thoughts: Body = {}
        for each in said:
            if "name" not in each:
                thoughts |= {key: value for key, value in each.items() if key != "content"}
                deltas = [each]
            else:
                index += 1
                deltas = list(self.pieces(index, each, thoughts))
            for delta in deltas:
                yield {
                    **common,
                    "choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}],
                }
        usual = "stop" if index < 0 else "tool_calls"
        yield {**common, "choices": [{"index": 0, "delta": {}, "finish_reason": stop or usual}]}
        if (body.get("stream_options") or {}).get("include_usage"):
            tokens = self.count_output(said)
            usage = {"prompt_tokens": 110, "completion_tokens": tokens, "total_tokens": 110 + tokens,
                     "prompt_tokens_details": {"cached_tokens": 100}}  # fmt: skip
            yield {**common, "choices": [], "usage": usage}

    def pieces(self, index: int, each: Body, thoughts: Body) -> Iterator[Body]:
        """Yield a call in pieces: its name, then its arguments in two halves."""
        name = each.get("id", f"call_{self.number()}")
        self.sealed[name] = dict(thoughts)
        half = len(each["arguments"]) // 2
        begun = {"index": index, "id": name, "type": "function", "function": {"name": each["name"], "arguments": ""}}
        yield {"tool_calls": [begun]}
        for part in (each["arguments"][:half], each["arguments"][half:]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}

    def check(self, body: Body) -> None:
        only(body, "body", "model messages", FIELDS)
        for number, each in enumerate(body.get("tools", [])):
            only(each, f"tools.{number}", "type function")
            only(each["function"], f"tools.{number}.function", "name description parameters")
        waiting: list[str] = []
        for number, message in enumerate(body["messages"]):
            waiting = self.check_message(message, f"messages.{number}", waiting)
        if waiting or body["messages"][-1]["role"] == "assistant":
            raise Refused(f"messages: calls have no result, or nothing is left to answer: {waiting}")

    def check_message(self, message: Body, where: str, waiting: list[str]) -> list[str]:
        """Check a message; return the calls that still lack a result."""
        if waiting and message["role"] != "tool":
            raise Refused(f"{where}: tool calls must be followed by their results: {waiting}")
        match message["role"]:
            case "system":
                only(message, where, "role content")
            case "user":
                only(message, where, "role content")
                self.check_parts(message["content"], where)
            case "assistant":
                return self.check_said(message, where)
            case "tool":
                only(message, where, "role content tool_call_id")
                if message["tool_call_id"] not in waiting or not isinstance(message["content"], str):
                    raise Refused(f"{where}: answers no call, or is no text")
                return [name for name in waiting if name != message["tool_call_id"]]
        return []

    def check_parts(self, content: str | list[Body], where: str) -> None:
        for part in content if isinstance(content, list) else []:
            if part["type"] == "text":
                only(part, where, "type text")
            else:
                only(part, where, "type image_url")
                picture(part["image_url"]["url"], where)

    def check_said(self, message: Body, where: str) -> list[str]:
        """Check a message of the model: its arguments are an object, and its thoughts are those its calls came with."""
        only(message, where, "role content", "tool_calls reasoning reasoning_content")
        names = []
        for call in message.get("tool_calls", []):
            only(call, where, "id type function")
            try:
                given = json.loads(call["function"]["arguments"])
            except ValueError as e:
                raise Refused(f"{where}: arguments are no JSON") from e
            if not isinstance(given, dict) or not isinstance(message["content"], str):
                raise Refused(f"{where}: arguments are no object, or content no text")
            for key, value in self.sealed.get(call["id"], {}).items():
                if message.get(key) != value:
                    raise Refused(f"{where}: {key} was left out or changed")
            names.append(call["id"])
        return names
