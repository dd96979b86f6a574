"""Tests of dividing up a context window: everything fits, and every part gets a share."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.brain.stages import Room, finishes, in_turn, step_of, take

from hotdesk.brain.compaction import estimate_text_tokens
from hotdesk.brain.models.seam import REPLY, ModelRequest, OurMessage
from hotdesk.brain.own_tools import OWN
from hotdesk.brain.window import (
    LEAST_REPLY,
    LONG_REPLY,
    SUMMARIES,
    estimate_fixed_tokens,
    request_tokens,
    share_out,
    shorten_summaries,
    shorten_tool,
)
from hotdesk.hands.tools import list_tools
from hotdesk.tool import Call, Observation, Parameter, Tool, ToolArgumentError

SYSTEM = "You are a worker. " * 60
FEW = (*list_tools(screen=False, vision=False, exact=False), *OWN)
MANY = (*list_tools(screen=True, vision=True, exact=False), *OWN)
MOVE = Tool(
    "move", "Move a file. Nothing is overwritten.", (Parameter("to", "text", "where to", required=True),), {"to": "a"}
)


@pytest.mark.parametrize("window", [8_000, 16_000, 32_000, 200_000])
@pytest.mark.parametrize("tools", [FEW, MANY])
def test_everything_fits_a_window_that_has_room_for_it_at_all(window: int, tools: tuple[Tool, ...]) -> None:
    room = share_out(window, SYSTEM, tools)
    assert len(room.tools) == len(tools)
    assert room.reply >= LEAST_REPLY
    assert (
        estimate_fixed_tokens(SYSTEM, room.tools) + room.conversation + room.reply <= window or room.conversation == 0
    )


@pytest.mark.parametrize(("window", "reply"), [(99_999, REPLY), (100_000, 28_000), (200_000, LONG_REPLY)])
def test_a_large_window_has_room_for_thinking_and_a_program_in_one_reply(window: int, reply: int) -> None:
    room = share_out(window, SYSTEM, MANY)
    assert room.tools == MANY
    assert reply <= room.reply <= LONG_REPLY
    assert room.conversation + room.reply < window


def test_a_large_window_is_shared_as_before() -> None:
    assert share_out(200_000, SYSTEM, MANY).conversation == 140_000


def test_tools_are_described_briefly_where_they_would_fill_the_window() -> None:
    assert share_out(32_000, SYSTEM, MANY).tools == MANY
    room = share_out(16_000, SYSTEM, MANY)
    assert [tool.name for tool in room.tools] == [tool.name for tool in MANY]
    assert estimate_fixed_tokens("", room.tools) < estimate_fixed_tokens("", MANY)
    assert room.conversation > 3000


def test_a_tool_in_few_words_takes_the_same_and_is_used_the_same() -> None:
    few = shorten_tool(MOVE)
    assert few.what == "Move a file."
    assert few.build_schema()["properties"] == {"to": {"type": "string"}}
    assert few.build_schema()["required"] == ["to"]
    with pytest.raises(ToolArgumentError, match="where to"):
        MOVE.check({})


def test_a_window_that_nothing_fits_leaves_no_conversation() -> None:
    room = share_out(2000, SYSTEM, MANY)
    assert (room.conversation, room.reply) == (0, LEAST_REPLY)


def test_the_size_of_a_request_includes_all_its_parts() -> None:
    alone = estimate_fixed_tokens(SYSTEM, (MOVE,))
    assert request_tokens(ModelRequest(SYSTEM, (OurMessage("x" * 300),), (MOVE,))) > alone + 100


def test_summaries_take_their_share_of_a_window_and_short_ones_stay_whole() -> None:
    long, other = "a" * 20_000, "é" * 20_000
    situation = replace(
        step_of(), summaries=(("one", "short"), ("two", long), ("three", other)), last_summary=long[:100]
    )
    assert shorten_summaries(situation, 200_000) == situation
    shown = shorten_summaries(situation, 16_000)
    texts = [*(text for _, text in shown.summaries), shown.last_summary]
    assert sum(map(estimate_text_tokens, texts)) <= SUMMARIES * 16_000 + 100
    assert (texts[0], texts[3]) == ("short", long[:100])
    assert all("characters are left out here; search them with recall" in text for text in texts[1:3])
    assert 3 * len(texts[2]) > len(texts[1])


async def test_a_first_message_with_many_long_summaries_leaves_room_for_the_step() -> None:
    situation = replace(step_of(), summaries=tuple((f"step-{number}", "a" * 20_000) for number in range(10)))
    model = in_turn(finishes())
    model.window = 16_000
    assert (await take(model, Room(never), situation)).done
    assert request_tokens(model.asked[0]) < 16_000


async def never(call: Call) -> Observation:
    raise AssertionError("no tool is used")
