"""Read the swarm part of a brief: its items, and the report built from all results."""

from __future__ import annotations

from pathlib import PurePosixPath

from hotdesk.brief import fields
from hotdesk.brief.brief import Deliverable, Each, Reduce
from hotdesk.brief.deliverables import read_deliverables, read_goal
from hotdesk.brief.keys import KEYS, format_example
from hotdesk.brief.limits import MOST_SECONDS, read_image, read_item_budget
from hotdesk.brief.value import BriefValue, is_json_value
from hotdesk.errors import make_printable

PLACEHOLDER = "{item}"
"""Stands for an item's name: in deliverables, in paths of rules, in the goal and in the steps of a plan."""
_LONGEST_COLUMN = 200
_MOST_BATCHED = 1000
_MOST_ATTEMPTS = 5


def read_each(brief: BriefValue, items: tuple[Deliverable, ...]) -> Each | None:
    """Read the items of a brief; None if it is one job."""
    if not brief.has("each"):
        _refuse_placeholder(brief, items)
        return None
    field = brief.get("each")
    field.require_table("each", KEYS["each"], format_example(field, "each.over"))  # type: ignore[arg-type]
    if not field.has("over"):
        raise field.make_error(
            f"[each] has no `over`, which names the items; write {format_example(field, 'each.over')}"
        )
    for place, item in enumerate(items):
        if PLACEHOLDER not in item.path:
            where = brief.get("deliverables").list_items()[place].get("path")
            remedy = where.write("path", f"{PLACEHOLDER}{PurePosixPath(item.path).suffix}")
            raise where.make_error(
                f"every item delivers its own file, so the path must contain the item's name; write {remedy}"
            )
    usual = Each("")
    seconds = fields.read_number(field, "each.seconds", 1, MOST_SECONDS)
    share = fields.read_number(field, "each.quarantine", 0, 1)
    return Each(
        over=_read_over(field.get("over")),
        key=_read_key(field),
        batch=fields.count(field, "each.batch", _MOST_BATCHED) or usual.batch,
        seconds=usual.seconds if seconds is None else float(seconds),
        attempts=fields.count(field, "each.attempts", _MOST_ATTEMPTS) or usual.attempts,
        budget=read_item_budget(field),
        quarantine=usual.quarantine if share is None else float(share),
    )


def read_reduce(brief: BriefValue) -> Reduce | None:
    """Read what is built from the results of all items; None: nothing."""
    if not brief.has("reduce"):
        return None
    field = brief.get("reduce")
    if not brief.has("each"):
        raise field.make_error(
            "[reduce] combines the results of items, but the brief has no items; write "
            f"{format_example(field, 'each.over')}"
        )
    field.require_table("reduce", KEYS["reduce"], format_example(field, "reduce.goal"))  # type: ignore[arg-type]
    for name in ("goal", "deliverables"):
        if not field.has(name):
            raise field.make_error(f"[reduce] has no {name}; write {format_example(field, f'reduce.{name}')}")
    seconds = fields.read_number(field, "reduce.seconds", 1, MOST_SECONDS)
    return Reduce(
        goal=read_goal(field.get("goal")),
        deliverables=read_deliverables(field.get("deliverables")),
        image=read_image(field.get("image", "base")),
        seconds=900.0 if seconds is None else float(seconds),
    )


def _refuse_placeholder(brief: BriefValue, items: tuple[Deliverable, ...]) -> None:
    for place, item in enumerate(items):
        if PLACEHOLDER in item.path:
            where = brief.get("deliverables").list_items()[place].get("path")
            raise where.make_error(
                f"{PLACEHOLDER} stands for the name of an item, but the brief has no items; write "
                f"{format_example(where, 'each.over')}"
            )


def _read_over(field: BriefValue) -> str:
    """Read where the items are: below the brief's folder."""
    path = fields.read_path(field)
    if "**" in path:
        raise field.make_error(
            f"each.over may use `*` within a folder, but not `**`; write {format_example(field, 'each.over')}"
        )
    return path


def _read_key(field: BriefValue) -> str:
    key = field.get("key", "")
    if not isinstance(key.value, str) or not is_json_value(key.value) or len(key.value) > _LONGEST_COLUMN:
        shown = make_printable(str(key.value)[:80])
        raise key.make_error(f"{shown!r} is not a column name; write {format_example(key, 'each.key')}")
    return key.value
