"""Tests of the sums of a file beside a workbook."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import hotdesk.checks.inside


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the program as a desk does: its folder is on the path."""
    monkeypatch.syspath_prepend(hotdesk.checks.inside.__path__[0])
    yield import_module("xlsx_sources")
    for name in ("xlsx_sources", "xlsx_raw", "xlsx_colours", "sheet_look"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("text", "number"), [("1,500", 1500), ("12,345,678.5", 12345678.5), ("-1,000", -1000), ("7", 7)]
)
def test_thousands_separators_are_dropped(sources: Any, tmp_path: Path, text: str, number: float) -> None:
    (tmp_path / "a.csv").write_text(f'Amount\n"{text}"\n1\n')
    assert sources.sum_column(str(tmp_path / "a.csv"), "Amount") == {"sum": number + 1, "count": 2}


@pytest.mark.parametrize("text", ["1,5", "1,50", "1,23,456", "1000,000", ",5", "1,000,5", "1.5,000"])
def test_other_commas_are_refused(sources: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(f'Amount\n"{text}"\n1\n')
    assert "thousands" in sources.sum_column(str(tmp_path / "a.csv"), "Amount")["why"]
