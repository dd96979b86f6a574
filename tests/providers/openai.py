"""A server that speaks OpenAI's Responses, streamed, and enforces its rules for requests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.providers.caching import AutomaticCache
from tests.providers.rules import OPENAI, ModelRules, rules_of
from tests.providers.server import Body, Provider, Refused, Script, only, picture, serving

FIELDS = "instructions store stream max_output_tokens prompt_cache_key include reasoning tools parallel_tool_calls"
SAID = ("reasoning", "message", "function_call", "computer_call")


def text(said: str) -> Body:
    return {"type": "message", "text": said}


def refusal(said: str) -> Body:
    return {"type": "message", "refusal": said}


def thinking(thought: str) -> Body:
    """Return a reasoning item, of which only a summary is visible."""
    return {"type": "reasoning", "summary": thought}


def tool(name: str, **given: object) -> Body:
    return {"type": "function_call", "name": name, "arguments": json.dumps(given)}


def computer(*actions: Body, checks: tuple[str, ...] = ()) -> Body:
    """Return a call of the native computer tool, with actions by type and safety checks by code."""
    return {"type": "computer_call", "actions": list(actions), "checks": checks}


@contextmanager
def openai_server(script: Script) -> Iterator[OpenAI]:
    """Run a server whose model follows a script. Clients use `base_url`; tests read `requests` and set `trouble`."""
    with serving(OpenAI(script, "/v1")) as made:
        yield made


@dataclass
class OpenAI(Provider):
    """A server with OpenAI's protocol."""

    cache: AutomaticCache = field(default_factory=AutomaticCache)
    rules: ModelRules | None = None
    """Rules to use instead of those of the requested model."""

    def answer(self, path: str, headers: dict[str, str], body: Body) -> list[tuple[str, Body | str]]:
        """Check a request and return its events. A scripted item may have the `status` incomplete."""
        if path != "/v1/responses" or not headers.get("authorization", "").startswith("Bearer "):
            raise Refused(f"there is no {path}, or no key")
        self.check(body)
        output = [self.made(dict(each)) for each in self.script(body)]
        self.remember(output)
        return [(event["type"], event | {"sequence_number": n}) for n, event in enumerate(self.events(body, output))]

    def error(self, status: int, why: str, param: str = "") -> Body:
        return {"error": {"message": why, "type": "invalid_request_error" if status < 500 else "server_error",
                          "param": param or None, "code": "unsupported_value" if param else None}}  # fmt: skip

    def made(self, each: Body) -> Body:
        number = self.number()
        common = {"type": each["type"], "status": each.get("status", "completed")}
        match each["type"]:
            case "reasoning":
                summary = [{"type": "summary_text", "text": each["summary"]}]
                sealed = self.seal(each["summary"], str(number))
                return {"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": sealed}
            case "message" if "refusal" in each:
                content = [{"type": "refusal", "refusal": each["refusal"]}]
                return {**common, "id": f"msg_{number}", "role": "assistant", "content": content}
            case "message":
                content = [{"type": "output_text", "text": each["text"], "annotations": []}]
                return {**common, "id": f"msg_{number}", "role": "assistant", "content": content, "phase": "commentary"}
            case "function_call":
                given = {"name": each["name"], "arguments": each["arguments"]}
                return {**common, "id": f"fc_{number}", "call_id": f"call_{number}", **given}
        raised = [{"id": f"cu_{number}_{n}", "code": code, "message": "Look!"} for n, code in enumerate(each["checks"])]
        given = {"actions": each["actions"], "pending_safety_checks": raised}
        return {**common, "id": f"cu_{number}", "call_id": f"call_{number}", **given}

    def remember(self, output: list[Body]) -> None:
        """Record each item, and the reasoning that came right before it."""
        thoughts: list[str] = []
        for item in output:
            self.sealed[item["id"]] = {"item": item, "needs": list(thoughts)}
            thoughts = [*thoughts, item["id"]] if item["type"] == "reasoning" else []

    def events(self, body: Body, output: list[Body]) -> Iterator[Body]:
        cut = any(item.get("status") == "incomplete" for item in output)
        status = "incomplete" if cut else "completed"
        response = {"id": f"resp_{self.number()}", "object": "response", "created_at": 1, "model": body["model"],
                    "output": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
                    "status": "in_progress"}  # fmt: skip
        yield {"type": "response.created", "response": response}
        for index, item in enumerate(output):
            begun = {key: value for key, value in item.items() if key != "encrypted_content"} | {"content": []}
            yield {"type": "response.output_item.added", "output_index": index, "item": begun}
            if item["type"] == "message" and "text" in item["content"][0]:
                yield {"type": "response.output_text.delta", "output_index": index, "item_id": item["id"],
                       "content_index": 0, "delta": item["content"][0]["text"], "logprobs": []}  # fmt: skip
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        counts = self.cache.count(body)
        details = {"cached_tokens": counts.cached, "cache_write_tokens": counts.stored}
        tokens = self.count_output(output)
        usage = {"input_tokens": counts.all, "input_tokens_details": details, "output_tokens": tokens,
                 "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": counts.all + tokens}  # fmt: skip
        why = {"reason": "max_output_tokens"} if cut else None
        last = {**response, "status": status, "output": output, "usage": usage, "incomplete_details": why}
        yield {"type": f"response.{status}", "response": last}

    def check(self, body: Body) -> None:
        """Refuse what OpenAI refuses, and requests that would have it store the conversation."""
        only(body, "body", "model input", FIELDS)
        if body.get("store") is not False:
            raise Refused("store: it would be kept")
        if len(body.get("prompt_cache_key", "")) > 64 or body.get("max_output_tokens", 16) < 16:
            raise Refused("prompt_cache_key or max_output_tokens: out of bounds")
        self.check_model(body, self.rules or rules_of(OPENAI, body["model"]))
        for number, each in enumerate(body.get("tools", [])):
            if each != {"type": "computer"}:
                only(each, f"tools.{number}", "type name parameters strict", "description")
        for number, item in enumerate(body["input"]):
            self.check_item(item, f"input.{number}")
        self.check_calls(body["input"])
        self.check_thoughts(body["input"])

    def check_model(self, body: Body, rules: ModelRules) -> None:
        asked = body.get("reasoning")
        if body.get("max_output_tokens", 16) > rules.output:
            why = f"Invalid 'max_output_tokens': integer above maximum value. Expected a value <= {rules.output}"
            raise Refused(f"{why}, but got {body['max_output_tokens']} instead.", "max_output_tokens")
        if asked is not None and "reasoning" not in rules.thinking:
            raise Refused("Unsupported parameter: 'reasoning' is not supported with this model.", "reasoning")
        if "include" in body and "reasoning" not in rules.thinking:
            raise Refused("Encrypted content is not supported with this model.", "include")
        if asked and "summary" in asked and not rules.summaries:
            raise Refused(
                "Your organization must be verified to generate reasoning summaries. Please go to: "
                "https://platform.openai.com/settings/organization/general and click on Verify Organization.",
                "reasoning.summary",
            )
        if asked and asked.get("effort", "low") not in (*rules.efforts, "none"):
            raise Refused(
                f"Unsupported value: '{asked['effort']}' is not supported with this model", "reasoning.effort"
            )
        if {"type": "computer"} in body.get("tools", []) and not rules.computer:
            raise Refused(f"Hosted tool 'computer' is not supported with {body['model']}.", "tools")
        if '"image_url": "data:' in json.dumps(body["input"]) and not rules.images:
            raise Refused("Invalid content type. image_url is only supported by certain models.", "input")

    def check_item(self, item: Body, where: str) -> None:
        """Check one item: items of the model are unchanged."""
        if item.get("id") in self.sealed:
            if self.sealed[item["id"]]["item"] != item:
                raise Refused(f"{where}: {item['id']} is not what was said")
            return
        match item.get("type", "message"):
            case "message":
                self.check_message(item, where)
            case "function_call":
                only(item, where, "type call_id name arguments")
                if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", item["call_id"]):
                    raise Refused(f"{where}.call_id: bad")
            case "function_call_output":
                only(item, where, "type call_id output")
                for part in item["output"] if isinstance(item["output"], list) else []:
                    self.check_part(part, where)
            case "computer_call_output":
                only(item, where, "type call_id output", "acknowledged_safety_checks")
                only(item["output"], where, "type image_url")
                picture(item["output"]["image_url"], where)
            case other:
                raise Refused(f"{where}: there is no {other} by that id")

    def check_message(self, item: Body, where: str) -> None:
        only(item, where, "role content", "type")
        if item["role"] == "assistant":
            if not isinstance(item["content"], str) or not item["content"]:
                raise Refused(f"{where}: bad content")
            return
        for part in item["content"]:
            self.check_part(part, where)

    def check_part(self, part: Body, where: str) -> None:
        if part["type"] == "input_text":
            only(part, where, "type text")
        else:
            only(part, where, "type image_url", "detail")
            picture(part["image_url"], where)

    def check_calls(self, items: list[Body]) -> None:
        """Refuse calls without output, outputs without a call, and safety checks that were not acknowledged."""
        calls = {item["call_id"]: item for item in items if item.get("type") in ("function_call", "computer_call")}
        outputs = {item["call_id"]: item for item in items if str(item.get("type")).endswith("_output")}
        if calls.keys() ^ outputs.keys():
            raise Refused(f"No tool output found for call, or no call for output: {calls.keys() ^ outputs.keys()}")
        for name, call in calls.items():
            if outputs[name]["type"] != f"{call['type']}_output":
                raise Refused(f"{name}: is answered by {outputs[name]['type']}")
            acknowledged = outputs[name].get("acknowledged_safety_checks", [])
            if acknowledged != call.get("pending_safety_checks", []):
                raise Refused(f"{name}: safety checks must be acknowledged, these and no others")

    def check_thoughts(self, items: list[Body]) -> None:
        """Refuse an item without the reasoning it came with, and reasoning that no item follows."""
        before: list[Any] = []
        for item in items:
            name = item.get("id")
            needs = self.sealed[name]["needs"] if name in self.sealed else []
            if needs and before[-len(needs) :] != needs:
                raise Refused(f"{name} was provided without its required 'reasoning' item")
            if before and str(before[-1]).startswith("rs_") and name not in self.sealed:
                raise Refused(f"{before[-1]} was provided without its required following item")
            before.append(name)
        if before and str(before[-1]).startswith("rs_"):
            raise Refused(f"{before[-1]} was provided without its required following item")
