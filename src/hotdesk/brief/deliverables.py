"""What a brief asks for, and what it begins with."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path, PurePosixPath

from hotdesk.brief import fields
from hotdesk.brief.brief import DRIVE, Deliverable, RequiredCheck
from hotdesk.brief.keys import example
from hotdesk.brief.value import BriefValue, plain
from hotdesk.errors import printable

LONGEST_GOAL = 10_000
MOST_FILES = 100
"""Inputs or deliverables of one job."""
MOST_CHECKS = 16
KIND_SHAPE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
VERSION_SHAPE = re.compile(r"[1-9][0-9]{0,8}")
OF_DELIVERABLE = ("path", "kind", "check", "expect", "checks", "active")
OTHER = "file"
"""The kind of what has no suffix."""


def read_goal(told: BriefValue) -> str:
    """Read what is wanted."""
    if not isinstance(told.held, str) or not plain(told.held) or not 0 < len(told.held.strip()) <= LONGEST_GOAL:
        raise told.wrong(f"the goal is no text of at most {LONGEST_GOAL} characters; write {example(told, 'goal')}")
    return told.held.strip()


def read_inputs(told: BriefValue, folder: Path) -> tuple[str, ...]:
    """Read what the job begins with; each has a name of its own in the desk."""
    found: dict[str, str] = {}
    for each in fields.listed(told, "inputs", MOST_FILES):
        name, written = drive_input(each) if each.held.startswith(DRIVE) else file_input(each, folder)
        if name in found:
            raise each.wrong(f"two inputs are called {name!r}; name each once")
        found[name] = written
    return tuple(found.values())


def file_input(told: BriefValue, folder: Path) -> tuple[str, str]:
    """Read the name of a file or folder beside the brief, which no link leads away from there."""
    path = fields.path(told)
    place = folder / path
    if not place.is_file() and not place.is_dir():
        raise told.wrong(f"the input {path!r} is not there; it must lie beside the brief, a file or a folder")
    if not place.resolve().is_relative_to(folder.resolve()):
        raise told.wrong(f"the input {path!r} is a link to somewhere else; copy it beside the brief")
    return path, path


def drive_input(told: BriefValue) -> tuple[str, str]:
    """Read a name of the drive's; whether it is there is the drive's to say."""
    name, at, version = told.held.removeprefix(DRIVE).partition("@")
    if at and not VERSION_SHAPE.fullmatch(version):
        raise told.wrong(f"{printable(version[:80])!r} is no version; write it like '{DRIVE}orders.csv@3'")
    path = fields.path(replace(told, held=name))
    return path, f"{DRIVE}{path}{at}{version}"


def read_deliverables(told: BriefValue) -> tuple[Deliverable, ...]:
    """Read the files that are wanted; none lies where another is, or inside it."""
    found: list[Deliverable] = []
    for each in fields.listed(told, "deliverables", MOST_FILES, "tables", (dict,)):
        one = read_deliverable(each)
        if any(inside(one.path, other.path) or inside(other.path, one.path) for other in found):
            raise each.get("path").wrong(f"two deliverables are at {one.path!r}; give each a path of its own")
        found.append(one)
    if not found:
        raise told.wrong(f"deliverables is empty; write {example(told, 'deliverables')}")
    return tuple(found)


def inside(path: str, folder: str) -> bool:
    """Say whether a path is another, or below it."""
    return PurePosixPath(path).is_relative_to(folder)


def read_deliverable(told: BriefValue) -> Deliverable:
    """Read one file that is wanted."""
    told.table("a deliverable", OF_DELIVERABLE, example(told, "deliverables"))
    if not told.has("path"):
        raise told.wrong(f"a deliverable has no path; write {told.write('path', 'report.xlsx')}")
    path = fields.path(told.get("path"))
    suffix = PurePosixPath(path).suffix[1:].lower()
    kind = told.get("kind", suffix if KIND_SHAPE.fullmatch(suffix) else OTHER)
    if not isinstance(kind.held, str) or not KIND_SHAPE.fullmatch(kind.held):
        raise kind.wrong(f"kind is no word such as a suffix; write {told.write('kind', 'xlsx')}")
    return Deliverable(path, kind.held, read_checks(told, kind.held), read_active(told))


def read_active(told: BriefValue) -> tuple[str, ...]:
    """Read what a deliverable may do beyond being read."""
    active = told.get("active", [])
    held = active.held
    if not isinstance(held, list) or not all(isinstance(each, str) and KIND_SHAPE.fullmatch(each) for each in held):
        instead = told.write("active", ["macros", "external-links"])
        raise active.wrong(f"active is no list of what the file may do beyond being read; write {instead}")
    return tuple(held)


def read_checks(told: BriefValue, kind: str) -> tuple[RequiredCheck, ...]:
    """Read what it must pass: what is listed; else the one that is named, or that has the name of its kind."""
    if told.has("checks"):
        return several_checks(told, told.get("checks"))
    if kind == OTHER and not told.has("check"):
        one, none = told.write("check", "xlsx"), told.write("checks", [])
        raise told.wrong(f"nothing says how {told.held['path']!r} is checked; write {one}, or {none} for not at all")
    return (read_check(told, told.get("check", kind)),)


def several_checks(told: BriefValue, checks: BriefValue) -> tuple[RequiredCheck, ...]:
    """Read a list of checks; an empty one is meant so."""
    if told.has("check") or told.has("expect"):
        raise checks.wrong("a deliverable has checks, or check and expect, not both; move those into checks")
    instead = told.write("checks", [{"check": "xlsx", "expect": {"rows": 5}}])
    if not isinstance(checks.held, list) or len(checks.held) > MOST_CHECKS:
        raise checks.wrong(f"checks is no list of at most {MOST_CHECKS} tables; write {instead}")
    for each in checks.each():
        each.table("a check", ("check", "expect"), instead)
    return tuple(read_check(each, each.get("check")) for each in checks.each())


def read_check(told: BriefValue, check: BriefValue) -> RequiredCheck:
    """Read one check and what it shall find."""
    expect = told.get("expect", {})
    if not isinstance(expect.held, dict):
        raise expect.wrong(
            f"expect is no table of what the check shall find; write {told.write('expect', {'rows': 5})}"
        )
    for key, value in expect.held.items():
        if not plain(value) or not plain(key):
            raise expect.get(key).wrong("expect holds a date, no number, or no text in UTF-8; write it as a text")
    return RequiredCheck(fields.name(check, "check", "xlsx"), expect.held)
