"""Tests of replies that no provider should send: each is a `ModelError`, or can be stored and sent back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.providers.chat import chat_server, text

from hotdesk.brain.models.chat import Chat
from hotdesk.brain.models.chat_wire import gather, read_reply
from hotdesk.brain.models.clean import MAX_DEPTH, clean_message, clean_text, is_storable, parse_arguments, read_count
from hotdesk.brain.models.client import Events, Patience
from hotdesk.brain.models.codec import reply_from_json, reply_to_json
from hotdesk.brain.models.record import RecordingModel, read_histories
from hotdesk.brain.models.seam import ModelRequest, OurMessage, Results
from hotdesk.errors import ModelError
from hotdesk.tool import Observation, Parameter, Tool, ToolArgumentError

LOOK = Tool("look", "Look.", (Parameter("x", "text", "x"),))
ONCE = Patience(connect=2, silence=2, retries=0, tries=1, longest=10)
LONE, PAIR = "a\ud800b", "\ud83d\ude00"


def nest(depth: int) -> str:
    return '{"x": ' + "[" * depth + "]" * depth + "}"


@pytest.mark.parametrize("arguments", [nest(1000), nest(100_000), nest(MAX_DEPTH), '{"x": NaN}', '{"x": 1e999}', "{"])
def test_arguments_that_could_not_be_sent_back_stay_text(arguments: str) -> None:
    assert parse_arguments(arguments) == arguments
    assert not is_storable(arguments)
    with pytest.raises(ToolArgumentError, match="must be a JSON object"):
        LOOK.check(parse_arguments(arguments))


def test_lone_surrogates_are_replaced_and_pairs_are_joined() -> None:
    assert (clean_text(LONE), clean_text(PAIR), clean_text("é")) == ("a\ufffdb", "\U0001f600", "é")
    assert parse_arguments(json.dumps({LONE: [LONE]})) == {"a\ufffdb": ["a\ufffdb"]}
    assert parse_arguments(f"[{LONE}") == "[a\ufffdb"
    assert clean_message({"inputs": {3: LONE}}) == {"inputs": {3: "a\ufffdb"}}
    assert is_storable(json.dumps({"x": "\U0001f600"}))
    assert not is_storable(json.dumps({"x": LONE}))


def test_counts_of_tokens_that_cannot_be_true_are_zero() -> None:
    assert [read_count(each) for each in (7, 0, -1, None, "7", 7.0, True, 10**400)] == [7, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "reply",
    [
        [text(LONE), {"name": "look", "arguments": json.dumps({"x": LONE})}],
        [{"content": "x", "reasoning": LONE}],
        [{"name": "look", "arguments": '{"x": NaN}'}],
        [{"name": "look", "arguments": nest(1000)}],
        [{"name": f"look{LONE}", "arguments": "{}"}],
    ],
)
async def test_a_conversation_goes_on_after_a_hostile_reply(reply: list[dict[str, Any]]) -> None:
    said = iter([reply, [text("Done.")]])
    with chat_server(lambda body: next(said)) as server:
        model = Chat("m", base_url=server.base_url, patience=ONCE)
        first = await model.ask(ModelRequest("", [OurMessage("Look.")], [LOOK]))
        assert reply_from_json(json.loads(json.dumps(reply_to_json(first)).encode())) == first
        seen = Results(tuple((call, Observation("x")) for call in first.calls)) if first.calls else OurMessage("More.")
        again = await model.ask(ModelRequest("", [OurMessage("Look."), first, seen], [LOOK]))
        await model.close()
    assert again.text == "Done."


async def test_a_lone_surrogate_in_a_request_is_replaced_also_in_its_recording(tmp_path: Path) -> None:
    with chat_server(lambda body: [text("Yes.")]) as server:
        model = RecordingModel(Chat("m", base_url=server.base_url, patience=ONCE), tmp_path / "record.jsonl")
        await model.ask(ModelRequest(LONE, [OurMessage(LONE)], [LOOK]))
        await model.close()
        assert [each["content"] for each in server.requests[0]["messages"]] == ["a\ufffdb"] * 2
    assert read_histories(tmp_path / "record.jsonl") == [[OurMessage("a\ufffdb")]]


def change_id(message: dict[str, Any]) -> None:
    message["calls"].append({"id": 7, "name": "look", "arguments": "{}"})


def add_depth(message: dict[str, Any]) -> None:
    message["content"] = json.loads("[" * 200 + "]" * 200)


@pytest.mark.parametrize("damage", [change_id, add_depth])
async def test_a_malformed_message_is_a_model_error(damage: Callable[[dict[str, Any]], None]) -> None:
    class Damaged(Chat):
        """A server whose assembled message has a value of a wrong type."""

        async def gather(self, events: Events) -> dict[str, Any]:
            message = await super().gather(events)
            damage(message)
            return message

    with chat_server(lambda body: [text("Hello.")]) as server:
        model = Damaged("m", base_url=server.base_url, patience=ONCE)
        with pytest.raises(ModelError, match="the reply is malformed"):
            await model.ask(ModelRequest("", [OurMessage("Look.")], [LOOK]))
        await model.close()


async def test_usage_that_is_not_a_number_costs_nothing() -> None:
    async def events() -> Events:
        yield {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": "many"}}

    assert read_reply(await gather(events()), "chat:m").usage.input == 0
