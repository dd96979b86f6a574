"""What providers' caches would hit in the recorded minds' jobs: worked out by the stand-ins from identical prefixes.

Each request is written again as it is sent today: with the tools of all steps, and of several actions at the screen in
a turn with the last picture only. What was said and seen is the recordings'.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.providers.caching import AutomaticCache, Counts, MarkedCache

from hotdesk.brain.loop import is_shown_later
from hotdesk.brain.models import anthropic_wire, openai_wire
from hotdesk.brain.models.capabilities import find_capabilities
from hotdesk.brain.models.record import RecordedLine, read_histories, read_lines
from hotdesk.brain.models.seam import Item, ModelRequest, Reply, Results
from hotdesk.tool import Call, Observation, Tool

ROOT = Path(__file__).parents[3]
EXAMPLES = ("audit", "contract", "filing", "legacy", "patch", "research")
RECORDINGS = (
    *sorted((ROOT / "tests/recordings").glob("*.jsonl")),
    *(ROOT / "examples" / name / "recorded/mind.jsonl" for name in EXAMPLES),
)
FLOOR = 512
"""Tokens from which claude-sonnet-5-5 caches."""
SCREENSHOTS = ("screenshot", "zoom")


class RecordedTool(Tool):
    """A tool as a recording has it: by its schema."""

    def build_schema(self) -> dict[str, object]:
        return dict(self.example)


def read_tools(line: RecordedLine) -> dict[str, Tool]:
    tools = (each for each in line.request.tools if isinstance(each, dict))
    return {each["name"]: RecordedTool(each["name"], each["what"], (), each["schema"]) for each in tools}


def show_as_today(results: Results) -> Results:
    """Return results with the pictures that are sent today; recordings in the repository have them empty."""
    calls = [call for call, _ in results.pairs]
    pairs = enumerate(results.pairs, 1)
    return Results(tuple((call, draw(call, seen, calls[place:])) for place, (call, seen) in pairs))


def draw(call: Call, seen: Observation, following: Sequence[Call]) -> Observation:
    is_left_out = call.tool == "computer" and not is_screenshot(call) and is_shown_later(following)
    is_shown = bool(seen.media) and not is_left_out
    return replace(seen, image=call.id.encode() * 1000 if is_shown else b"", media=seen.media if is_shown else "")


def is_screenshot(call: Call) -> bool:
    actions = call.arguments.get("actions") if isinstance(call.arguments, dict) else None
    return isinstance(actions, list) and bool(actions) and actions[-1].get("action") in SCREENSHOTS


def iterate_requests(file: Path) -> Iterator[tuple[ModelRequest, Reply]]:
    """Yield the requests of a job as they are sent today, with what was replied."""
    lines, histories = read_lines(file), read_histories(file)
    listed = {name: tool for line in lines if line.request.step for name, tool in read_tools(line).items()}
    system, tools, steps = "", list[Tool](), dict[str, list[Item]]()
    for line, history in zip(lines, histories, strict=True):
        system = line.request.system or system
        tools = list(read_tools(line).values()) or tools
        step = line.request.step
        if line.reply is None:
            continue
        items = steps.setdefault(step, [*history[:1]]) if step else list(history)
        if step and len(items) > 1:
            last = history[-1]
            items.append(show_as_today(last) if isinstance(last, Results) else last)
        screen = (1280, 800) if line.request.screen else None
        used = list(listed.values()) if step else tools
        yield ModelRequest(system, tuple(items), used, screen, step=step, cache="job"), line.reply
        items.append(line.reply)


def count(file: Path, kind: str) -> list[tuple[str, Counts]]:
    """Return the step of each request of a job, and what of it came from the cache."""
    now = time.monotonic()
    marked, automatic = MarkedCache(lambda: now), AutomaticCache(lambda: now)
    found = []
    for request, reply in iterate_requests(file):
        if kind == "anthropic":
            body = anthropic_wire.write_body(request, "m", reply.model, find_capabilities(kind, "claude-sonnet-5-5"))
            found.append((request.step, marked.count(body, FLOOR)))
        else:
            body = openai_wire.write_body(request, "m", reply.model, find_capabilities(kind, "gpt-5.4"))
            found.append((request.step, automatic.count(body)))
    return found


def share_cached(counts: Sequence[Counts]) -> float:
    return sum(each.cached for each in counts) / sum(each.all for each in counts)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["anthropic", pytest.param("openai", marks=pytest.mark.long)])
def test_after_turn_three_four_fifths_of_what_minds_were_sent_come_from_the_cache(kind: str) -> None:
    jobs = [count(file, kind) for file in RECORDINGS]
    assert len(jobs) == 30
    conversations = [[each for name, each in job if name == step] for job in jobs for step in {name for name, _ in job}]
    late = share_cached([each for conversation in conversations for each in conversation[3:]])
    late_in_job = share_cached([each for job in jobs for _, each in job[3:]])
    assert late >= 0.84, f"{late:.1%} of input tokens after turn three of a conversation"
    assert late_in_job >= 0.78, f"{late_in_job:.1%} of input tokens after turn three of a job"


def test_of_pictures_only_those_are_left_out_that_a_later_one_replaces() -> None:
    click = {"vendor": "anthropic", "actions": [{"action": "left_click"}]}
    look = {"vendor": "anthropic", "actions": [{"action": "screenshot"}]}
    uses: tuple[tuple[str, object], ...] = (("computer", click), ("computer", look), ("computer", click), ("shell", {}))
    calls = [Call(str(number), *each) for number, each in enumerate(uses)]
    seen = show_as_today(Results(tuple((call, Observation(media="image/png")) for call in calls)))
    assert [bool(each.image) for _, each in seen.pairs] == [False, True, True, True]
