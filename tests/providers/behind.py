"""One function as the model behind any provider's protocol; it reads and writes protocol-independent values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from hotdesk.brain.models.seam import Reply
from hotdesk.tool import Call
from tests.providers import anthropic, chat, openai
from tests.providers.server import Body, Provider


@dataclass(frozen=True)
class Asked:
    """The content of a request, whatever its protocol."""

    system: str
    told: tuple[str, ...]
    """Our messages, in order."""
    results: tuple[str, ...]
    """Results of the last reply's calls, in order; empty if it had none."""
    pictures: int
    """Number of pictures in the whole request."""
    turns: int
    """Number of earlier replies of the model."""
    tools: tuple[str, ...]
    body: Body


Brain: TypeAlias = Callable[[Asked], Reply]
"""Makes a reply, of which only text, thought and calls are sent; the server chooses the ids of calls."""


@contextmanager
def behind(kind: str, brain: Brain) -> Iterator[Provider]:
    """Run a server of a kind (`anthropic`, `openai`, `chat`) whose replies come from `brain`."""
    serve, read, say = KINDS[kind]
    with serve(lambda body: say(brain(read(body)))) as server:
        yield server


def from_anthropic(body: Body) -> Asked:
    messages = body["messages"]
    blocks = [block for message in messages if message["role"] == "user" for block in message["content"]]
    last = [block for block in messages[-1]["content"] if block["type"] == "tool_result"]
    return Asked(
        system="\n".join(part["text"] for part in body.get("system", [])),
        told=tuple(block["text"] for block in blocks if block["type"] == "text"),
        results=tuple(joined(block["content"]) for block in last),
        pictures=json.dumps(messages).count('"type": "image"'),
        turns=sum(message["role"] == "assistant" for message in messages),
        tools=tuple(tool.get("name") or "computer" for tool in body.get("tools", [])),
        body=body,
    )


def from_openai(body: Body) -> Asked:
    """Read a request of Responses; a turn ends with our next message."""
    items = body["input"]
    ours = [item.get("role") == "user" or str(item.get("type")).endswith("_output") for item in items]
    last = items[max((n for n, own in enumerate(ours) if not own), default=-1) + 1 :]
    said = [part for item in items if item.get("role") == "user" for part in item["content"]]
    outputs = [item["output"] for item in last if str(item.get("type")).endswith("_output")]
    beside = joined([part for item in last if item.get("role") == "user" for part in item["content"]])
    return Asked(
        system=body.get("instructions", ""),
        told=tuple(part["text"] for part in said if part["type"] == "input_text"),
        results=tuple(
            out if isinstance(out, str) else joined(out) if isinstance(out, list) else beside for out in outputs
        ),
        pictures=json.dumps(items).count('"image_url": "data:'),
        turns=sum(own and not before for own, before in zip(ours[1:], ours, strict=False)),
        tools=tuple(tool.get("name") or "computer" for tool in body.get("tools", [])),
        body=body,
    )


def from_chat(body: Body) -> Asked:
    messages = body["messages"]
    last = max((n for n, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
    said = [message["content"] for message in messages if message["role"] == "user"]
    return Asked(
        system="\n".join(message["content"] for message in messages if message["role"] == "system"),
        told=tuple(each if isinstance(each, str) else joined(each) for each in said),
        results=tuple(message["content"] for message in messages[last + 1 :] if message["role"] == "tool"),
        pictures=json.dumps(messages).count('"type": "image_url"'),
        turns=sum(message["role"] == "assistant" for message in messages),
        tools=tuple(tool["function"]["name"] for tool in body.get("tools", [])),
        body=body,
    )


def joined(parts: list[Body]) -> str:
    return "\n".join(part["text"] for part in parts if "text" in part)


def to_anthropic(reply: Reply) -> list[Body]:
    """Return a reply as blocks: each native action is a tool call of its own."""
    said = [anthropic.thinking(reply.thought)] if reply.thought else []
    said += [anthropic.text(reply.text)] if reply.text else []
    for call in reply.calls:
        if call.tool != "computer":
            said.append(anthropic.tool(call.tool, **given(call)))
        for action in given(call)["actions"] if call.tool == "computer" else []:
            said.append(anthropic.computer(action["action"], **{k: v for k, v in action.items() if k != "action"}))
    return said


def to_openai(reply: Reply) -> list[Body]:
    said = [openai.thinking(reply.thought)] if reply.thought else []
    said += [openai.text(reply.text)] if reply.text or not reply.calls else []
    for call in reply.calls:
        native = call.tool == "computer"
        said.append(openai.computer(*given(call)["actions"]) if native else openai.tool(call.tool, **given(call)))
    return said


def to_chat(reply: Reply) -> list[Body]:
    said = [chat.thinking(reply.thought)] if reply.thought else []
    said += [chat.text(reply.text)] if reply.text else []
    return [*said, *(chat.tool(call.tool, **given(call)) for call in reply.calls)]


def given(call: Call) -> Any:
    return call.arguments


KINDS: dict[str, tuple[Callable[..., Any], Callable[[Body], Asked], Callable[[Reply], list[Body]]]] = {
    "anthropic": (anthropic.anthropic_server, from_anthropic, to_anthropic),
    "openai": (openai.openai_server, from_openai, to_openai),
    "chat": (chat.chat_server, from_chat, to_chat),
}
