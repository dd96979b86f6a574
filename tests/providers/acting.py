"""A provider's model that follows a script: it reads a request of any protocol, and replies with the script's next act.

It knows nothing but the request, which has the step, the attempt and all tool results. So any process or provider that
gets the next request continues where the last one was.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from hotdesk.brain.models.scripted import ScriptedModel
from hotdesk.brain.models.seam import Item, ModelRequest, Reply, Results
from hotdesk.brain.seam import PlanningTask
from hotdesk.plan import Plan, to_json
from hotdesk.tool import Call, Observation
from tests.providers.behind import Asked
from tests.providers.server import Body

STEP = re.compile(r"^# Your step: (\w+)$", re.MULTILINE)
FAILED_BEFORE = re.compile(r"^> Attempt (\d+) failed", re.MULTILINE)
SENT_BACK = "The check found:\n"
"""Beginning of the message that returns a failed delivery in the same conversation."""
ENDED = re.compile(r"\n?\[exit code (-?\d+)[^\n]*\]\Z")
ERRORS = "standard error:\n"
FAILED = "(this failed)"
TASK = PlanningTask("", (), (), (), (), (), "")
Seen: TypeAlias = tuple[str, dict[str, object], Observation]
"""A tool, its arguments, and its result."""


@dataclass
class Acting:
    """A model that follows a script."""

    script: Path
    hosts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Hosts of each step, for the plan: a model must name them, while a script may leave them to the brief."""
    findings: list[str] = field(default_factory=list)
    """Findings against the next plan; they are reported once."""
    fails: set[str] = field(default_factory=set)
    """Steps in which it gives up."""
    shown: list[str] = field(default_factory=list)
    """The step of every request, in order; `plan` and `findings` for planning requests."""

    def __call__(self, asked: Asked) -> Reply:
        if "plan" in asked.tools:
            self.shown.append("plan")
            plan = ScriptedModel.read(self.script).provide_plan(TASK)
            steps = tuple(replace(step, hosts=self.hosts.get(step.name, ())) for step in plan.steps)
            return Reply(thought="A plan is wanted.", calls=(Call("", "plan", {"plan": to_json(Plan(steps))}),))
        if "findings" in asked.tools:
            self.shown.append("findings")
            said, self.findings[:] = list(self.findings), []
            return Reply(thought="What is wrong with it?", calls=(Call("", "findings", {"findings": said}),))
        step = STEP.findall(asked.told[0])[-1]
        self.shown.append(step)
        if step in self.fails:
            return Reply(thought=f"I cannot do {step}.", calls=(Call("", "give_up", {"why": "it is beyond me"}),))
        return self.act(step, asked)

    def act(self, step: str, asked: Asked) -> Reply:
        """Replay the script up to the end of the conversation; return its next calls, as tools that models have."""
        model = ScriptedModel.read(self.script)
        scene = model.scenes[step].act
        failed, sent_back = FAILED_BEFORE.findall(asked.told[0]), [each for each in asked.told if SENT_BACK in each]
        attempt, history = (int(failed[-1]) + 1 if failed else 1) + len(sent_back), list[Item]()
        before = sent_back[-1] if sent_back else ""
        reply = model.player.ask(ModelRequest("", (), step=step, attempt=attempt, before=before), scene)
        for turn in turns(since_sent_back(asked.body)):
            wanted = [translated(call) for call in reply.calls]
            used = [(tool, given) for tool, given, _ in turn]
            assert used == [(call.tool, call.arguments) for call in wanted], f"{used} was not wanted, but {wanted}"
            seen = [told_back(call, each) for call, (_, _, each) in zip(reply.calls, turn, strict=True)]
            history += [reply, Results(tuple(zip(reply.calls, seen, strict=True)))]
            reply = model.player.ask(ModelRequest("", tuple(history), step=step, attempt=attempt, before=before), scene)
        model.player.close()
        calls = tuple(translated(call) for call in reply.calls)
        return Reply(reply.text, f"In {step} I use {', '.join(call.tool for call in calls)} next.", calls)


# -- calls of a script, as tools of models ----------------------------------------------------------------------------


