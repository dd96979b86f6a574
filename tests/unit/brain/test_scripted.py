"""Tests of the scripted model: its functions are the plan, and it replies as a model does."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hotdesk.brain.models.scripted import ScriptedModel
from hotdesk.brain.models.seam import Item, ModelRequest, OurMessage, Reply, Results
from hotdesk.brain.seam import PlanningTask
from hotdesk.errors import BriefError, DeskGone, ModelError
from hotdesk.plan import Step
from hotdesk.tool import Call, Observation

TASK = PlanningTask("count", (), (), (), (), (), "")
BEGUN = (OurMessage("begin"),)
SCRIPT = '''
from hotdesk.brain.models.scripted import Failed, Hands, step
from hotdesk.errors import DeskGone

async def count(hands):
    """Count it.

    Twice.
    """
    hands.say("looking")
    one = await hands.use("look", at="a")
    two = await hands.use("look", at=one.text)
    return f"saw {two.text}"

async def both(hands):
    seen = await hands.together(hands.use("look", at="a"), hands.use("look", at="b"))
    done = await hands.run(["ls", seen[0].text], timeout=5)
    await hands.write("made", await hands.read(done.text))

async def lists(hands):
    "List."
    return await hands.run(["ls"])

async def careless(hands):
    raise KeyError("total")

async def forgiving(hands):
    try:
        await hands.read("absent")
    except Failed as e:
        return f"without: {e}"

async def unlucky(hands):
    raise DeskGone("gone")

async def asleep(hands):
    import asyncio
    await asyncio.sleep(1)

async def twice(hands):
    return f"attempt {hands.attempt}"

async def asks(hands):
    answer = await hands.ask("which?")
    await hands.remember(answer)
    told = await hands.amend(reason="more", hosts=["GET https://a.test/"])
    return f"{await hands.recall('which')} {told.ok}"

PLAN = (step(count, files=["in"], makes=["out"], hosts=[], risk="high"), both, lists, careless, forgiving, unlucky,
        asleep, twice, asks)
'''


@pytest.fixture
def model(tmp_path: Path) -> ScriptedModel:
    (tmp_path / "script.py").write_text(SCRIPT)
    return ScriptedModel.read(tmp_path / "script.py")


async def ask(model: ScriptedModel, step: str, *history: Item, attempt: int = 1) -> Reply:
    return await model.ask(ModelRequest("", [*BEGUN, *history], step=step, attempt=attempt))


def answered(reply: Reply, *texts: str, ok: bool = True) -> tuple[Item, Item]:
    seen = [(call, Observation(text, ok)) for call, text in zip(reply.calls, texts, strict=True)]
    return reply, Results(tuple(seen))


def wanted(reply: Reply) -> list[tuple[str, object]]:
    return [(call.tool, call.arguments) for call in reply.calls]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def done(code: int, stdout: bytes = b"", stderr: bytes = b"") -> str:
    """Write a program's result as `exact_run` does."""
    told = {"exit_code": code, "stdout": encoded(stdout), "stderr": encoded(stderr)}
    return json.dumps({**told, "timed_out": False, "truncated": False, "reason": ""})


def test_a_script_is_a_plan_and_leaves_no_file_beside_itself(model: ScriptedModel, tmp_path: Path) -> None:
    plan = model.provide_plan(TASK)
    assert plan.steps[:2] == (
        Step("count", "Count it.", hosts=(), files=("in",), makes=("out",), risk="high"),
        Step("both", "both"),
    )
    assert [file.name for file in tmp_path.iterdir()] == ["script.py"]
    assert model.source == SCRIPT.encode()
    assert model.name.startswith("written script ")
    assert len(model.name.split()[-1]) == 12
    assert ScriptedModel(model.source, model.path).provide_plan(TASK) == plan


async def test_a_step_is_run_from_wish_to_wish(model: ScriptedModel) -> None:
    first = await ask(model, "count")
    assert (first.text, first.stop, wanted(first)) == ("looking", "calls", [("look", {"at": "a"})])
    history = answered(first, "b")
    second = await ask(model, "count", *history)
    assert (second.text, wanted(second)) == ("", [("look", {"at": "b"})])
    last = await ask(model, "count", *history, *answered(second, "c"))
    assert wanted(last) == [("finish", {"summary": "saw c"})]
    assert len({call.id for reply in (first, second, last) for call in reply.calls}) == 3


async def test_concurrent_uses_are_one_reply_and_results_are_exact(model: ScriptedModel) -> None:
    history: list[Item] = []
    for texts, then in [
        (("x", "y"), [("exact_run", {"argv": ["ls", "x"], "timeout": 5})]),
        ((done(0, b"file"),), [("exact_read", {"path": "file"})]),
        ((json.dumps({"data": encoded(b"\0\xff")}),), [("exact_write", {"path": "made", "data": encoded(b"\0\xff")})]),
        ((json.dumps({"size": 2}),), [("finish", {"summary": "both"})]),
    ]:
        history += answered(await ask(model, "both", *history), *texts)
        assert wanted(await ask(model, "both", *history)) == then


