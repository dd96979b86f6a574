"""OpenAI's Responses: writes a request as its body, reads a stream of events as a reply. Pure."""

from __future__ import annotations

import json
from typing import Any

from hotdesk.brain.models.capabilities import Capabilities, find_capabilities
from hotdesk.brain.models.clean import parse_arguments, read_count
from hotdesk.brain.models.client import PASSING, Events, ProviderError, ReplyCutError, build_interruption
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

DIALECT = "openai"
SEALED = "reasoning.encrypted_content"
BLANK = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
"""One black pixel, for a result that must have a picture before there was any."""


def write_body(
    request: ModelRequest, model: str, name: str, capabilities: Capabilities | None = None
) -> dict[str, Any]:
    """Return the body of a request. The provider stores nothing: encrypted reasoning is sent back with each request."""
    capabilities = capabilities or find_capabilities(DIALECT, model)
    fields: dict[str, Any] = {
        "model": model,
        "instructions": request.system,
        "input": _write_items(join_turns(request.history), name, request.screen is not None),
        "max_output_tokens": request.tokens,
        "store": False,
    }
    if request.cache and capabilities.cache_key:
        fields["prompt_cache_key"] = request.cache[:64]
    if capabilities.thinking != "none":
        fields["include"] = [SEALED]
        fields |= {"reasoning": config} if (config := _choose_reasoning(request, capabilities)) else {}
    if tools := declare_tools(request):
        fields["tools"] = tools
        fields["parallel_tool_calls"] = True
    return {**fields, **request.extra.get(DIALECT, {})}


def _choose_reasoning(request: ModelRequest, capabilities: Capabilities) -> dict[str, Any]:
    """Return the reasoning settings. Summaries need a verified organisation; the default effort is the model's."""
    effort = capabilities.effort if request.think else "low"
    config = {"effort": effort} if effort in capabilities.efforts else {}
    return config | ({"summary": "auto"} if request.think and capabilities.summary else {})


def compute_prefix(request: ModelRequest) -> str:
    """Return an empty prefix: encrypted reasoning is not bound to one."""
    return ""


def declare_tools(request: ModelRequest) -> list[dict[str, Any]]:
    native = [{"type": COMPUTER}] if request.screen is not None else []
    return [*(declare_tool(each) for each in request.tools), *native]


def declare_tool(tool: Tool) -> dict[str, Any]:
    """Declare a tool; strict mode is off, because it would make every parameter required."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.what,
        "parameters": tool.build_schema(),
        "strict": False,
    }


def _write_items(spoken: list[Spoken], name: str, screen: bool) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    shown = BLANK
    for each in spoken:
        if not isinstance(each, HistoryTurn):
            written.append(_write_our_message(write_text(each.text)))
        elif is_own(each, DIALECT, name, screen) and not _is_unacknowledged(each):
            written += each.reply.native
            written += write_results(each, {call.id: call.id for call, _ in each.pairs}, shown)
        else:
            written += format_foreign(each)
        pictures = (
            [observation for call, observation in each.pairs if observation.image and call.tool == COMPUTER]
            if isinstance(each, HistoryTurn)
            else []
        )
        shown = encode_data_url(pictures[-1]) if pictures else shown
    return written


def _is_unacknowledged(turn: HistoryTurn) -> bool:
    """Return whether an action with a safety check was not taken, so that the check must not be acknowledged."""
    return any(_list_safety_checks(call) and not observation.ok for call, observation in turn.pairs)


def _list_safety_checks(call: Call) -> list[dict[str, Any]]:
    payload = call.arguments
    return list(payload.get("checks", [])) if call.tool == COMPUTER and isinstance(payload, dict) else []


def write_results(turn: HistoryTurn, names: dict[str, str], shown: str) -> list[dict[str, Any]]:
    """Write the results of a turn's calls; texts of the native tool follow as a message."""
    written: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for call, observation in turn.pairs:
        if call.tool == COMPUTER:
            written.append(_write_screenshot(call, observation, shown))
            notes += [
                write_text(f"The computer's result: {each}")
                for each in list_texts(observation, flagged=False)
                if each != NOTHING
            ]
        else:
            written.append(_write_output(observation, names[call.id]))
    return [*written, *([_write_our_message(*notes)] if notes else [])]


def _write_screenshot(call: Call, observation: Observation, shown: str) -> dict[str, Any]:
    """Write the result of a native call: it needs a picture, so the last one is repeated if there is no new one."""
    picture = {"type": "computer_screenshot", "image_url": encode_data_url(observation) if observation.image else shown}
    item = {"type": "computer_call_output", "call_id": call.id, "output": picture}
    return item | ({"acknowledged_safety_checks": raised} if (raised := _list_safety_checks(call)) else {})


