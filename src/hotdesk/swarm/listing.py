"""The items of a swarm: listed before it starts, and again when items were added beside its brief."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import anyio

from hotdesk.brief.brief import DRIVE, ITEM, Brief, Each
from hotdesk.brief.routing import route_brief
from hotdesk.drive.identity import get_current_user
from hotdesk.drive.keep import Drive
from hotdesk.errors import BriefError
from hotdesk.job.machine import Machine
from hotdesk.swarm.brains import Brains, require_reduce
from hotdesk.swarm.fill import require_fillable
from hotdesk.swarm.items import Item, is_workbook, list_items, list_kept_items
from hotdesk.swarm.workbook import read_workbook


def require_swarm(brief: Brief, brains: Brains) -> None:
    """Raise `BriefError` for a brief that cannot be carried out as a swarm."""
    if brief.each is None:
        raise BriefError("the brief has no items; write [each] with `over`, or carry it out with `hotdesk work`")
    if brief.memory:
        raise BriefError(
            "a swarm cannot use memory, because its items must not see each other's data; leave `memory` out"
        )
    if brief.approve == "every":
        raise BriefError('the steps of a swarm cannot be approved one by one; write approve = "plan"')
    require_fillable(brief)
    require_reduce(brief, brains)


async def find_items(machine: Machine, brief: Brief, job: str) -> tuple[Item, ...]:
    """List the current items. The rows of a workbook are read in a desk behind the brief's wall."""
    assert brief.each is not None
    if brief.each.over.startswith(DRIVE):
        return await anyio.to_thread.run_sync(_list_drive, machine, brief.each)
    if not is_workbook(brief.each):
        return await anyio.to_thread.run_sync(list_items, brief)
    await machine.prepare()
    routed = route_brief(brief, machine.walls, machine.config.verify_wall)
    return list_items(brief, await read_workbook(machine, routed, job))


def _list_drive(machine: Machine, each: Each) -> tuple[Item, ...]:
    """List the files of the drive that the current user may read."""
    if each.batch > 1 or each.key:
        raise BriefError(
            "in [each], `batch` and `key` are for rows and lines of a file, but here each file is an item; remove them"
        )
    return list_kept_items(Drive(machine.config.lib / "drive").ls(who=get_current_user()), each.over)


def make_kind(brief: Brief, items: Sequence[Item]) -> Brief:
    """Return the brief that is planned and approved once for all items; raise `BriefError` if file types differ."""
    names = sorted({item.name for item in items})
    if len(names) > 1:
        raise BriefError(
            f"the items of a swarm must all have the same file type, but `over` in [each] matches files that become "
            f"{', '.join(names)} in the desk; choose a pattern that matches one type"
        )
    goal = (
        f"{brief.goal}\n\nThis is done for many items. Each item has its own worker at its own desk. A worker finds "
        f"its item as {names[0]} in the home folder and sees no other item. {{item}} stands for the item's name."
    )
    return replace(brief, goal=goal, inputs=(*brief.inputs, f"{ITEM}{names[0]}"), each=None, reduce=None, frozen=True)
