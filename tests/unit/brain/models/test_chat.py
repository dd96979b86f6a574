"""What only the driver of chat completions does: put up with servers of every kind."""

from __future__ import annotations

from typing import Any

import pytest
from tests.providers.chat import chat_server, text, thinking, tool

from hotdesk.brain.models.chat import Chat
from hotdesk.brain.models.chat_form import extend_call, gather, reply
from hotdesk.brain.models.line import Cut, Events, Patience
from hotdesk.brain.models.seam import Request, Results, Told
from hotdesk.errors import ModelError
from hotdesk.tool import Observation, Tool

LOOK = Tool("look", "Look.")
PNG = b"\x89PNG\r\n\x1a\nnot decoded by anybody here"
ONCE = Patience(connect=2, silence=2, retries=0, tries=1, longest=10)


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
async def test_thoughts_go_back_under_the_name_they_came_by(key: str) -> None:
    said = iter([[thinking("Hm.", key), tool("look")], [text("Done.")]])
    with chat_server(lambda body: next(said)) as server:
        model = Chat("m", base_url=server.base_url, patience=ONCE)
        first = await model.ask(Request("", [Told("Look.")], [LOOK]))
        assert first.thought == "Hm."
        seen = Results(((first.calls[0], Observation("x", image=PNG, media="image/png")),))
        assert (await model.ask(Request("", [Told("Look."), first, seen], [LOOK]))).text == "Done."
        await model.close()
        roles = [message["role"] for message in server.requests[1]["messages"]]
        assert roles == ["user", "assistant", "tool", "user"]
        assert server.requests[1]["messages"][1][key] == "Hm."


async def test_a_model_that_never_ends_is_stopped() -> None:
    with chat_server(lambda body: [text("x" * (6 << 20))] * 3) as server:
        model = Chat("m", base_url=server.base_url, patience=ONCE)
        with pytest.raises(ModelError, match="it said more than 16 MiB"):
            await model.ask(Request("", [Told("Look.")]))
        await model.close()


async def events(*told: dict[str, Any]) -> Events:
    """Give a stream."""
    for each in told:
        yield each


def choice(delta: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
    """Write an event."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": stop}]}


def use(name: str, given: str, **more: Any) -> dict[str, Any]:
    """Write a call, whole."""
    return {"tool_calls": [{"function": {"name": name, "arguments": given}, **more}]}


async def test_calls_without_names_of_their_own_or_with_one_for_two_are_told_apart() -> None:
    told = events(
        choice(use("a", "{}", index=0, id="same")), choice(use("b", "", index=1, id="same")),
        choice(use("c", "[1]", index=2)), choice({}, "stop"),
    )  # fmt: skip
    said = reply(await gather(told), "chat:m")
    assert [(call.tool, call.arguments) for call in said.calls] == [("a", {}), ("b", {}), ("c", [1])]
    assert len({call.id for call in said.calls}) == 3
    assert said.stop == "calls"
    sent = [each["function"]["arguments"] for each in said.native[0]["tool_calls"]]
    assert sent == ["{}", "{}", '{"arguments": "[1]"}']


def test_pieces_without_a_place_belong_to_the_last_call() -> None:
    calls: list[dict[str, str]] = []
    for piece in (
        {"id": "1", "function": {"name": "a"}},
        {"function": {"arguments": "{}"}},
        {"id": "2", "function": {"name": "b"}},
    ):
        extend_call(calls, piece)
    assert [(each["name"], each["arguments"]) for each in calls] == [("a", "{}"), ("b", "")]


def test_a_call_at_an_absurd_place_is_no_call() -> None:
    calls: list[dict[str, str]] = []
    extend_call(calls, {"index": 10**9, "function": {"name": "a"}})
    extend_call(calls, {"index": -1, "function": {"name": "a"}})
    assert calls == []


async def test_an_answer_without_its_end_broke_off() -> None:
    with pytest.raises(Cut):
        await gather(events(choice({"content": "Half of"})))
