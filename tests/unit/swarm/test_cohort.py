"""Tests of grouping requests that differ only in the item's name on one card."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import anyio
import anyio.lowlevel

from hotdesk.errors import BriefError
from hotdesk.event import Asked, Decided, ignore
from hotdesk.job.people.wait import Card
from hotdesk.swarm.cohort import Cohorts, RequestShape

RULE = "POST https://erp.example.test/orders/{}"


def ask(item: str, **changes: object) -> Asked:
    question = Asked(
        f"d-{item}", f"q-{item}", f"digest of {item}", RULE.format(item), "POST", "erp.example.test",
        f"/orders/{item}", 60.0, "please", 200,
    )  # fmt: skip
    return replace(question, **changes)  # type: ignore[arg-type]


class Doors:
    """Records the answers."""

    def __init__(self) -> None:
        self.on_question: Callable[[Asked], None] = ignore
        self.gathers = False
        self.answers: dict[str, tuple[bool, str]] = {}

    async def answer(self, number: str, approved: bool, by: str, digest: str = "") -> Asked:
        if number == "q-gone":
            raise BriefError("its desk is gone")
        self.answers[number] = (approved, digest)
        return ask("x")


def test_the_shape_has_everything_but_the_items_name() -> None:
    shape = RequestShape.find(ask("c-1"), "c-1")
    assert shape == RequestShape.find(ask("c-2", size=900), "c-2")
    assert shape.path == "/orders/{item}"
    for change in (
        {"method": "DELETE"}, {"host": "erp.example.test.evil.test"}, {"path": "/orders/c-1/all"}, {"size": 5000},
        {"size": -2}, {"path": "/orders/{item}"}, {"rule": "POST https://erp.example.test/**"},
    ):  # fmt: skip
        assert RequestShape.find(ask("c-1", **change), "c-1").digest != shape.digest


async def test_one_answer_holds_for_all_and_for_nothing_else() -> None:
    doors, cards = Doors(), list[Card]()
    outlier = ask("c-9", host="other.example.test")

    async def decide(card: Card) -> Decided:
        cards.append(card)
        answer = "refused" if "other.example.test" in card.subject else "approved"
        return Decided("job", "p", card.digest, answer, "a person")  # type: ignore[arg-type]

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            cohorts = Cohorts(doors, lambda desk: desk.removeprefix("d-"), decide, tasks)
            for question in (*(ask(f"c-{number}") for number in range(5)), outlier, ask("gone")):
                cohorts.hear(question)
            await anyio.lowlevel.checkpoint()
        async with anyio.create_task_group() as tasks:
            cohorts.tasks = tasks
            cohorts.hear(ask("c-late"))
    assert len(cards) == 2
    assert "6 so far" in cards[0].facts["items"]
    assert doors.answers.pop("q-c-9") == (False, "digest of c-9")
    assert doors.answers == {
        f"q-{item}": (True, f"digest of {item}") for item in ("c-0", "c-1", "c-2", "c-3", "c-4", "c-late")
    }


async def test_an_answer_about_another_digest_approves_nothing() -> None:
    doors = Doors()

    async def decide(card: Card) -> Decided:
        return Decided("job", "p", "another digest", "approved", "a person")

    async with anyio.create_task_group() as tasks:
        Cohorts(doors, lambda desk: desk.removeprefix("d-"), decide, tasks).hear(ask("c-1"))
    assert doors.answers == {"q-c-1": (False, "digest of c-1")}
