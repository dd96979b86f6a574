"""Anthropic's Messages: writes a request as its body, reads a stream of events as a reply. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
from itertools import takewhile
from typing import Any

from hotdesk.brain.models.capabilities import TOOLSET, Capabilities, find_capabilities
from hotdesk.brain.models.clean import parse_arguments, read_count
from hotdesk.brain.models.client import Events, ReplyCutError
from hotdesk.brain.models.seam import ModelRequest, OurMessage, Reply, Stop, TokenUsage
from hotdesk.brain.models.turns import (
    COMPUTER,
    NOTHING,
    HistoryTurn,
    Spoken,
    assign_call_ids,
    describe_native_uses,
    get_arguments,
    is_own,
    join_turns,
    list_texts,
)
from hotdesk.tool import Call, Observation, Tool

DIALECT = "anthropic"
GONE = "gone"
"""The prefix of a reply whose thinking the provider refused to accept."""
_CACHED = {"type": "ephemeral"}
LAST = 2
"""User messages at the end that are marked for caching: the newest, and the one that ended the last request."""
STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "end",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "window",
    "refusal": "refused",
}
_LEAST_BUDGET = 1024
_THOUGHTS = ("thinking", "redacted_thinking")


def write_body(
    request: ModelRequest, model: str, name: str, capabilities: Capabilities | None = None
) -> dict[str, Any]:
    capabilities = capabilities or find_capabilities(DIALECT, model)
    spoken = join_turns(request.history)
    fields: dict[str, Any] = {
        "model": model,
        "max_tokens": request.tokens,
        "messages": write_messages(
            spoken, name, request.screen is not None, compute_prefix(request) if _is_bound(capabilities) else ""
        ),
        **_choose_thinking(request, capabilities, spoken, name),
    }
    if effort := capabilities.effort if request.think else "low":
        fields |= {"output_config": {"effort": effort}} if effort in capabilities.efforts else {}
    if request.system:
        fields["system"] = [{"type": "text", "text": request.system, "cache_control": _CACHED}]
    if tools := declare_tools(request, capabilities):
        fields["tools"] = tools
    return {**fields, **request.extra.get(DIALECT, {})}


def _is_bound(capabilities: Capabilities) -> bool:
    """Return whether a model's thinking is valid only after the prefix it was produced with."""
    return capabilities.preserved == "bound"


def compute_prefix(request: ModelRequest) -> str:
    """Return a digest of everything before the first reply: instructions, tools, and our first messages.

    Later items are only added, so thinking that was produced after the same beginning is still valid.
    """
    first = [item.text for item in takewhile(lambda item: isinstance(item, OurMessage), request.history)]  # type: ignore[union-attr]
    tools = [declare_tool(each) for each in request.tools]
    parts = [request.system, tools, request.screen is not None, first]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def declare_tools(request: ModelRequest, capabilities: Capabilities) -> list[dict[str, Any]]:
    """Declare the tools, and the native one if there is a screen; everything up to the mark is cached."""
    tools = [declare_tool(each) for each in request.tools]
    if request.screen is not None:
        tools.append({"type": capabilities.computer or TOOLSET})
    if tools:
        tools[-1]["cache_control"] = _CACHED
    return tools


def declare_tool(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.what, "input_schema": tool.build_schema()}


