"""Reads the goal, inputs and deliverables of a brief."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path, PurePosixPath

from hotdesk.brief import fields
from hotdesk.brief.brief import DRIVE, ITEM, MEMORY, Deliverable, RequiredCheck, locate_input
from hotdesk.brief.faults import ExpectationError, FindCheck, UnknownOptionError
from hotdesk.brief.keys import KEYS, explain_place, format_example
from hotdesk.brief.value import BriefValue, is_json_value
from hotdesk.errors import BriefError, make_printable

_LONGEST_GOAL = 10_000
_MOST_FILES = 100
"""Maximum inputs or deliverables of one job."""
_MOST_CHECKS = 16
_LONGEST_EXAMPLE = 120
_KIND_SHAPE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_VERSION_SHAPE = re.compile(r"[1-9][0-9]{0,8}")
_OF_CHECK = ("check", "expect")
_OF_DELIVERABLE = ("path", "kind", "check", "expect", "checks", "active")
OTHER = "file"
"""The kind of a file without a suffix."""


def read_goal(field: BriefValue) -> str:
    if (
        not isinstance(field.value, str)
        or not is_json_value(field.value)
        or not 0 < len(field.value.strip()) <= _LONGEST_GOAL
    ):
        raise field.make_error(
            f"goal must be a text of at most {_LONGEST_GOAL} characters, not {field.show()}; write "
            f"{format_example(field, 'goal')}"
        )
    return field.value.strip()


def read_inputs(field: BriefValue, folder: Path) -> tuple[str, ...]:
    """Read the inputs of the job; each must have a different name in the desk."""
    found: dict[str, str] = {}
    for each in fields.read_list(field, "inputs", _MOST_FILES):
        name, written = field.attempt(partial(_read_input, each, folder), ("", ""))
        if name in found:
            field.faults.append(
                each.make_error(f"two inputs have the name {name!r}; list the file once, or rename one")
            )
        elif name:
            found[name] = written
    return tuple(found.values())


def _read_input(field: BriefValue, folder: Path) -> tuple[str, str]:
    return _read_drive_input(field) if field.value.startswith(DRIVE) else _read_file_input(field, folder)


def _read_file_input(field: BriefValue, folder: Path) -> tuple[str, str]:
    """Read the path of a file or folder beside the brief; refuse a link that leaves the brief's folder."""
    path = fields.read_path(
        field, "input", "a path relative to the brief's folder, without '..'; copy the file there and write its name"
    )
    place = folder / path
    if path.startswith(ITEM):
        raise field.make_error(
            f"the input {path!r} must not start with {ITEM!r}, which is reserved for the items of a swarm; rename the "
            "file"
        )
    if not place.is_file() and not place.is_dir():
        raise field.make_error(
            f"the input {path!r} is not a file or a folder next to the brief; copy it there{_suggest_file(place)}"
        )
    if not place.resolve().is_relative_to(folder.resolve()):
        raise field.make_error(
            f"the input {path!r} is a symbolic link to a place outside the brief's folder; copy the file itself into "
            "that folder"
        )
    return path, path


def _suggest_file(place: Path) -> str:
    try:
        beside = [each.name for each in place.parent.iterdir()]
    except OSError:
        return ""
    close = get_close_matches(place.name, beside, n=1)
    return f", or write {make_printable(close[0])!r} if that is what you mean" if close else ""


def _read_drive_input(field: BriefValue) -> tuple[str, str]:
    """Read the name of an input in the drive. The preflight checks that it exists."""
    name, at, version = field.value.removeprefix(DRIVE).partition("@")
    if at and not _VERSION_SHAPE.fullmatch(version):
        raise field.make_error(
            f"{make_printable(version[:80])!r} is not a version number; write the input like '{DRIVE}orders.csv@3'"
        )
    path = fields.read_path(
        replace(field, value=name),
        f"the name after {DRIVE!r}:",
        f"a relative path without '..'; write the input like '{DRIVE}orders.csv'",
    )
    if is_inside(path, MEMORY):
        raise field.make_error(
            f"{path!r} was stored by a worker for later jobs (memory), so no person has reviewed it; to use it as an "
            "input, review it and store it in the drive under another name"
        )
    return path, f"{DRIVE}{path}{at}{version}"


