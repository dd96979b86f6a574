"""Tests of a swarm's models: recorded and replayed by item, in shared batches, with a cost forecast from the pilot."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.providers.anthropic import Anthropic
from tests.providers.behind import Asked, behind
from tests.providers.server import Refused
from tests.swarm_room import SwarmRoom

from hotdesk.brain.models.names import find
from hotdesk.brain.models.prices import ModelPrice, Prices
from hotdesk.brain.models.record import open_to_append, read_parts
from hotdesk.brain.models.seam import Reply
from hotdesk.event import Decided, Pending, PilotEnded
from hotdesk.job.people.wait import Card, decide
from hotdesk.job.record import papers
from hotdesk.swarm.brains import ModelBrains, ReplayBrains
from hotdesk.tool import Call

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
WORDS = ["one", "three", "wrong", "eleven"]
MODEL = "anthropic:claude-sonnet-5"
PRICES = Prices({MODEL: ModelPrice(3.0, 15.0, 0.3, 3.75)})


def count(asked: Asked) -> Reply:
    """Count the letters of one word, or add up those of all; the first answer for `wrong` is none that passes."""
    report = "Add up the letters." in asked.system
    if not asked.turns:
        return Reply(
            "I look.", calls=(Call("", "run", {"command": f"cat {'results.jsonl' if report else 'item.txt'}"}),)
        )
    if asked.turns > 1:
        return Reply("It is done.", calls=(Call("", "finish", {"summary": "done"}),))
    seen = asked.results[0].partition("\n[exit code")[0].strip()
    if report:
        texts = [file["text"] for line in seen.splitlines() for file in json.loads(line)["files"].values()]
        name, data = "total.json", {"total": sum(json.loads(text)["letters"] for text in texts)}
    else:
        found = re.search(r"line-\d+", asked.system)
        assert found is not None
        is_wrong = seen == "wrong" and "Attempt 2" not in asked.told[0]
        name, data = f"{found[0]}.json", {"letters": "many" if is_wrong else len(seen)}
    text = json.dumps(data)
    return Reply("I write.", calls=(Call("", "file_create", {"path": name, "content": text, "overwrite": True}),))


async def test_a_recorded_swarm_is_repeated_in_another_order_with_nobody_asked(tmp_path: Path) -> None:
    file = tmp_path / "swarm.jsonl"
    (first := tmp_path / "first").mkdir()
    with behind("anthropic", count) as provider:
        model = find(MODEL, base_url=provider.base_url, key="k", prices=PRICES)
        brains = ModelBrains([model], [model], record=open_to_append(file))
        recorded = await SwarmRoom(first, WORDS, brains=brains).carry_out()
        await brains.close()
    assert (recorded.outcome, recorded.done) == ("done", 4), recorded
    assert recorded.dollars > 0
    assert sorted(read_parts(file)) == [*(f"item line-00000{number}" for number in range(1, 5)), "report"]
    (second := tmp_path / "second").mkdir()
    again = SwarmRoom(second, WORDS, brains=ReplayBrains.read(file))
    repeated = await again.carry_out(most=1)
    assert (repeated.outcome, repeated.done, repeated.dollars) == ("done", 4, 0.0), repeated


async def test_a_swarm_pauses_where_no_model_answers_for_its_report_and_goes_on(tmp_path: Path) -> None:
    answers = False

    def refuse_report(asked: Asked) -> Reply:
        if "Add up the letters." in asked.system and not answers:
            raise Refused("not now")
        return count(asked)

    with behind("anthropic", refuse_report) as provider:
        model = find(MODEL, base_url=provider.base_url, key="k")
        room = SwarmRoom(tmp_path, ["one"], brains=ModelBrains([model], [model]))
        paused = await room.carry_out()
        answers = True
        done = await room.carry_out()
        await model.close()
    assert (paused.outcome, paused.done) == ("paused", 1)
    assert "the report is not written yet" in paused.why
    assert (done.outcome, done.done) == ("done", 1), done.why


@pytest.mark.long
async def test_turns_of_many_items_share_batches_at_half_the_price(tmp_path: Path) -> None:
    prices: list[float] = []
    with behind("anthropic", count) as provider:
        assert isinstance(provider, Anthropic)
        for name in (MODEL, f"{MODEL}?batch"):
            (folder := tmp_path / str(len(prices))).mkdir()
            model: Any = find(name, base_url=provider.base_url, key="k", prices=PRICES)
            model.poll, model.quiet = 0.01, 0.5
            brains = ModelBrains([model], [model])
            receipt = await SwarmRoom(folder, [f"word{n}" for n in range(12)], brains=brains).carry_out(most=12)
            await brains.close()
            assert (receipt.outcome, receipt.done) == ("done", 12), receipt
            prices.append(receipt.dollars)
        sizes = [len(batch) for batch in provider.batches.values()]
    assert sum(sizes) >= 36
    assert len(sizes) < 24, f"each turn had a batch of its own: {sizes}"
    assert max(sizes) > 2
    assert prices[1] < 0.65 * prices[0]


@pytest.mark.long
async def test_a_pilot_foretells_the_cost_of_all_items_within_a_fifth(tmp_path: Path) -> None:
    cards: list[Card] = []

    async def answer(pending: Pending, card: Card) -> Decided:
        cards.append(card)
        return decide(pending, card, papers.find(room.settings.lib / "jobs", room.job), "approved", "a person")

    words = ["x" * (1 + n * 37 % 400) for n in range(40)]
    with behind("anthropic", count) as provider:
        model = find(MODEL, base_url=provider.base_url, key="k", prices=PRICES)
        room = SwarmRoom(tmp_path, words, brains=ModelBrains([model], [model]))
        receipt = await room.carry_out(pilot=5, prompt=answer)
        await model.close()
    assert (receipt.outcome, receipt.done) == ("done", 40), receipt
    [pilot] = [event for event in room.events if isinstance(event, PilotEnded)]
    assert len(pilot.items) == 5
    assert receipt.dollars > 0
    assert pilot.dollars == pytest.approx(receipt.dollars, rel=0.2)
    assert pilot.tokens == pytest.approx(receipt.tokens, rel=0.2)
    assert f"${pilot.dollars:,.2f}" in dict(cards[0].facts)["forecast for all"]