def _choose_thinking(
    request: ModelRequest, capabilities: Capabilities, spoken: list[Spoken], name: str
) -> dict[str, Any]:
    """Return the amount of thinking: the model's choice, or half of the reply where it must be set."""
    if not request.think or capabilities.thinking == "none":
        return {}
    if capabilities.thinking != "budget":
        display = {"display": "summarized"} if capabilities.summary else {}
        return {"thinking": {"type": "adaptive", **display}}
    last = spoken[-1]
    begun = isinstance(last, HistoryTurn) and not is_own(
        last, DIALECT, name, request.screen is not None
    )  # it would have to begin with a thinking block
    budget = max(_LEAST_BUDGET, request.tokens // 2)
    return {} if begun or budget >= request.tokens else {"thinking": {"type": "enabled", "budget_tokens": budget}}


def write_messages(spoken: list[Spoken], name: str, screen: bool, bound: str = "") -> list[dict[str, Any]]:
    """Write the turns; consecutive messages of one role become one, results first.

    `bound` is the prefix that thinking must be bound to in order to go back; if empty, all thinking goes back.
    """
    written: list[dict[str, Any]] = []
    for each in spoken:
        if not isinstance(each, HistoryTurn):
            add(written, "user", [write_text(each.text)])
        elif is_own(each, DIALECT, name, screen):
            add(written, "assistant", _own_blocks(each.reply, bound))
            add(written, "user", [block for pair in each.pairs for block in _write_result(*pair, pair[0].id)])
        else:
            add(written, "assistant", format_foreign(each))
            add(written, "user", _format_foreign_results(each))
    ours = [message for message in written if message["role"] == "user"]
    for message in ours[-LAST:]:
        message["content"][-1] = message["content"][-1] | {"cache_control": _CACHED}
    return written


def _own_blocks(reply: Reply, bound: str) -> list[dict[str, Any]]:
    """Return a reply's own blocks verbatim; all of its thinking is left out if it is not valid any more."""
    if reply.prefix != GONE and (not bound or reply.prefix in ("", bound)):
        return list(reply.native)
    return [block for block in reply.native if block["type"] not in _THOUGHTS] or [write_text(NOTHING)]


def add(written: list[dict[str, Any]], role: str, content: list[dict[str, Any]]) -> None:
    if not content:
        return
    if written and written[-1]["role"] == role:
        written[-1]["content"] += content
    else:
        written.append({"role": role, "content": content})


def format_foreign(turn: HistoryTurn) -> list[dict[str, Any]]:
    """Write another model's message: its text, and its calls of our tools."""
    names = assign_call_ids(turn)
    texts = [write_text(each) for each in (turn.reply.text, *describe_native_uses(turn)) if each]
    uses = [
        {"type": "tool_use", "id": names[call.id], "name": call.tool, "input": get_arguments(call)}
        for call in turn.reply.calls
        if call.tool != COMPUTER
    ]
    return [*texts, *uses] or [write_text(NOTHING)]


def _format_foreign_results(turn: HistoryTurn) -> list[dict[str, Any]]:
    """Write the results of another model's calls; of native calls only the picture."""
    names = assign_call_ids(turn)
    written = [
        block
        for call, observation in turn.pairs
        if call.tool != COMPUTER
        for block in _write_result(call, observation, names[call.id])
    ]
    pictures = [
        write_picture(observation) for call, observation in turn.pairs if call.tool == COMPUTER and observation.image
    ]
    return [*written, *pictures]


def _write_result(call: Call, observation: Observation, name: str) -> list[dict[str, Any]]:
    content = [write_text(each) for each in list_texts(observation)]
    if observation.image:
        content.append(write_picture(observation))
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": name, "content": content}
    if not observation.ok:
        block["is_error"] = True
    if call.tool == COMPUTER:
        block["toolset_name"] = COMPUTER
    return [block]


def write_text(content: str) -> dict[str, Any]:
    """Write a text; an empty text would be refused."""
    return {"type": "text", "text": content if content.strip() else NOTHING}


def write_picture(observation: Observation) -> dict[str, Any]:
    data = base64.b64encode(observation.image).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": observation.media, "data": data}}


async def gather(events: Events) -> dict[str, Any]:
    """Assemble a message from a stream; raise `ReplyCutError` if its end is missing."""
    message: dict[str, Any] = {}
    inputs: dict[int, str] = {}
    ended: list[int] = []
    async for event in events:
        match event["type"]:
            case "message_start":
                message = {**event["message"], "content": []}
            case "content_block_start":
                message["content"].append(dict(event["content_block"]))
            case "content_block_delta":
                extend(message["content"], event["index"], event["delta"], inputs)
            case "content_block_stop":
                ended.append(event["index"])
            case "message_delta":
                message |= {key: value for key, value in event["delta"].items() if value is not None}
                message["usage"] |= {key: value for key, value in event["usage"].items() if value is not None}
            case "message_stop":
                return {**message, "inputs": inputs, "ended": ended}
    raise ReplyCutError("the reply was cut off")


def extend(content: list[dict[str, Any]], index: int, delta: dict[str, Any], inputs: dict[int, str]) -> None:
    block = content[index]
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "input_json_delta":
            inputs[index] = inputs.get(index, "") + delta["partial_json"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]


def read_reply(message: dict[str, Any], name: str) -> Reply:
    native, calls = _read_blocks(message)
    stop = STOPS.get(str(message.get("stop_reason")), "end")
    return Reply(
        text="".join(block["text"] for block in native if block["type"] == "text"),
        thought="\n".join(block["thinking"] for block in native if block["type"] == "thinking" and block["thinking"]),
        calls=tuple(calls),
        stop="calls" if calls and stop == "end" else stop,
        usage=read_usage(message["usage"]),
        model=name,
        dialect=DIALECT,
        native=tuple(native),
    )


def _read_blocks(message: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Call]]:
    """Return the blocks that can go back, and the calls among them, without a call that the length limit cut off."""
    native: list[dict[str, Any]] = []
    calls: list[Call] = []
    cut = STOPS.get(str(message.get("stop_reason"))) in ("length", "window")
    last = len(message["content"]) - 1
    for index, block in enumerate(message["content"]):
        tool_input = parse_arguments(message["inputs"][index]) if index in message["inputs"] else block.get("input", {})
        is_whole = isinstance(tool_input, dict) and (index != last or _has_ended(message, index))
        if cut and block["type"] == "tool_use" and not is_whole:
            continue
        if (block["type"] == "thinking" and not block.get("signature")) or (
            block["type"] == "text" and not block["text"]
        ):
            continue
        if block["type"] == "tool_use":
            block["input"] = tool_input if isinstance(tool_input, dict) else {}
            calls.append(call(block, tool_input))
        native.append(block)
    return native, calls


def _has_ended(message: dict[str, Any], index: int) -> bool:
    """Return whether a block has arrived with its end and with arguments, so that the limit did not cut it off."""
    return index in message.get("ended", ()) and bool(message["inputs"].get(index, "").strip())


def call(block: dict[str, Any], tool_input: object) -> Call:
    """Read a tool call; one of a native toolset's members becomes an action."""
    if block.get("toolset_name") != COMPUTER:
        return Call(block["id"], block["name"], tool_input)
    action = {**block["input"], "action": block["name"]}
    return Call(block["id"], COMPUTER, {"vendor": DIALECT, "actions": [action]})


def read_usage(counts: dict[str, Any]) -> TokenUsage:
    return TokenUsage(
        input=read_count(counts.get("input_tokens")),
        output=read_count(counts.get("output_tokens")),
        cached=read_count(counts.get("cache_read_input_tokens")),
        stored=read_count(counts.get("cache_creation_input_tokens")),
    )