def refuse_memory_paths(brief: BriefValue, inputs: tuple[str, ...], items: tuple[Deliverable, ...]) -> None:
    """Refuse inputs and deliverables below the folder of earlier jobs' files."""
    paths = [("inputs", locate_input(name)) for name in inputs] + [("deliverables", each.path) for each in items]
    for key, path in paths:
        if is_inside(path, MEMORY):
            raise brief.get(key).make_error(
                f"{MEMORY}/ is reserved for files of earlier jobs; give {path!r} another path"
            )


def read_deliverables(field: BriefValue, find_check: FindCheck | None = None) -> tuple[Deliverable, ...]:
    """Read the deliverables; no path may equal another or be inside it."""
    found: list[Deliverable] = []
    for each in fields.read_list(field, "deliverables", _MOST_FILES, "tables", (dict,)):
        one = field.attempt(partial(_read_deliverable, each, find_check), None)
        if one is None:
            continue
        if any(is_inside(one.path, other.path) or is_inside(other.path, one.path) for other in found):
            why = f"two deliverables have the path {one.path!r}; give each its own path"
            field.faults.append(each.get("path").make_error(why))
        found.append(one)
    if not field.value:
        raise field.make_error(f"deliverables is empty; write {format_example(field, 'deliverables')}")
    return tuple(found)


def is_inside(path: str, folder: str) -> bool:
    return PurePosixPath(path).is_relative_to(folder)


def _read_deliverable(item: BriefValue, find_check: FindCheck | None) -> Deliverable | None:
    """Read one deliverable; return `None` if its path is missing."""
    explain = partial(_explain_field, item, find_check)
    item.require_table("a deliverable", _OF_DELIVERABLE, format_example(item, "deliverables"), explain)
    if item.lacks("path", _OF_DELIVERABLE):
        raise item.make_error(f"a deliverable has no path; write {item.write('path', 'report.xlsx')}")
    if not item.has("path"):
        return None
    path = fields.read_path(
        item.get("path"), "deliverable", "a path relative to the desk's home folder; write it like 'out/report.xlsx'"
    )
    suffix = PurePosixPath(path).suffix[1:].lower()
    kind = item.get("kind", suffix if _KIND_SHAPE.fullmatch(suffix) else OTHER)
    if not isinstance(kind.value, str) or not _KIND_SHAPE.fullmatch(kind.value):
        raise kind.make_error(
            f"kind must be one word in lower case, such as a file suffix, not {kind.show()}; write "
            f"{item.write('kind', 'xlsx')}"
        )
    none: tuple[RequiredCheck, ...] = ()
    checks = item.attempt(lambda: _read_checks(item, kind.value, _name_deliverable(path, find_check)), none)
    return Deliverable(path, kind.value, checks, item.attempt(lambda: _read_active(item), ()))


def _explain_field(item: BriefValue, find_check: FindCheck | None, field: BriefValue, key: str) -> str:
    """Return, as the end of an error, where a key belongs that is no field of a deliverable; empty: nowhere."""
    path = item.value.get("path")
    check = item.value.get("check", PurePosixPath(path).suffix[1:].lower() if isinstance(path, str) else None)
    if (
        find_check is None
        or item.has("checks")
        or not isinstance(check, str)
        or not _has_option(find_check, check, key)
    ):
        return explain_place(field, key)
    example = item.write("expect", {key: field.value}) if is_json_value(field.value) else ""
    as_written = f", as {example}" if 0 < len(example) <= _LONGEST_EXAMPLE and not item.has("expect") else ""
    return f"; {key!r} is an option of the check {check}: move it into `expect`{as_written}"


def _has_option(find_check: FindCheck, check: str, key: str) -> bool:
    try:
        find_check(check, {key: None})
    except UnknownOptionError:
        return False
    except ExpectationError:
        return True
    except BriefError:
        return False
    return True


def _name_deliverable(path: str, find_check: FindCheck | None) -> FindCheck | None:
    """Return `find_check` with the deliverable's name added to its errors."""
    if find_check is None:
        return None

    def find(name: str, expect: Mapping[str, object], /) -> object:
        try:
            return find_check(name, expect)
        except BriefError as e:
            text = f"deliverable {path!r}: {e}"
            raise (type(e)(text, e.path) if isinstance(e, ExpectationError) else BriefError(text)) from None

    return find


