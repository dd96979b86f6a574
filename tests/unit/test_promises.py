"""Tests of SECURITY.md: the files it names exist, and the exceptions of a wall are those of its traits."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from hotdesk.walls import TRAITS, Traits

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text()
EXCEPTIONS: dict[str, tuple[str, ...]] = {
    "is_boundary": (),
    "can_keep_memory": (),
    "can_stop_programs": ("programs are stopped during a takeover",),
    "can_resize": ("memory and processors of a desk in the pool",),
    "survives_exhaustion": ("out of memory or processes",),
    "can_dial": ("connections to a port of the desk",),
    "counts_programs": (
        "processes that a verified file leaves running",
        "connection attempts of a file that is opened",
    ),
    "can_equip_spares": ("root and a door for a desk in the pool",),
    "can_mount_volumes": ("volumes",),
}
"""The rows of a wall's table that follow from a trait it does not have; none for what every such wall has."""


def list_rows(wall: str) -> list[str]:
    """List the first cells of the table whose last column is a wall."""
    _, _, table = PAGE.partition(f" | `{wall}` |\n")
    return [line.split(" | ")[0].removeprefix("| ") for line in table.partition("\n\n")[0].splitlines()]


def test_every_trait_has_its_rows() -> None:
    flags = {each.name for each in fields(Traits) if each.type == "bool"}
    assert set(EXCEPTIONS) == flags


@pytest.mark.parametrize("wall", ["gvisor", "microvm"])
@pytest.mark.parametrize("trait", EXCEPTIONS)
def test_what_a_wall_lacks_is_among_its_exceptions(wall: str, trait: str) -> None:
    rows = list_rows(wall)
    assert len(rows) > 5
    if not getattr(TRAITS[wall], trait):
        assert EXCEPTIONS[trait], f"{wall} lacks {trait}, and SECURITY.md has no row for it"
        assert set(EXCEPTIONS[trait]) <= set(rows)


def test_every_file_is_where_the_page_names_it() -> None:
    named = set(re.findall(r"`((?:[\w-]+/)*[\w.-]+\.py|tests/[\w/-]+/)`", PAGE))
    assert len(named) > 80
    places = {each: find_place(each) for each in named}
    assert [each for each, place in places.items() if not place.exists()] == []


def find_place(name: str) -> Path:
    if name.startswith("tests/"):
        return ROOT / name
    return ROOT / ("src/hotdesk" if "/" in name else "tests/security") / name
