"""Readers of field types that parts of a brief share: texts, names, paths, numbers, sizes."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from hotdesk.brief.keys import format_example
from hotdesk.brief.value import BriefValue
from hotdesk.config import GIB, MIB, parse_size
from hotdesk.errors import BriefError, make_printable

MOST_BYTES = 1 << 50
NAME_SHAPE = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def read_list(
    field: BriefValue, key: str, most: int, what: str = "texts", kinds: tuple[type, ...] = (str,)
) -> list[BriefValue]:
    """Return the items of the right type; record the others as faults."""
    if not isinstance(field.value, list) or len(field.value) > most:
        found = f"a list of {len(field.value)}" if isinstance(field.value, list) else field.show()
        raise field.make_error(
            f"{key} must be a list of at most {most} {what}, not {found}; write {format_example(field, key)}"
        )
    right = []
    for each in field.list_items():
        if isinstance(each.value, kinds):
            right.append(each)
        else:
            why = f"{key} must be a list of {what}, but one item is {each.show()}; write {format_example(field, key)}"
            field.faults.append(each.make_error(why))
    return right


def read_name(field: BriefValue, key: str, instead: str) -> str:
    if not isinstance(field.value, str) or not NAME_SHAPE.fullmatch(field.value):
        remedy = field.write(key, instead)
        raise field.make_error(
            f"{key} must be a name of lower-case letters, digits, `_` and `-`, not {field.show()}; write {remedy}"
        )
    return field.value


def read_path(field: BriefValue, what: str, needed: str) -> str:
    """Read a relative path. `what` and `needed` are for errors: the name of the field, and what to write."""
    shown = f"{what} {make_printable(str(field.value)[:80])!r}"
    if not isinstance(field.value, str):
        raise field.make_error(f"{shown} is not a text; write the path in quotes")
    if not field.value.isprintable():
        raise field.make_error(f"{shown} contains control characters; use a name without them")
    found = PurePosixPath(field.value)
    if found.is_absolute() or not found.parts or ".." in found.parts:
        raise field.make_error(f"{shown} must be {needed}")
    return str(found)


def read_number(table: BriefValue, key: str, least: float, most: float) -> float | None:
    """Read a number within bounds from the field that ends `key`; return `None` if it is not set."""
    last = key.rpartition(".")[2]
    field = table.get(last)
    if not table.has(last):
        return None
    if isinstance(field.value, bool) or not isinstance(field.value, int | float) or not least <= field.value <= most:
        raise field.make_error(
            f"{key} must be a number from {least:.15g} to {most:.15g}, not {field.show()}; write "
            f"{format_example(field, key)}"
        )
    return field.value


def count(table: BriefValue, key: str, most: int) -> int | None:
    """Read an integer of at least 1; return `None` if it is not set."""
    found = read_number(table, key, 1, most)
    if isinstance(found, float):
        field = table.get(key.rpartition(".")[2])
        raise field.make_error(f"{key} must be a whole number, not {field.show()}; write {format_example(field, key)}")
    return found


def read_size(table: BriefValue, key: str, default: int, least: int) -> int:
    """Read a size in bytes, also written as `2G`."""
    field = table.get(key.rpartition(".")[2], default)
    try:
        found = parse_size(field.value) if isinstance(field.value, str) else field.value
    except BriefError:
        found = None
    if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= MOST_BYTES:
        bounds = f"{least // MIB}M to {MOST_BYTES // GIB}G"
        raise field.make_error(
            f"{key} must be a size from {bounds}, not {field.show()}; write {format_example(field, key)}"
        )
    return found
