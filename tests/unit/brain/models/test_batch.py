"""A turn by a batch of one: the same request, the same reply, half the price; later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.providers.anthropic import Anthropic, anthropic_server, text, thinking, tool
from tests.providers.rules import OLD

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
    """Yield a model that is asked by batches, and polled at once; and its server."""
    left = iter(replies)
    with anthropic_server(lambda body: next(left)) as server:
        given = {"base_url": server.base_url, "key": "k", "patience": ONCE, **options}
        model: Any = find("anthropic:claude-sonnet-5?batch", **given)
        model.poll = 0.01
        yield model, server


async def test_turns_are_taken_by_batches_at_half_the_price_and_say_so() -> None:
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


async def test_what_a_batch_is_refused_for_is_left_out_of_the_next() -> None:
    with batching([text("Yes.")]) as (model, server):
        server.rules = replace(OLD, computer=True)
        assert (await model.ask(request())).text == "Yes."
        await model.close()
        assert server.refusals == ["adaptive thinking is not supported on this model"]


async def test_a_batch_that_expired_is_said_to_have() -> None:
    with batching([text("Never.")]) as (model, server):
        server.outcome = "expired"
        with pytest.raises(ModelError, match="its batch was expired"):
            await model.ask(request())
        await model.close()


@pytest.mark.parametrize("name", ["anthropic:?batch", "batch:claude-x"])
def test_a_batch_needs_a_model(name: str) -> None:
    with pytest.raises(BriefError, match="is not a model name"):
        find(name)
