"""A brain that is a script: its functions are the plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.brain.scripted import ScriptedBrain, load_brain
from hotdesk.brain.seam import Hands, Step
from hotdesk.desk.seam import Done
from hotdesk.errors import BriefError, DeskGone

SCRIPT = '''
from hotdesk.desk.seam import Done

NUMBER = 7

async def count(hands):
    """Count it.

    Twice.
    """
    return Done(NUMBER)

async def rest(hands):
    pass

PLAN = (count, rest)
'''
NO_HANDS: Hands = None  # type: ignore[assignment]


async def test_a_script_is_a_plan_and_its_acts(tmp_path: Path) -> None:
    (tmp_path / "brain.py").write_text(SCRIPT)
    brain = load_brain(tmp_path)
    assert brain.plan("count") == (Step("count", "Count it."), Step("rest", "rest"))
    assert (await brain.act(brain.steps[0], NO_HANDS)).exit_code == 7
    assert (await brain.act(brain.steps[1], NO_HANDS)).ok
    assert [file.name for file in tmp_path.iterdir()] == ["brain.py"]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (None, "cannot be loaded"),
        ("def", "cannot be loaded"),
        ("1/0", "broke: ZeroDivisionError"),
        ("", "has no plan; write PLAN"),
        ("PLAN = ()", "has no plan"),
        ("PLAN = (print,)", "has no plan"),
        ("PLAN = 5", "has no plan"),
    ],
)
def test_a_script_without_a_plan_is_refused(tmp_path: Path, script: str | None, why: str) -> None:
    if script is not None:
        (tmp_path / "brain.py").write_text(script)
    with pytest.raises(BriefError, match=why):
        load_brain(tmp_path)


async def test_a_step_that_breaks_is_named_and_a_desk_that_is_gone_stays_one() -> None:
    async def careless(hands: Hands) -> Done:
        raise KeyError("total")

    async def unlucky(hands: Hands) -> Done:
        raise DeskGone("gone")

    brain = ScriptedBrain([careless, unlucky])
    with pytest.raises(BriefError, match="step careless of the brain broke: KeyError"):
        await brain.act(brain.steps[0], NO_HANDS)
    with pytest.raises(DeskGone):
        await brain.act(brain.steps[1], NO_HANDS)
