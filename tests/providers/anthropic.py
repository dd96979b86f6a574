"""A server that speaks Anthropic's Messages, streamed, and enforces its rules for requests."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.providers.caching import MarkedCache, plain
from tests.providers.rules import ANTHROPIC, ModelRules, rules_of
from tests.providers.server import Body, Provider, Refused, Script, only, serving

MEMBERS = """screenshot zoom left_click right_click middle_click double_click triple_click left_click_drag
left_mouse_down left_mouse_up mouse_move cursor_position scroll type key hold_key wait""".split()
FIELDS = "system tools thinking stream metadata tool_choice output_config stop_sequences"
MOST_MARKS = 4
MOST_IMAGES = 100
LARGEST_IMAGE = 5 << 20
THOUGHTS = ("thinking", "redacted_thinking")


def text(said: str) -> Body:
    return {"type": "text", "text": said}


def thinking(thought: str) -> Body:
    return {"type": "thinking", "thinking": thought}


def redacted() -> Body:
    return {"type": "redacted_thinking"}


def tool(name: str, **given: object) -> Body:
    return {"type": "tool_use", "name": name, "input": given}


def computer(name: str, **given: object) -> Body:
    return {"type": "tool_use", "name": name, "input": given, "toolset_name": "computer"}


@contextmanager
def anthropic_server(script: Script) -> Iterator[Anthropic]:
    """Run a server whose model follows a script. Clients use `base_url`; tests read `requests` and set `trouble`."""
    with serving(Anthropic(script, "")) as made:
        yield made


@dataclass
class Anthropic(Provider):
    """A server with Anthropic's protocol."""

    cache: MarkedCache = field(default_factory=MarkedCache)
    bound: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """For each thought, what preceded it: a digest of the request, and the earlier thoughts."""
    rules: ModelRules | None = None
    """Rules to use instead of those of the requested model."""
    batches: dict[str, list[Body]] = field(default_factory=dict)
    """Results of batches, by batch id."""
    polls: dict[str, int] = field(default_factory=dict)
    """How many more polls report each batch as in progress."""
    failing_polls: int = 0
    """How many of the next polls fail."""
    cancelled: list[str] = field(default_factory=list)
    """Ids of batches that were cancelled."""
    outcome: str = "succeeded"
    """Outcome of the requests in the next batches."""

    def answer(self, path: str, headers: dict[str, str], body: Body) -> list[tuple[str, Body | str]]:
        """Check a request; return its events. A block may have `stop` (a reason) or `raw` (a tool's input as text)."""
        if path != "/v1/messages" or "anthropic-version" not in headers:
            raise Refused(f"there is no {path}")
        if not (headers.get("x-api-key") or headers.get("authorization")):
            raise Refused("no key")
        self.check(body)
        blocks = [dict(block) for block in self.script(body)]
        events = list(self.events(body, blocks))
        self.remember(events, body)
        return [(event["type"], event) for event in events]

    def remember(self, events: list[Body], body: Body) -> None:
        """Record what preceded each thought of a reply."""
        begun = [event["content_block"] for event in events if event["type"] == "content_block_start"]
        deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
        thoughts = [each["signature"] for each in deltas if "signature" in each]
        thoughts += [each["data"] for each in begun if "data" in each]
        before = digest_before(body, len(body["messages"])), tuple(thoughts_in(body["messages"]))
        self.bound |= dict.fromkeys(thoughts, before)

    def error(self, status: int, why: str, param: str = "") -> Body:
        kinds = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error",
                 429: "rate_limit_error", 529: "overloaded_error"}  # fmt: skip
        return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": why}}

    def events(self, body: Body, blocks: list[Body]) -> Iterator[Body]:
        stop = next((block.pop("stop") for block in blocks if "stop" in block), None)
        usual = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
        counts = self.cache.count(body, self.rules_for(body).floor)
        usage = {
            "input_tokens": counts.fresh,
            "cache_read_input_tokens": counts.cached,
            "cache_creation_input_tokens": counts.stored,
            "output_tokens": 1,
        }
        message = {"id": f"msg_{self.number()}", "type": "message", "role": "assistant", "model": body["model"],
                   "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip
        yield {"type": "message_start", "message": message}
        yield {"type": "ping"}
        for index, block in enumerate(blocks):
            yield from self.pieces(index, block)
        yield {"type": "message_delta", "delta": {"stop_reason": stop or usual, "stop_sequence": None},
               "usage": {"output_tokens": self.count_output(blocks)}}  # fmt: skip
        yield {"type": "message_stop"}

    def pieces(self, index: int, block: Body) -> Iterator[Body]:
        empty, deltas = self.begun(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}

    def begun(self, block: Body) -> tuple[Body, list[Body]]:
        match block["type"]:
            case "text":
                halves = (block["text"][:3], block["text"][3:])
                return {"type": "text", "text": ""}, [{"type": "text_delta", "text": each} for each in halves]
            case "thinking":
                sign = [] if block.get("unsigned") else [self.sign(block["thinking"])]
                deltas: list[Body] = [{"type": "thinking_delta", "thinking": block["thinking"]}]
                deltas += [{"type": "signature_delta", "signature": each} for each in sign]
                return {"type": "thinking", "thinking": "", "signature": ""}, deltas
            case "redacted_thinking":
                data = base64.b64encode(self.sign(f"secret {self.number()}").encode()).decode()
                self.sealed[data] = {}
                return {"type": "redacted_thinking", "data": data}, []
        name = f"toolu_{self.number()}"
        written = block.get("raw") or json.dumps(block["input"])
        start: Body = {key: block[key] for key in ("type", "name", "toolset_name") if key in block}
        start |= {"id": name, "input": {}, "caller": {"type": "direct"}}
        self.sealed[name] = start
        halves = (written[: len(written) // 2], written[len(written) // 2 :])
        return start, [{"type": "input_json_delta", "partial_json": each} for each in halves]

    def sign(self, thought: str) -> str:
        signature = self.seal(thought, str(len(self.sealed)))
        self.sealed[signature] = {"thinking": thought}
        return signature

    def begin(self, path: str, headers: dict[str, str], body: Body) -> str | None:
        """Take a batch of requests, or cancel one."""
        if path.endswith("/cancel"):
            self.cancelled.append(path.split("/")[-2])
            return json.dumps(self.batch_of(path.split("/")[-2], "canceling"))
        if path != "/v1/messages/batches":
            return None
        name = f"msgbatch_{self.number()}"
        only(body, "body", "requests", "")
        ids = [each["custom_id"] for each in body["requests"]]
        if not 1 <= len(ids) <= 100_000 or len(set(ids)) < len(ids):
            raise Refused("requests: from 1 to 100000, each with a custom_id of its own")
        if unfit := [each for each in ids if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each)]:
            raise Refused(f"requests: custom_id: {unfit[0]!r} does not match")
        self.batches[name] = [self.result_of(each, f"requests.{place}") for place, each in enumerate(body["requests"])]
        self.polls[name] = 2
        return json.dumps(self.batch_of(name, "in_progress"))

    def result_of(self, each: Body, where: str) -> Body:
        """Return the result of one request of a batch; an invalid request fails alone."""
        only(each, where, "custom_id params")
        try:
            message = self.whole_message(each["params"])
            result: Body = {"type": "succeeded", "message": message} if self.outcome == "succeeded" else {}
        except Refused as e:
            self.refusals.append(str(e))
            result = {"type": "errored", "error": self.error(400, str(e))}
        return {"custom_id": each["custom_id"], "result": result or {"type": self.outcome}}

    def find(self, path: str) -> str:
        """Return the state of a batch, or its results in no particular order."""
        if self.failing_polls:
            self.failing_polls -= 1
            raise ConnectionError("nobody answers")
        parts = path.removeprefix("/v1/messages/batches/").split("/")
        if parts[0] not in self.batches:
            return ""
        if parts[-1] == "results":
            return "".join(json.dumps(each) + "\n" for each in reversed(self.batches[parts[0]]))
        self.polls[parts[0]] -= 1
        return json.dumps(self.batch_of(parts[0], "ended" if self.polls[parts[0]] < 0 else "in_progress"))

    def batch_of(self, name: str, status: str) -> Body:
        url = f"{self.base_url}/v1/messages/batches/{name}/results" if status == "ended" else None
        counts = {"canceled": 0, "errored": 0, "expired": 0, "processing": len(self.batches[name]), "succeeded": 0}
        moment = "2026-11-17T00:00:00Z"
        return {"id": name, "type": "message_batch", "processing_status": status, "request_counts": counts,
                "results_url": url, "created_at": moment, "expires_at": moment}  # fmt: skip

    def whole_message(self, body: Body) -> Body:
        events = [event for _, event in self.answer("/v1/messages", {"anthropic-version": "1", "x-api-key": "k"}, body)]
        message: Any = {}
        for event in events:
            assert isinstance(event, dict)
            match event["type"]:
                case "message_start":
                    message = event["message"]
                case "content_block_start":
                    message["content"].append({**event["content_block"], "written": ""})
                case "content_block_delta":
                    block, delta = message["content"][-1], event["delta"]
                    for key in ("text", "thinking", "signature"):
                        block |= {key: block[key] + delta[key]} if key in delta else {}
                    block["written"] += delta.get("partial_json", "")
                case "message_delta":
                    message |= event["delta"]
                    message["usage"] |= event["usage"]
        for block in message["content"]:
            written = block.pop("written")
            block |= {"input": json.loads(written)} if written else {}
        return dict(message)

    def rules_for(self, body: Body) -> ModelRules:
        return self.rules or rules_of(ANTHROPIC, body["model"])

    def check(self, body: Body) -> None:
        only(body, "body", "model max_tokens messages", FIELDS)
        rules = self.rules_for(body)
        if body["max_tokens"] > rules.output:
            raise Refused(
                f"max_tokens: {body['max_tokens']} > {rules.output}, which is the maximum allowed number of output "
                f"tokens for {body['model']}"
            )
        for number, each in enumerate(body.get("tools", [])):
            self.check_tool(each, f"tools.{number}")
            if each.get("type", "").startswith("computer") and not rules.computer:
                raise Refused(f"'{body['model']}' does not support tool types: {each['type']}")
        self.check_effort(body.get("output_config", {}), rules)
        self.check_images(body, rules)
        if str(body).count("'cache_control'") > MOST_MARKS:
            raise Refused(f"a maximum of {MOST_MARKS} blocks with cache_control may be provided")
        self.check_thinking(body.get("thinking"), body["max_tokens"], rules)
        roles = [message["role"] for message in body["messages"]]
        if not roles or roles[0] != "user" or roles[-1] != "user" or any(a == b for a, b in pairwise(roles)):
            raise Refused(f"messages: roles must alternate, from user to user; they are {roles}")
        waiting: list[Body] = []
        for number, message in enumerate(body["messages"]):
            waiting = self.check_message(message, f"messages.{number}", waiting)
        ids = [block["id"] for each in body["messages"] for block in each["content"] if block["type"] == "tool_use"]
        if len(ids) != len(set(ids)):
            raise Refused("messages: `tool_use` ids must be unique")
        if not body.get("tools") and "tool_use" in str(body["messages"]):
            raise Refused("tools: required where tool_use blocks are")
        if rules.bound:
            self.check_binding(body)
        if (body.get("thinking") or {}).get("type") == "enabled":
            check_last_turn(body["messages"])

    def check_tool(self, each: Body, where: str) -> None:
        if each.get("type") == "computer_toolset_20260801":
            only(each, where, "type", "cache_control configs")
            return
        only(each, where, "name input_schema", "description cache_control strict type input_examples")
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", each["name"]) or each["input_schema"]["type"] != "object":
            raise Refused(f"{where}: bad name or schema")

    def check_effort(self, config: Body, rules: ModelRules) -> None:
        only(config, "output_config", "", "effort format")
        if "effort" in config and not rules.efforts:
            raise Refused("This model does not support the effort parameter.")
        if config.get("effort", "low") not in (rules.efforts or ("low",)):
            raise Refused(f"output_config.effort: Input should be {', '.join(rules.efforts)}")

    def check_images(self, body: Body, rules: ModelRules) -> None:
        count = json.dumps(body["messages"]).count('"type": "image"')
        if count and not rules.images:
            raise Refused(f"'{body['model']}' does not support image input.")
        if count > MOST_IMAGES:
            raise Refused(f"messages: too many images: {count} > {MOST_IMAGES}")

    def check_binding(self, body: Body) -> None:
        """Refuse thoughts that follow anything else than what preceded them when they were produced."""
        seen: list[str] = []
        for number, message in enumerate(body["messages"]):
            for place, block in enumerate(message["content"]):
                name = block.get("signature") or block.get("data")
                if block["type"] not in THOUGHTS:
                    continue
                digest, before = self.bound.get(name, ("", ()))
                digest_now = digest_before(body, number)
                if digest != digest_now or (seen and tuple(seen) != before[-len(seen) :]):
                    raise Refused(
                        f"messages.{number}.content.{place}: Invalid `signature` in `thinking` block. The block is "
                        "bound to a different conversation. Remove the block, or set "
                        '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
                    )
            seen += thoughts_in([message])

    def check_thinking(self, config: Any, most: int, rules: ModelRules) -> None:
        if config is None:
            return
        if config["type"] not in rules.thinking:
            if config["type"] == "adaptive":
                raise Refused("adaptive thinking is not supported on this model")
            raise Refused(
                f'"thinking.type.{config["type"]}" is not supported for this model. Use "thinking.type.adaptive" and '
                '"output_config.effort" to control thinking behavior.'
            )
        if config["type"] == "adaptive":
            only(config, "thinking", "type", "display")
        elif config["type"] == "enabled":
            only(config, "thinking", "type budget_tokens", "display")
            if not 1024 <= config["budget_tokens"] < most:
                raise Refused("thinking.budget_tokens: must be at least 1024 and less than max_tokens")

    def check_message(self, message: Body, where: str, waiting: list[Body]) -> list[Body]:
        """Check a message; return the tool calls that the next one must answer."""
        only(message, where, "role content")
        content = message["content"]
        if not content:
            raise Refused(f"{where}: must have non-empty content")
        for number, block in enumerate(content):
            self.check_block(block, f"{where}.content.{number}", message["role"])
        if message["role"] == "assistant":
            return [block for block in content if block["type"] == "tool_use"]
        results = [block for block in content if block["type"] == "tool_result"]
        if content[: len(results)] != results:
            raise Refused(f"{where}: tool_result blocks must come first")
        missing = {use["id"] for use in waiting} ^ {block["tool_use_id"] for block in results}
        if missing or len(results) != len(waiting):
            raise Refused(
                f"{where}: each tool_use must have a single tool_result right after it, and no other: {missing}"
            )
        for use in waiting:
            [block] = [each for each in results if each["tool_use_id"] == use["id"]]
            if block.get("toolset_name") != use.get("toolset_name"):
                raise Refused(f"{where}: toolset_name of a tool_result must be that of its tool_use")
        return []

    def check_block(self, block: Body, where: str, role: str) -> None:
        allowed = {"user": "text image tool_result", "assistant": "text thinking redacted_thinking tool_use"}[role]
        if block["type"] not in allowed.split():
            raise Refused(f"{where}: {role} may not say {block['type']}")
        match block["type"]:
            case "text":
                only(block, where, "type text", "cache_control citations")
                if not block["text"].strip():
                    raise Refused(f"{where}: text must be non-empty")
            case "image":
                self.check_image(block, where)
            case "thinking":
                only(block, where, "type thinking signature")
                if self.sealed.get(block["signature"]) != {"thinking": block["thinking"]}:
                    raise Refused(f"{where}: Invalid `signature` in `thinking` block")
            case "redacted_thinking":
                only(block, where, "type data")
                if block["data"] not in self.sealed:
                    raise Refused(f"{where}: Invalid `data` in `redacted_thinking` block")
            case "tool_use":
                self.check_use(block, where)
            case "tool_result":
                self.check_result(block, where)

    def check_image(self, block: Body, where: str) -> None:
        only(block, where, "type source", "cache_control")
        only(block["source"], where, "type media_type data")
        if len(base64.b64decode(block["source"]["data"], validate=True)) > LARGEST_IMAGE:
            raise Refused(f"{where}.source.base64: image exceeds 5 MB maximum")
        if block["source"]["media_type"] not in ("image/png", "image/jpeg", "image/webp", "image/gif"):
            raise Refused(f"{where}: is no picture")

    def check_use(self, block: Body, where: str) -> None:
        """Check a tool call: one made here must be unchanged; one with an unknown id came from another provider."""
        only(block, where, "type id name input", "toolset_name caller cache_control")
        if not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]) or not isinstance(block["input"], dict):
            raise Refused(f"{where}: bad id or input")
        said = self.sealed.get(block["id"])
        if said and any(block.get(key) != said.get(key) for key in ("name", "toolset_name")):
            raise Refused(f"{where}: is not what was said")
        if block.get("toolset_name") and block["name"] not in MEMBERS:
            raise Refused(f"{where}: no member of the toolset")

    def check_result(self, block: Body, where: str) -> None:
        only(block, where, "type tool_use_id", "content is_error toolset_name cache_control")
        content = block.get("content", [])
        if block.get("is_error") and not content:
            raise Refused(f"{where}: content cannot be empty if is_error is true")
        for number, part in enumerate(content):
            self.check_block(part, f"{where}.content.{number}", "user")


def thoughts_in(messages: list[Body]) -> list[str]:
    blocks = [block for message in messages for block in message["content"] if block["type"] in THOUGHTS]
    return [block.get("signature") or block["data"] for block in blocks]


def digest_before(body: Body, number: int) -> str:
    """Return a digest of everything before a message (tools, system, all messages) without thoughts."""
    parts = [plain(block) for block in (*body.get("tools", []), *body.get("system", []))]
    for message in body["messages"][:number]:
        parts += [plain(block) for block in message["content"] if block["type"] not in THOUGHTS]
    return json.dumps(parts)


def check_last_turn(messages: list[Body]) -> None:
    """Refuse an unfinished turn that does not begin with a thought, where thinking has a budget."""
    spoken = [message["content"] for message in messages if message["role"] == "assistant"]
    unfinished = any(block["type"] == "tool_result" for block in messages[-1]["content"])
    if spoken and unfinished and spoken[-1][0]["type"] not in THOUGHTS:
        kind = spoken[-1][0]["type"]
        raise Refused(f"Expected `thinking` or `redacted_thinking`, but found `{kind}`.")
