"""Tests of the documentation: every link works, and every design page is listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import docs


def test_every_link_of_the_documentation_works() -> None:
    assert list(docs.broken_links()) == []


@pytest.mark.parametrize(
    ("target", "reason"),
    [("gone.md", "is no file"), ("README.md#nothing", "no such heading"), ("docs", "is no file")],
)
def test_a_broken_link_is_named(tmp_path: Path, target: str, reason: str) -> None:
    for name in docs.TOP:
        (tmp_path / name).write_text("# Title\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(f"See [there](../{target}) and [here](../README.md#title).\n")
    assert list(docs.broken_links(tmp_path)) == [
        f"docs/page.md: ../{target}" + (": " if "#" in target else " ") + reason
    ]


def test_every_design_page_is_listed() -> None:
    folder = docs.ROOT / "docs" / "design"
    listed = docs.LINK.findall((folder / "README.md").read_text())
    assert listed == sorted(path.name for path in folder.glob("0*.md"))


def test_the_navigation_has_every_guide() -> None:
    named = {
        target
        for section in docs.navigation()[1:]
        for entries in section.values()
        for e in entries
        for target in e.values()
    }
    assert {path.relative_to(docs.ROOT).as_posix() for path in (docs.ROOT / "docs" / "guide").glob("*.md")} <= named


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Memory across jobs", "memory-across-jobs"),
        ("`hotdesk serve`, TLS & logs", "hotdesk-serve-tls--logs"),
        ("What is *not* promised", "what-is-not-promised"),
    ],
)
def test_an_anchor_is_the_one_of_its_heading(heading: str, anchor: str) -> None:
    assert docs.slug(heading) == anchor
