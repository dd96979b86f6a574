"""The content of a request as a model sees it, in the same form for every protocol: instructions, tools, messages."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]
OWN = "assistant"
"""The role of the model itself."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture, still encoded: this module decodes no pixels."""

    data: bytes
    suffix: str
    """`png`, `jpeg`, `webp` or `gif`."""


Part: TypeAlias = str | Picture


@dataclass(frozen=True, slots=True)
class ViewMessage:
    """A message of a conversation."""

    role: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request, independent of its protocol. Cache marks are left out, so that equal messages compare equal."""

    model: str
    max_tokens: int | None
    system: str
    tools: tuple[str, ...]
    """Each tool's declaration as JSON."""
    messages: tuple[ViewMessage, ...]


def view_request(protocol: str, body: Body) -> RequestView:
    """Read a request of `anthropic`, `openai` (Responses) or `chat` (Chat Completions)."""
    return READERS[protocol](body)


def count_common(view: RequestView, earlier: RequestView) -> int:
    """Count the messages with which both conversations begin; 0 if their instructions differ."""
    if view.system != earlier.system:
        return 0
    pairs = zip(view.messages, earlier.messages, strict=False)
    shorter = min(len(view.messages), len(earlier.messages))
    return next((n for n, (new, old) in enumerate(pairs) if new != old), shorter)


# -- Anthropic Messages -----------------------------------------------------------------------------------------------


def read_anthropic(body: Body) -> RequestView:
    system = body.get("system", "")
    return RequestView(
        body["model"],
        body.get("max_tokens"),
        system if isinstance(system, str) else "\n".join(block["text"] for block in system),
        tuple(
            write_json({key: value for key, value in tool.items() if key != "cache_control"})
            for tool in body.get("tools", ())
        ),
        tuple(ViewMessage(each["role"], read_blocks(each["content"])) for each in body["messages"]),
    )


def read_blocks(content: str | list[Body]) -> tuple[Part, ...]:
    """Read the blocks of a message or of a tool's result."""
    if isinstance(content, str):
        return (content,)
    return tuple(part for block in content for part in read_block(block))


def read_block(block: Body) -> tuple[Part, ...]:
    match block["type"]:
        case "text":
            return (block["text"],)
        case "image":
            source = block["source"]
            return (Picture(base64.b64decode(source["data"]), source["media_type"].rpartition("/")[2]),)
        case "tool_use":
            return (write_call(block["name"], block["id"], block["input"], block.get("toolset_name", "")),)
        case "tool_result":
            failed = ", which failed" if block.get("is_error") else ""
            return (f"[result of {block['tool_use_id']}{failed}]", *read_blocks(block.get("content", "")))
        case "thinking":
            return (f"[your thinking: {block['thinking']}]",)
    return (f"[{block['type']}]",)


# -- OpenAI Responses -------------------------------------------------------------------------------------------------


def read_responses(body: Body) -> RequestView:
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    return RequestView(
        body["model"],
        body.get("max_output_tokens"),
        body.get("instructions") or "",
        tuple(map(write_json, body.get("tools", ()))),
        tuple(map(read_item, items)),
    )


def read_item(item: Body) -> ViewMessage:
    match item.get("type", "message"):
        case "message":
            return ViewMessage(item["role"], read_parts(item["content"]))
        case "function_call":
            return ViewMessage(OWN, (write_call(item["name"], item["call_id"], item["arguments"]),))
        case "computer_call":
            given = {key: item[key] for key in ("actions", "pending_safety_checks") if item.get(key)}
            return ViewMessage(OWN, (write_call("computer", item["call_id"], given),))
        case "function_call_output" | "computer_call_output":
            return ViewMessage("tool", (f"[result of {item['call_id']}]", *read_output(item["output"])))
        case "reasoning":
            thoughts = " ".join(part["text"] for part in item.get("summary", ()))
            return ViewMessage(OWN, (f"[your thinking: {thoughts}]",))
        case other:
            return ViewMessage(OWN, (f"[{other}]",))


def read_output(output: str | Body | list[Body]) -> tuple[Part, ...]:
    """Read a tool's output: text, parts, or a screenshot."""
    return read_parts([output] if isinstance(output, dict) else output)


def read_parts(content: str | list[Body]) -> tuple[Part, ...]:
    """Read the parts of a message, in either of OpenAI's forms."""
    return (content,) if isinstance(content, str) else tuple(map(read_part, content))


def read_part(part: Body) -> Part:
    """Read one part: text, or a picture in a data URL."""
    if "image_url" in part:
        url = part["image_url"]
        return read_data_url(url if isinstance(url, str) else url["url"])
    return str(part.get("text") or part.get("refusal") or f"[{part['type']}]")


def read_data_url(url: str) -> Part:
    """Read a picture in a data URL; any other URL is shown as text, not followed."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:image/"):
        return f"[picture at {url[:200]}]"
    return Picture(base64.b64decode(data), head.removeprefix("data:image/").partition(";")[0])


# -- OpenAI Chat Completions ------------------------------------------------------------------------------------------


def read_chat(body: Body) -> RequestView:
    is_system = [each["role"] in ("system", "developer") for each in body["messages"]]
    pairs = list(zip(body["messages"], is_system, strict=True))
    return RequestView(
        body["model"],
        body.get("max_tokens") or body.get("max_completion_tokens"),
        "\n".join(str(part) for each, system in pairs if system for part in read_parts(each["content"])),
        tuple(write_json(tool.get("function", tool)) for tool in body.get("tools", ())),
        tuple(read_chat_message(each) for each, system in pairs if not system),
    )


def read_chat_message(message: Body) -> ViewMessage:
    thought = message.get("reasoning_content") or message.get("reasoning")
    calls = [
        (each["function"]["name"], each["id"], each["function"]["arguments"]) for each in message.get("tool_calls", ())
    ]
    parts: tuple[Part, ...] = (
        *([f"[result of {message['tool_call_id']}]"] if message["role"] == "tool" else ()),
        *([f"[your thinking: {thought}]"] if thought else ()),
        *(read_parts(message["content"]) if message.get("content") else ()),
        *(write_call(*call) for call in calls),
    )
    return ViewMessage(message["role"], parts)


# -- text --------------------------------------------------------------------------------------------------------------


def write_call(name: str, identifier: str, given: object, toolset: str = "") -> str:
    """Format a tool call."""
    member = f" of the toolset {toolset}" if toolset else ""
    return f"[you called {name}{member}, {identifier}: {given if isinstance(given, str) else write_json(given)}]"


def write_json(value: object) -> str:
    """Format JSON on one line, without escapes for characters beyond ASCII."""
    return json.dumps(value, ensure_ascii=False)


READERS: dict[str, Callable[[Body], RequestView]] = {
    "anthropic": read_anthropic,
    "openai": read_responses,
    "chat": read_chat,
}