def _write_output(observation: Observation, name: str) -> dict[str, Any]:
    texts = list_texts(observation, flagged=False)
    content: Any = "\n".join(texts)
    if observation.image:
        content = [*(write_text(each) for each in texts), write_picture(observation)]
    return {"type": "function_call_output", "call_id": name, "output": content}


def format_foreign(turn: HistoryTurn) -> list[dict[str, Any]]:
    names = assign_call_ids(turn)
    plain = [(call, observation) for call, observation in turn.pairs if call.tool != COMPUTER]
    texts = [each for each in (turn.reply.text, *describe_native_uses(turn)) if each.strip()]
    written: list[dict[str, Any]] = []
    if texts or not plain:
        written.append({"role": "assistant", "content": "\n".join(texts) or NOTHING})
    for call, _ in plain:
        encoded = json.dumps(get_arguments(call), ensure_ascii=False)
        written.append({"type": "function_call", "call_id": names[call.id], "name": call.tool, "arguments": encoded})
    written += [_write_output(observation, names[call.id]) for call, observation in plain]
    pictures = [
        write_picture(observation) for call, observation in turn.pairs if call.tool == COMPUTER and observation.image
    ]
    return [*written, *([_write_our_message(*pictures)] if pictures else [])]


def _write_our_message(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def write_text(content: str) -> dict[str, Any]:
    return {"type": "input_text", "text": content}


def write_picture(observation: Observation) -> dict[str, Any]:
    return {"type": "input_image", "image_url": encode_data_url(observation), "detail": "auto"}


async def gather(events: Events) -> dict[str, Any]:
    """Assemble a response from its finished items, including encrypted reasoning."""
    done: dict[int, dict[str, Any]] = {}
    async for event in events:
        match event["type"]:
            case "response.output_item.done":
                done[event["output_index"]] = event["item"]
            case "error":
                raise build_error(event)
            case "response.failed":
                raise build_error(event["response"].get("error") or {})
            case "response.completed" | "response.incomplete":
                return {**event["response"], "output": [done[index] for index in sorted(done)]}
    raise ReplyCutError("the reply was cut off")


def build_error(error: dict[str, Any]) -> Exception:
    """Return the error for a missing reply: `ReplyCutError` if it may be temporary."""
    why = f"{error.get('code')}: {error.get('message')}"
    return build_interruption(str(error.get("code")), why) if error.get("code") in PASSING else ProviderError(why)


def read_reply(response: dict[str, Any], name: str) -> Reply:
    native = _drop_incomplete(response["output"])
    calls = tuple(call(item) for item in native if item["type"] in ("function_call", "computer_call"))
    parts = [part for item in native if item["type"] == "message" for part in item["content"]]
    refusals = [part["refusal"] for part in parts if part["type"] == "refusal"]
    return Reply(
        text="".join(part["text"] for part in parts if part["type"] == "output_text") or "".join(refusals),
        thought="\n".join(part["text"] for item in native if item["type"] == "reasoning" for part in item["summary"]),
        calls=calls,
        stop=_stop_from_response(response, bool(calls), bool(refusals)),
        usage=read_usage(response.get("usage") or {}),
        model=name,
        dialect=DIALECT,
        native=tuple(native),
    )


def _drop_incomplete(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out items that the length limit cut off, and reasoning at the end, which could not be sent back."""
    complete = [item for item in output if item.get("status") != "incomplete" or item["type"] == "message"]
    while complete and complete[-1]["type"] == "reasoning":
        complete.pop()
    return complete


def _stop_from_response(response: dict[str, Any], calls: bool, refused: bool) -> Stop:
    reason = (response.get("incomplete_details") or {}).get("reason")
    if refused or reason == "content_filter":
        return "refused"
    if response.get("status") == "incomplete":
        return "length"
    return "calls" if calls else "end"


def call(item: dict[str, Any]) -> Call:
    """Read a call; a native one has its actions, and the safety checks it raised."""
    if item["type"] == "function_call":
        return Call(item["call_id"], item["name"], parse_arguments(item["arguments"]))
    actions = item.get("actions") or ([item["action"]] if item.get("action") else [])
    raised = item.get("pending_safety_checks") or []
    payload = {"vendor": DIALECT, "actions": actions} | ({"checks": raised} if raised else {})
    return Call(item["call_id"], COMPUTER, payload)


def read_usage(counts: dict[str, Any]) -> TokenUsage:
    """Read the usage; their input count includes cached and stored tokens, ours does not."""
    details = counts.get("input_tokens_details") or {}
    cached, stored = read_count(details.get("cached_tokens")), read_count(details.get("cache_write_tokens"))
    read = max(0, read_count(counts.get("input_tokens")) - cached - stored)
    return TokenUsage(input=read, output=read_count(counts.get("output_tokens")), cached=cached, stored=stored)
