"""Chat completions as Ollama, vLLM and llama.cpp implement them: request to body, stream to reply. Pure."""

from __future__ import annotations

import json
from typing import Any

from hotdesk.brain.models.capabilities import Capabilities, find_capabilities
from hotdesk.brain.models.clean import is_storable, parse_arguments, read_count
from hotdesk.brain.models.client import Events, ReplyCutError
from hotdesk.brain.models.seam import ModelRequest, Reply, Stop, TokenUsage
from hotdesk.brain.models.turns import (
    COMPUTER,
    NOTHING,
    HistoryTurn,
    Spoken,
    assign_call_ids,
    describe_native_uses,
    encode_data_url,
    get_arguments,
    is_own,
    join_turns,
    list_texts,
)
from hotdesk.tool import Call, Observation, Tool

DIALECT = "chat"
_THOUGHTS = ("reasoning_content", "reasoning")
"""Servers' names for thinking; it is sent back under the name it had."""
STOPS: dict[str, Stop] = {"length": "length", "content_filter": "refused"}
_MOST_CALLS = 100


def write_body(
    request: ModelRequest, model: str, name: str, capabilities: Capabilities | None = None
) -> dict[str, Any]:
    capabilities = capabilities or find_capabilities(DIALECT, model)
    first = [{"role": "system", "content": request.system}] if request.system else []
    fields: dict[str, Any] = {
        "model": model,
        "messages": [*first, *write_messages(join_turns(request.history), name)],
        "max_completion_tokens" if capabilities.completion_limit else "max_tokens": request.tokens,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        fields["tools"] = [declare_tool(each) for each in request.tools]
    return {**fields, **request.extra.get(DIALECT, {})}


def compute_prefix(request: ModelRequest) -> str:
    """Return an empty prefix: thinking is not bound to one."""
    return ""


def declare_tool(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.what, "parameters": tool.build_schema()}
    return {"type": "function", "function": function}


def write_messages(spoken: list[Spoken], name: str) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    for each in spoken:
        if not isinstance(each, HistoryTurn):
            written.append({"role": "user", "content": each.text})
            continue
        own = is_own(each, DIALECT, name, screen=False)
        names = {call.id: call.id for call, _ in each.pairs} if own else assign_call_ids(each)
        written += each.reply.native if own else [format_foreign(each, names)]
        written += write_results(each, names)
    return written


def format_foreign(turn: HistoryTurn, names: dict[str, str]) -> dict[str, Any]:
    plain = [call for call in turn.reply.calls if call.tool != COMPUTER]
    text = "\n".join(each for each in (turn.reply.text, *describe_native_uses(turn)) if each.strip())
    uses = [use(names[call.id], call.tool, json.dumps(get_arguments(call), ensure_ascii=False)) for call in plain]
    message: dict[str, Any] = {"role": "assistant", "content": text or ("" if uses else NOTHING)}
    return message | ({"tool_calls": uses} if uses else {})


def use(name: str, tool: str, encoded: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": tool, "arguments": encoded}}


def write_results(turn: HistoryTurn, names: dict[str, str]) -> list[dict[str, Any]]:
    """Write the results of a turn's calls; the API allows no picture in a result, so pictures follow."""
    written: list[dict[str, Any]] = [
        {
            "role": "tool",
            "tool_call_id": names[call.id],
            "content": "\n".join(list_texts(observation, flagged=False)) or NOTHING,
        }
        for call, observation in turn.pairs
        if call.tool != COMPUTER
    ]
    pictures = [
        part for call, observation in turn.pairs if observation.image for part in write_picture(call, observation)
    ]
    return [*written, *([{"role": "user", "content": pictures}] if pictures else [])]


def write_picture(call: Call, observation: Observation) -> list[dict[str, Any]]:
    return [
        {"type": "text", "text": f"The picture that {call.tool} returned:"},
        {"type": "image_url", "image_url": {"url": encode_data_url(observation)}},
    ]


async def gather(events: Events) -> dict[str, Any]:
    """Assemble a message from a stream; raise `ReplyCutError` if its end is missing."""
    message: dict[str, Any] = {"content": "", "calls": [], "stop": None, "usage": {}}
    async for event in events:
        message["usage"] = event.get("usage") or message["usage"]
        for choice in event.get("choices") or []:
            extend(message, choice.get("delta") or {})
            message["stop"] = choice.get("finish_reason") or message["stop"]
    if message["stop"] is None:
        raise ReplyCutError("the reply was cut off")
    return message


def extend(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for key in ("content", "refusal", *_THOUGHTS):
        if isinstance(delta.get(key), str):
            message[key] = message.get(key, "") + delta[key]
    for piece in delta.get("tool_calls") or []:
        extend_call(message["calls"], piece)


def extend_call(calls: list[dict[str, str]], piece: dict[str, Any]) -> None:
    """Add a piece to its call: by its index if it has one, else to the last call unless the piece has an id."""
    function = piece.get("function") or {}
    index = piece.get("index")
    if index is None:
        index = len(calls) if piece.get("id") or not calls else len(calls) - 1
    if not 0 <= index < _MOST_CALLS:
        return
    while len(calls) <= index:
        calls.append({"id": "", "name": "", "arguments": ""})
    calls[index]["id"] = piece.get("id") or calls[index]["id"]
    calls[index]["name"] += function.get("name") or ""
    calls[index]["arguments"] += function.get("arguments") or ""


def read_reply(message: dict[str, Any], name: str) -> Reply:
    cut = message["stop"] == "length"
    named = [each for each in _assign_ids(message["calls"]) if each["name"]]
    whole = [each for each in named if not (cut and is_cut(each, is_last=each is named[-1]))]
    calls = tuple(Call(each["id"], each["name"], parse_arguments(each["arguments"])) for each in whole)
    stop = "refused" if message.get("refusal") else STOPS.get(message["stop"], "calls" if calls else "end")
    return Reply(
        text=message["content"] or message.get("refusal", ""),
        thought=next((message[key] for key in _THOUGHTS if message.get(key)), ""),
        calls=calls,
        stop=stop,
        usage=read_usage(message["usage"]),
        model=name,
        dialect=DIALECT,
        native=(_write_native_message(message, whole),),
    )


def _write_native_message(gathered: dict[str, Any], uses: list[dict[str, str]]) -> dict[str, Any]:
    """Return the message to send back: arguments that are not an object would be refused, so they are put into one."""
    message: dict[str, Any] = {"role": "assistant", "content": gathered["content"] or ("" if uses else NOTHING)}
    message |= {key: gathered[key] for key in _THOUGHTS if gathered.get(key)}
    if uses:
        message["tool_calls"] = [use(each["id"], each["name"], _repair_arguments(each["arguments"])) for each in uses]
    return message


def _repair_arguments(text: str) -> str:
    if not text.strip():
        return "{}"
    arguments = parse_arguments(text)
    if isinstance(arguments, dict):
        return text if is_storable(text) else json.dumps(arguments, ensure_ascii=False)
    return json.dumps({"arguments": text}, ensure_ascii=False)


def is_cut(each: dict[str, str], *, is_last: bool) -> bool:
    """Return whether the length limit cut off a call: also the last one if it has no argument yet."""
    text = each["arguments"]
    return not isinstance(parse_arguments(text), dict) or (is_last and not text.strip())


def _assign_ids(calls: list[dict[str, str]]) -> list[dict[str, str]]:
    """Give every call a unique id if the server gave it none, or gave one twice."""
    ids: set[str] = set()
    for number, each in enumerate(calls):
        if not each["id"] or each["id"] in ids:
            each["id"] = f"call_{number}_{len(ids)}"
        ids.add(each["id"])
    return calls


def read_usage(counts: dict[str, Any]) -> TokenUsage:
    """Read the usage; their input count includes cached tokens, ours does not."""
    cached = read_count((counts.get("prompt_tokens_details") or {}).get("cached_tokens"))
    read = max(0, read_count(counts.get("prompt_tokens")) - cached)
    return TokenUsage(input=read, output=read_count(counts.get("completion_tokens")), cached=cached)
