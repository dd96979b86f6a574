"""Tests of asking several models: the next one after a failure or a refusal, and a conversation that is too long."""

from __future__ import annotations

import pytest
from tests.unit.brain.stages import Kept, Room, Says, in_turn, step_of, wants

from hotdesk.brain.asking import make_asker
from hotdesk.brain.compaction import estimate_tokens
from hotdesk.brain.loop import Loop
from hotdesk.brain.models.seam import Item, ModelRequest, OurMessage, Reply, RequestTooLongError, Results, TokenUsage
from hotdesk.brain.notes import Notes
from hotdesk.brain.seam import StepOutcome
from hotdesk.errors import ModelError
from hotdesk.tool import Call, Observation

COST = TokenUsage(input=5, output=1, dollars=0.5)
REFUSED = Reply("I  would\nrather not.", calls=(Call("c", "do", {}),), stop="refused", usage=COST, native=({"a": 1},))
EMPTY = ModelRequest("", ())


def ignore(reply: Reply) -> None:
    raise AssertionError("it is used")


def converse(turns: int) -> tuple[Item, ...]:
    items: list[Item] = [OurMessage("Begin.")]
    for turn in range(turns):
        call = Call(f"c{turn}", "look", {"page": turn})
        items += [Reply(calls=(call,)), Results(((call, Observation(f"page {turn} " * 200)),))]
    return tuple(items)


def size(request: ModelRequest) -> int:
    return sum(map(estimate_tokens, request.history))


async def test_after_a_refusal_the_next_model_is_asked_and_the_cost_is_recorded() -> None:
    first, second = in_turn(REFUSED), in_turn(Reply("1", usage=COST), Reply("2", usage=COST))
    unused = list[Reply]()
    ask = make_asker([first, second], unused.append)
    replies = [await ask(EMPTY) for _ in range(2)]
    assert [(each.text, each.usage) for each in replies] == [("1", COST), ("2", COST)]
    assert [(each.calls, each.native, each.usage) for each in unused] == [((), (), COST)]
    assert len(first.asked) == 1


async def test_a_refusal_is_among_the_failures() -> None:
    def fail(request: ModelRequest) -> Reply:
        raise ModelError("it is down")

    unused = list[Reply]()
    with pytest.raises(ModelError, match=r"^test:first refused: I would rather not\.; then it is down$"):
        await make_asker([Says(lambda request: REFUSED, "test:first"), Says(fail)], unused.append)(EMPTY)
    assert [each.usage for each in unused] == [COST]


async def test_no_call_of_a_refused_reply_is_carried_out_and_the_step_fails_at_once() -> None:
    async def do(call: Call) -> Observation:
        raise AssertionError("it was carried out")

    log, room = Kept(), Room(do)
    ask = make_asker([in_turn(REFUSED)], ignore)
    ended = await Loop(step_of(), room, log, ask, 100_000, Notes()).take()
    assert ended == StepOutcome(False, "the model refused: I would rather not.", "the model refused")
    assert [(each.calls, each.native, each.usage) for each in log.thoughts] == [((), (), COST)]


@pytest.mark.parametrize("how", ["error", "reply"])
async def test_a_conversation_that_is_too_long_is_sent_once_more_with_half_of_it(how: str) -> None:
    history = converse(30)
    limit = size(ModelRequest("", history)) // 2

    def say(request: ModelRequest) -> Reply:
        if size(request) <= limit:
            return Reply("Yes.", usage=COST)
        if how == "error":
            raise RequestTooLongError("the prompt is too long")
        return Reply(stop="window", usage=COST)

    model, unused = Says(say), list[Reply]()
    ask = make_asker([model], unused.append)
    assert await ask(ModelRequest("", history)) == Reply("Yes.", usage=COST)
    assert [each.usage for each in unused] == ([] if how == "error" else [COST])
    assert (await ask(ModelRequest("", (*history, *converse(2)[1:])))).text == "Yes."
    assert len(model.asked) == 3
    assert model.asked[2].history[:-4] == model.asked[1].history


async def test_a_first_message_that_is_too_long_is_not_sent_again() -> None:
    def say(request: ModelRequest) -> Reply:
        raise RequestTooLongError("the prompt is too long")

    model = Says(say)
    with pytest.raises(ModelError, match="too long"):
        await make_asker([model], ignore)(ModelRequest("", (OurMessage("x" * 9000),)))
    assert len(model.asked) == 1


async def test_a_reply_that_reached_the_window_goes_on_if_it_has_calls() -> None:
    whole = wants(("look", {}))
    model = in_turn(Reply(calls=whole.calls, stop="window"))
    assert (await make_asker([model], ignore)(EMPTY)).calls == whole.calls


async def test_every_reply_that_is_not_used_is_recorded() -> None:
    second, unused = in_turn(Reply(stop="window", usage=COST), Reply("Yes.", usage=COST)), list[Reply]()
    reply = await make_asker([in_turn(REFUSED), second], unused.append)(ModelRequest("", converse(30)))
    assert reply == Reply("Yes.", usage=COST)
    assert [(each.stop, each.usage) for each in unused] == [("refused", COST), ("window", COST)]