@pytest.mark.parametrize(
    ("code", "then"),
    [
        (0, ("finish", {"summary": "List."})),
        (2, ("give_up", {"why": "exit code 2: no such folder"})),
    ],
)
async def test_a_program_that_is_given_back_says_how_the_step_ended(
    model: ScriptedModel, code: int, then: tuple[str, object]
) -> None:
    first = await ask(model, "lists")
    last = await ask(model, "lists", *answered(first, done(code, b"", b"see:\nno such folder\n")))
    assert wanted(last) == [then]


async def test_a_step_that_raises_gives_up_and_our_own_errors_pass(model: ScriptedModel) -> None:
    assert wanted(await ask(model, "careless")) == [("give_up", {"why": "KeyError: 'total'"})]
    with pytest.raises(DeskGone):
        await ask(model, "unlucky")
    with pytest.raises(BriefError, match="step asleep of the script awaits something that is not"):
        await ask(model, "asleep")
    with pytest.raises(ModelError, match="has no step 'absent'"):
        await ask(model, "absent")


async def test_a_tools_failure_can_be_caught(model: ScriptedModel) -> None:
    first = await ask(model, "forgiving")
    last = await ask(model, "forgiving", *answered(first, "exact_read failed: missing", ok=False))
    assert wanted(last) == [("finish", {"summary": "without: exact_read failed: missing"})]


async def test_people_and_notes_are_calls_too(model: ScriptedModel) -> None:
    history: list[Item] = []
    calls = []
    for text, ok in [("that one", True), ("", True), ("no", False), ("that one", True)]:
        reply = await ask(model, "asks", *history)
        calls += wanted(reply)
        history += answered(reply, text, ok=ok)
    assert calls == [
        ("ask_person", {"question": "which?"}),
        ("remember", {"text": "that one"}),
        ("amend_plan", {"reason": "more", "hosts": ["GET https://a.test/"]}),
        ("recall", {"query": "which"}),
    ]
    assert wanted(await ask(model, "asks", *history)) == [("finish", {"summary": "that one False"})]


async def test_a_restarted_step_knows_which_attempt_it_is(model: ScriptedModel) -> None:
    first = await ask(model, "count")
    await ask(model, "count", *answered(first, "b"))
    assert wanted(await ask(model, "count")) == [("look", {"at": "a"})]
    assert wanted(await ask(model, "twice", attempt=2)) == [("finish", {"summary": "attempt 2"})]


async def test_another_process_continues_during_a_step(model: ScriptedModel) -> None:
    first = await ask(model, "count")
    history = (*answered(first, "b"), OurMessage("hurry"))
    other = ScriptedModel(model.source, model.path)
    second = await ask(other, "count", *history)
    assert second == await ask(model, "count", *history)
    assert wanted(await ask(other, "count", *history, *answered(second, "c"))) == [("finish", {"summary": "saw c"})]


def other_tool(call: Call) -> Call:
    return Call(call.id, "listen", call.arguments)


def other_arguments(call: Call) -> Call:
    return Call(call.id, call.tool, {"at": "z"})


@pytest.mark.parametrize("change", [other_tool, other_arguments])
async def test_a_script_that_no_longer_does_what_it_did_is_reported(
    model: ScriptedModel, change: Callable[[Call], Call]
) -> None:
    calls = [change(call) for call in (await ask(model, "count")).calls]
    other = ScriptedModel(model.source, model.path)
    with pytest.raises(ModelError, match="the script made other calls than before"):
        await ask(other, "count", *turn(calls))


def turn(calls: Sequence[Call]) -> tuple[Item, Item]:
    return Reply(calls=tuple(calls)), Results(tuple((call, Observation("b")) for call in calls))


async def test_a_finish_that_keeps_being_refused_gives_the_step_up(model: ScriptedModel) -> None:
    first = await ask(model, "twice")
    refused = answered(first, "out is not there", ok=False)
    for asked in (model, ScriptedModel(model.source, model.path)):
        assert wanted(await ask(asked, "twice", *refused)) == [("give_up", {"why": "out is not there"})]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (None, "cannot be loaded"),
        ("def", "cannot be loaded"),
        ("1/0", "failed: ZeroDivisionError"),
        ("", "has no valid PLAN; write PLAN"),
        ("PLAN = ()", "has no valid PLAN"),
        ("PLAN = (print,)", "has no valid PLAN"),
        ("PLAN = 5", "has no valid PLAN"),
        ("async def a(hands): pass\nPLAN = (a, a)", "has no valid PLAN"),
        (
            "from hotdesk.brain.models.scripted import step\nasync def a(hands): pass\nPLAN = (step(a, host=[]),)",
            r"step\(\) has no option 'host'; its options are intent, tools, hosts",
        ),
    ],
)
def test_a_script_without_a_plan_is_refused(tmp_path: Path, script: str | None, why: str) -> None:
    if script is not None:
        (tmp_path / "script.py").write_text(script)
    with pytest.raises(BriefError, match=why):
        ScriptedModel.read(tmp_path / "script.py")


async def test_closing_breaks_a_step_off_and_twice_is_no_error(model: ScriptedModel) -> None:
    await ask(model, "count")
    await model.close()
    await model.close()
