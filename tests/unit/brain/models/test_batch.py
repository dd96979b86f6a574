"""Tests of turns sent through the batch API: the same requests and replies at half the price."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest
from tests.providers.anthropic import Anthropic, anthropic_server, text, thinking, tool
from tests.providers.rules import OLD
from tests.providers.server import Body, Refused, Trouble

from hotdesk.brain.models.anthropic_batch import AnthropicBatchModel
from hotdesk.brain.models.client import Patience
from hotdesk.brain.models.names import find
from hotdesk.brain.models.prices import ModelPrice, Prices
from hotdesk.brain.models.seam import ModelRequest, OurMessage, Results
from hotdesk.errors import BriefError, ModelError
from hotdesk.tool import Observation, Tool

LOOK = Tool("look", "Look.")
ONCE = Patience(connect=2, silence=5, retries=0, tries=1, longest=20)
PRICE = Prices({"anthropic:claude-sonnet-5": ModelPrice(1_000_000, 1_000_000, 0.0, 0.0)})


def request(*history: Any) -> ModelRequest:
    return ModelRequest("You work.", [OurMessage("Look."), *history], [LOOK])


@contextmanager
def batching(*replies: Any, **options: Any) -> Iterator[tuple[AnthropicBatchModel, Anthropic]]:
    """Yield a model that uses batches and polls at once, and its server."""
    left = iter(replies)
    with anthropic_server(lambda body: next(left)) as server:
        given = {"base_url": server.base_url, "key": "k", "patience": ONCE, **options}
        model: Any = find("anthropic:claude-sonnet-5?batch", **given)
        model.poll, model.quiet = 0.01, 0.1
        yield model, server


async def test_turns_through_batches_are_recorded_at_half_the_price() -> None:
    told: list[str] = []
    said = ([thinking("Hm."), tool("look", at="x")], [text("Done.")])
    with batching(*said, prices=PRICE, notify=told.append) as (model, server):
        first = await model.ask(request())
        assert (first.thought, first.calls[0].arguments, first.model) == (
            "Hm.", {"at": "x"}, "anthropic:claude-sonnet-5",
        )  # fmt: skip
        assert first.usage.dollars == (first.usage.input + first.usage.output) / 2
        last = await model.ask(request(first, Results(((first.calls[0], Observation("seen")),))))
        assert last.text == "Done."
        await model.close()
        assert server.refusals == []
        assert len(server.batches) == 2
    assert "msgbatch_" in told[0]
    assert "may take up to a day" in told[0]


async def test_a_feature_a_batch_was_refused_for_is_omitted_from_the_next() -> None:
    with batching([text("Yes.")]) as (model, server):
        server.rules = replace(OLD, computer=True)
        assert (await model.ask(request())).text == "Yes."
        await model.close()
        assert server.refusals == ["adaptive thinking is not supported on this model"]


async def test_an_expired_batch_is_reported() -> None:
    with batching([text("Never.")]) as (model, server):
        server.outcome = "expired"
        with pytest.raises(ModelError, match="did not process the request in the batch"):
            await model.ask(request())
        await model.close()


@pytest.mark.parametrize("name", ["anthropic:?batch", "batch:claude-x"])
def test_a_batch_needs_a_model(name: str) -> None:
    with pytest.raises(BriefError, match="is not a model name"):
        find(name)


def numbered(number: int) -> ModelRequest:
    """Make a request that contains a number."""
    return ModelRequest("You work.", [OurMessage(f"Say {number}.")], [LOOK])


@contextmanager
def echoing(**options: Any) -> Iterator[tuple[AnthropicBatchModel, Anthropic]]:
    """Return a model that repeats the number of its request; the provider refuses a request with `13`."""

    def say(body: Body) -> list[Body]:
        word = body["messages"][0]["content"][0]["text"].split()[1]
        if word == "13.":
            raise Refused("13 is an unlucky number")
        return [text(word)]

    with anthropic_server(say) as server:
        model: Any = find(
            "anthropic:claude-sonnet-5?batch", base_url=server.base_url, key="k", patience=ONCE, **options
        )
        model.poll, model.quiet = 0.01, 0.2
        yield model, server


async def ask_all(model: AnthropicBatchModel, numbers: range) -> dict[int, str]:
    """Send requests concurrently; return the answers, and the failures as text."""
    found: dict[int, str] = {}

    async def ask(number: int) -> None:
        try:
            found[number] = (await model.ask(numbered(number))).text
        except ModelError as e:
            found[number] = f"failed: {e}"

    async with anyio.create_task_group() as tasks:
        for number in numbers:
            tasks.start_soon(ask, number)
    await model.close()
    return found


async def test_turns_requested_together_share_a_batch_and_a_refused_one_fails_alone() -> None:
    told: list[str] = []
    with echoing(notify=told.append, prices=PRICE) as (model, server):
        found = await ask_all(model, range(20))
        assert [len(each) for each in server.batches.values()] == [20]
    assert sum("20 replies for this swarm" in each for each in told) == 1
    refused = found.pop(13)
    assert refused.startswith("failed: ")
    assert "unlucky" in refused
    assert found == {number: f"{number}." for number in range(20) if number != 13}


async def test_each_turn_counts_its_own_bytes_and_half_its_price() -> None:
    with echoing(prices=PRICE) as (model, _):
        replies = []

        async def ask(number: int) -> None:
            replies.append(await model.ask(numbered(number)))

        async with anyio.create_task_group() as tasks:
            for number in (1, 200_000):
                tasks.start_soon(ask, number)
        await model.close()
    first, second = sorted(replies, key=lambda reply: reply.usage.up)
    assert second.usage.up - first.usage.up == len("200000") - len("1")
    assert first.usage.dollars == (first.usage.input + first.usage.output) / 2


async def test_a_cancelled_turn_affects_no_other_and_a_batch_without_waiters_is_cancelled() -> None:
    with echoing() as (model, server):
        found: list[str] = []

        async def ask(number: int) -> None:
            found.append((await model.ask(numbered(number))).text)

        async def give_up() -> None:
            with anyio.move_on_after(0.05):  # it was the first, so it waited for all
                await ask(1)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(give_up)
            await anyio.sleep(0.02)
            tasks.start_soon(ask, 2)
            tasks.start_soon(ask, 3)
        assert sorted(found) == ["2.", "3."]
        [batch] = server.batches.values()
        assert len(batch) == 2
        assert server.cancelled == []
        model.poll = 60.0
        async with anyio.create_task_group() as tasks:
            for number in (4, 5):
                tasks.start_soon(ask, number)
            while len(server.batches) < 2 or not model.batch or not model.batch.id:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        assert server.cancelled == list(server.batches)[1:]
        await model.close()


async def test_a_batch_that_is_refused_for_now_is_submitted_again_with_all_its_turns() -> None:
    with echoing() as (model, server):
        model.line.patience = replace(ONCE, retries=2)
        server.trouble.append(Trouble(429, "later", retry_after="0.1"))
        assert await ask_all(model, range(5)) == {number: f"{number}." for number in range(5)}
        assert [len(each) for each in server.batches.values()] == [5]
        assert sum("requests" in json.dumps(list(body)) for body in server.requests) == 2


async def test_a_poll_that_fails_once_loses_no_batch() -> None:
    with echoing() as (model, server):
        server.failing_polls = 2
        assert await ask_all(model, range(3)) == {number: f"{number}." for number in range(3)}
        assert len(server.batches) == 1
        assert server.failing_polls == 0