def translated(call: Call) -> Call:
    """Return a call of a tool that only scripts have as the equivalent call of a model's tool."""
    match call.tool, call.arguments:
        case "exact_run", dict(given):
            return Call("", "run", given)
        case "exact_read", {"path": str(path)}:
            return Call("", "run", {"argv": ["cat", path]})
        case "exact_write", {"path": str(path), "data": str(data)}:
            return Call("", "file_create", {"path": path, "content": decoded(data), "overwrite": True})
    return call


def told_back(call: Call, seen: Observation) -> Observation:
    """Return a result in the form of the script's own tool; calls that failed to run are returned unchanged."""
    if call.tool == "exact_write" and seen.ok:
        return Observation(json.dumps({"size": 0}))
    ended = ENDED.search(seen.text)
    if call.tool not in ("exact_run", "exact_read") or ended is None:
        return seen
    said, _, errors = seen.text[: ended.start()].partition(ERRORS)
    if call.tool == "exact_read":
        return Observation(json.dumps({"data": encoded(said)})) if seen.ok else seen
    done = {"exit_code": int(ended[1]), "stdout": encoded(said), "stderr": encoded(errors), "reason": ""}
    return Observation(json.dumps(done), seen.ok)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def decoded(data: str) -> str:
    return base64.b64decode(data).decode()


# -- conversations in each protocol ------------------------------------------------------------------------------------


def since_sent_back(body: Body) -> Body:
    """Return a request without the messages before its delivery was last sent back, but with its first message."""
    key = "input" if "input" in body else "messages"
    items = body[key]
    last = max((place for place, item in enumerate(items) if SENT_BACK in said_in(item)), default=0)
    return {**body, key: [items[0], *items[last + 1 :]]}


def said_in(item: Body) -> str:
    content = item.get("content") if item.get("role") == "user" else ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def turns(body: Body) -> Iterator[list[Seen]]:
    """Yield the calls of each turn of a request with their results; turns without calls are left out."""
    if "input" in body:
        groups = openai_turns(body["input"])
    elif body["messages"][0]["role"] == "system":
        groups = chat_turns(body["messages"])
    else:
        groups = anthropic_turns(body["messages"])
    yield from (group for group in groups if group)


def anthropic_turns(messages: list[Body]) -> Iterator[list[Seen]]:
    """Read Messages: calls are in one message, their results in the next."""
    for said, told in pairwise(messages):
        if said["role"] == "assistant":
            results = {each["tool_use_id"]: each for each in told["content"] if each["type"] == "tool_result"}
            uses = [each for each in said["content"] if each["type"] == "tool_use"]
            yield [(use["name"], use["input"], seen_of_anthropic(results[use["id"]])) for use in uses]


def seen_of_anthropic(block: Body) -> Observation:
    text = "\n".join(part["text"] for part in block["content"] if part["type"] == "text")
    return Observation(text, not block.get("is_error"))


def openai_turns(items: list[Body]) -> Iterator[list[Seen]]:
    """Read Responses: the outputs follow the calls of their turn."""
    outputs = {item["call_id"]: item["output"] for item in items if item.get("type") == "function_call_output"}
    turn: list[Seen] = []
    for item, after in zip(items, [*items[1:], {}], strict=True):
        if item.get("type") == "function_call":
            turn.append((item["name"], json.loads(item["arguments"]), seen_of(outputs[item["call_id"]])))
        if item.get("type") == "function_call_output" and after.get("type") != "function_call_output":
            yield turn
            turn = []


def chat_turns(messages: list[Body]) -> Iterator[list[Seen]]:
    """Read chat completions: each result is a message."""
    results = {each["tool_call_id"]: each["content"] for each in messages if each["role"] == "tool"}
    for message in messages:
        calls = message.get("tool_calls", [])
        named = [(call["function"]["name"], json.loads(call["function"]["arguments"]), call["id"]) for call in calls]
        yield [(tool, given, seen_of(results[name])) for tool, given, name in named]


def seen_of(text: str) -> Observation:
    """Read a result where the protocol cannot mark failures: our own mark is its first line."""
    return Observation(text.removeprefix(FAILED).removeprefix("\n"), not text.startswith(FAILED))
