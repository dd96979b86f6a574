"""Tests of scenarios B and C, market research and a filing: each runs as a person would run it, and is judged."""

from __future__ import annotations

import csv
import html
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk.config import Config

pytestmark = [pytest.mark.container, pytest.mark.timeout(300)]
EXAMPLES = Path(__file__).parents[2] / "examples"
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))]


def run(name: str, seed: int, out: Path, settings: Config) -> tuple[str, str]:
    """Run an example that must succeed, and leave nothing; return its output, and the text of its report."""
    home = settings.run.parent
    env = {**os.environ, "HOTDESK_IMAGES": str(settings.images), "TMPDIR": str(home)}
    argv = [sys.executable, str(EXAMPLES / name / "run.py"), "--out", str(out), "--seed", str(seed)]
    done = subprocess.run(argv, env=env, capture_output=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert not list(home.glob(f"hotdesk-{name}-*"))
    return done.stderr.decode(), html.unescape((out / "report.html").read_text())


def reached(told: str) -> set[str]:
    lines = [line.split() for line in told.splitlines() if " x allow " in line]
    return {word for line in lines for word in line if word.endswith(".test")}


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_are_read_out_of_charts_and_become_a_deck(seed: int, settings: Config, tmp_path: Path) -> None:
    told, report = run("research", seed, tmp_path, settings)
    assert "52 numbers were read; all within 2% of their axes" in told
    assert reached(told) == {"meridian.example.test", "harbour.example.test"}
    assert "with harbour-password in form password" in told
    assert "the axis says" in report, "it must have erred once, and mended that"
    for name in ("Market_Research.pptx", "extracted.csv"):
        assert (tmp_path / f"{name}.certificate.json").is_file()
    with (tmp_path / "extracted.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 52


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_a_filing_is_added_to_a_workbook_that_loses_nothing(seed: int, settings: Config, tmp_path: Path) -> None:
    told, report = run("filing", seed, tmp_path, settings)
    assert "the workbook agrees with the books" in told
    assert reached(told) == {"filings.example.test"}
    assert "is no amount" in report, "a footnote must have broken the first parser"
    for name in ("Model.xlsx", "Filing_Summary.pdf"):
        assert (tmp_path / f"{name}.certificate.json").is_file()