def _read_active(item: BriefValue) -> tuple[str, ...]:
    active = item.get("active", [])
    names = active.value
    if not isinstance(names, list) or not all(isinstance(each, str) and _KIND_SHAPE.fullmatch(each) for each in names):
        instead = item.write("active", ["macros", "external-links"])
        raise active.make_error(
            f"active must be a list of the kinds of active content the file may have, not {active.show()}; write "
            f"{instead}"
        )
    return tuple(names)


def _read_checks(item: BriefValue, kind: str, find_check: FindCheck | None) -> tuple[RequiredCheck, ...]:
    """Read a deliverable's checks: the listed ones, else the named one, else the default of its type."""
    if item.has("checks"):
        return _read_check_list(item, item.get("checks"), find_check)
    if kind == OTHER and not item.has("check"):
        one, none = item.write("check", "xlsx"), item.write("checks", [])
        raise item.make_error(
            f"{item.value['path']!r} has no check, and its file type has none by default; write {one}, or {none} to "
            "deliver the file unchecked"
        )
    return (_read_check(item, item.get("check", kind), find_check),)


def _read_check_list(item: BriefValue, checks: BriefValue, find_check: FindCheck | None) -> tuple[RequiredCheck, ...]:
    """Read a list of checks, which may be empty."""
    if item.has("check") or item.has("expect"):
        raise checks.make_error(
            "a deliverable with `checks` must not have `check` or `expect` as well; move them into an entry of `checks`"
        )
    instead = item.write("checks", [{"check": "xlsx", "expect": {"rows": 5}}])
    if not isinstance(checks.value, list) or len(checks.value) > _MOST_CHECKS:
        raise checks.make_error(
            f"checks must be a list of at most {_MOST_CHECKS} tables, not {checks.show()}; write {instead}"
        )
    found = [checks.attempt(partial(_read_listed, each, instead, find_check), None) for each in checks.list_items()]
    return tuple(each for each in found if each is not None)


def _read_listed(item: BriefValue, instead: str, find_check: FindCheck | None) -> RequiredCheck | None:
    item.require_table("a check", _OF_CHECK, instead)
    if item.lacks("check", _OF_CHECK):
        raise item.make_error(f"an entry of `checks` has no field `check`; write {item.write('check', 'xlsx')}")
    if not item.has("check"):
        return None
    return _read_check(item, item.get("check"), find_check)


def _read_check(item: BriefValue, check: BriefValue, find_check: FindCheck | None) -> RequiredCheck:
    expect = item.get("expect", {})
    if not isinstance(expect.value, dict):
        raise expect.make_error(
            f"expect must be a table of the check's options, not {expect.show()}; write "
            f"{item.write('expect', {'rows': 5})}"
        )
    for key, value in expect.value.items():
        if not is_json_value(value) or not is_json_value(key):
            raise expect.get(key).make_error(
                f"expect contains {expect.get(key).show()}, which is a date, an invalid number or text that is not "
                "UTF-8; write the value as a text in quotes"
            )
    name = fields.read_name(check, "check", "xlsx")
    if find_check is not None:
        _require_check(find_check, check if item.has("check") else item, name, expect)
    return RequiredCheck(name, expect.value)


def _require_check(find_check: FindCheck, check: BriefValue, name: str, expect: BriefValue) -> None:
    """Refuse a check that does not exist or does not accept its options; the error quotes the option."""
    try:
        find_check(name, expect.value)
    except ExpectationError as e:
        place = expect
        for part in e.path:
            if isinstance(place.value, dict) and part in place.value:
                place = place.get(str(part))
            elif isinstance(place.value, list) and isinstance(part, int) and part < len(place.value):
                place = place.list_items()[part]
            else:
                break  # a missing option has no place
        first, semicolon, remedy = str(e).partition("; ")
        if isinstance(e, UnknownOptionError):
            key = str(e.path[0])
            raise place.make_error(f"{e}{explain_place(place, key) if key in KEYS else ''}") from None
        quoted = f" (the brief has {place.show()})" if e.path and place is not expect else ""
        raise place.make_error(f"{first}{quoted}{semicolon}{remedy}") from None
    except BriefError as e:
        raise check.make_error(str(e)) from None
