"""Reads the swarm part of a brief: its items, and the report built from all results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import cast

from hotdesk.brief import fields
from hotdesk.brief.brief import Deliverable, Each, Reduce
from hotdesk.brief.deliverables import read_deliverables, read_goal
from hotdesk.brief.faults import FindCheck
from hotdesk.brief.keys import KEYS, explain_place, format_example
from hotdesk.brief.limits import MOST_SECONDS, read_image, read_item_budget
from hotdesk.brief.value import BriefValue, is_json_value
from hotdesk.errors import make_printable

PLACEHOLDER = "{item}"
"""Stands for an item's name in deliverables, rule paths, the goal and the steps of a plan."""
_OF_EACH = tuple(cast(Mapping[str, object], KEYS["each"]))
_OF_REDUCE = tuple(cast(Mapping[str, object], KEYS["reduce"]))
_LONGEST_COLUMN = 200
_MOST_BATCHED = 1000
_MOST_ATTEMPTS = 5


def read_each(brief: BriefValue) -> Each | None:
    """Read the items of a brief; return `None` for a single job."""
    if not brief.has("each"):
        _refuse_placeholder(brief)
        return None
    field = brief.get("each")
    field.require_table("each", _OF_EACH, format_example(field, "each.over"), explain_place)
    for path in _list_paths(brief):
        if PLACEHOLDER not in path.value:
            remedy = path.write("path", f"{PLACEHOLDER}{PurePosixPath(path.value).suffix}")
            why = f"every item delivers its own file, so path must contain {PLACEHOLDER}, not only {path.show()}"
            brief.faults.append(path.make_error(f"{why}; write {remedy}"))
    if field.lacks("over", _OF_EACH):
        why = f"[each] has no `over`, which names the items; write {format_example(field, 'each.over')}"
        field.faults.append(field.make_error(why))
    attempt, usual = field.attempt, Each("")
    seconds = attempt(lambda: fields.read_number(field, "each.seconds", 1, MOST_SECONDS), None)
    share = attempt(lambda: fields.read_number(field, "each.quarantine", 0, 1), None)
    return Each(
        over=attempt(lambda: _read_over(field.get("over")), "") if field.has("over") else "",
        key=attempt(lambda: _read_key(field), ""),
        batch=attempt(lambda: fields.count(field, "each.batch", _MOST_BATCHED), None) or usual.batch,
        seconds=usual.seconds if seconds is None else float(seconds),
        attempts=attempt(lambda: fields.count(field, "each.attempts", _MOST_ATTEMPTS), None) or usual.attempts,
        budget=read_item_budget(field),
        quarantine=usual.quarantine if share is None else float(share),
    )


def _list_paths(brief: BriefValue) -> list[BriefValue]:
    """List the paths of the deliverables that are texts."""
    items = brief.get("deliverables")
    if not isinstance(items.value, list):
        return []
    paths = [item.get("path") for item in items.list_items() if isinstance(item.value, dict)]
    return [path for path in paths if isinstance(path.value, str)]


def read_reduce(brief: BriefValue, find_check: FindCheck | None = None) -> Reduce | None:
    """Read the report that is built from all results; return `None` if there is none."""
    if not brief.has("reduce"):
        return None
    field = brief.get("reduce")
    if not brief.has("each"):
        raise field.make_error(
            "[reduce] combines the results of items, but the brief has no items; write "
            f"{format_example(field, 'each.over')}"
        )
    field.require_table("reduce", _OF_REDUCE, format_example(field, "reduce.goal"), explain_place)
    for name in ("goal", "deliverables"):
        if field.lacks(name, _OF_REDUCE):
            why = f"[reduce] has no {name}; write {format_example(field, f'reduce.{name}')}"
            field.faults.append(field.make_error(why))
    attempt = field.attempt
    seconds = attempt(lambda: fields.read_number(field, "reduce.seconds", 1, MOST_SECONDS), None)
    items: tuple[Deliverable, ...] = ()
    if field.has("deliverables"):
        items = attempt(lambda: read_deliverables(field.get("deliverables"), find_check), ())
    return Reduce(
        goal=attempt(lambda: read_goal(field.get("goal")), "") if field.has("goal") else "",
        deliverables=items,
        image=attempt(lambda: read_image(field.get("image", "base")), ""),
        seconds=900.0 if seconds is None else float(seconds),
    )


def _refuse_placeholder(brief: BriefValue) -> None:
    for path in _list_paths(brief):
        if PLACEHOLDER in path.value:
            why = f"{PLACEHOLDER} stands for the name of an item, but the brief has no items; write "
            brief.faults.append(path.make_error(f"{why}{format_example(path, 'each.over')}"))


def _read_over(field: BriefValue) -> str:
    """Read the location of the items, below the brief's folder."""
    path = fields.read_path(
        field, "each.over", f"a path relative to the brief's folder; write {format_example(field, 'each.over')}"
    )
    if "**" in path:
        raise field.make_error(
            f"each.over may use `*` within a folder, but not `**`; write {format_example(field, 'each.over')}"
        )
    return path


def _read_key(field: BriefValue) -> str:
    key = field.get("key", "")
    if not isinstance(key.value, str) or not is_json_value(key.value) or len(key.value) > _LONGEST_COLUMN:
        shown = make_printable(str(key.value)[:80])
        raise key.make_error(
            f"each.key must be a column name of at most {_LONGEST_COLUMN} characters, not {shown!r}; write "
            f"{format_example(key, 'each.key')}"
        )
    return key.value
