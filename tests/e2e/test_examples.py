"""Tests of the examples that work at a screen: each runs as a person would run it, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from examples.legacy import records

from hotdesk.config import Config

pytestmark = pytest.mark.container
EXAMPLES = Path(__file__).parents[2] / "examples"
PNG = b"\x89PNG\r\n\x1a\n"
LONG = pytest.mark.long


def run(name: str, seed: int, out: Path, settings: Config) -> subprocess.CompletedProcess[bytes]:
    """Run an example; check that its state directory is gone."""
    home = settings.run.parent
    env = {**os.environ, "HOTDESK_IMAGES": str(settings.images), "TMPDIR": str(home)}
    argv = [sys.executable, str(EXAMPLES / name / "run.py"), "--out", str(out), "--seed", str(seed)]
    done = subprocess.run(argv, env=env, capture_output=True, timeout=110, check=False)
    assert not list(home.glob(f"hotdesk-{name}-*"))
    return done


def pictures(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.read_bytes().startswith(PNG)}


def test_every_claim_of_the_one_minute_demo_is_true(settings: Config) -> None:
    home = settings.run.parent
    env = {**os.environ, "HOTDESK_IMAGES": str(settings.images), "TMPDIR": str(home)}
    argv = [sys.executable, str(EXAMPLES / "demo-desk/demo.py")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=110, check=False)
    assert "every claim is true" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
    assert not list(home.glob("hotdesk-demo-*"))


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_table_is_carried_from_one_site_to_another(seed: int, settings: Config, tmp_path: Path) -> None:
    (tmp_path / "Sums.xlsx").write_text("what an earlier run left")
    done = run("transfer", seed, tmp_path, settings)
    told = done.stderr.decode()
    assert done.returncode == 0, told
    assert "as the shop has it" in told
    reached = {line.split()[-1] for line in told.splitlines() if " x allow " in line}
    assert reached == {"shop.example.test", "board.example.test"}
    assert pictures(tmp_path) == {"dashboard.png"}
    assert (tmp_path / "Sums.xlsx").read_bytes()[:2] == b"PK"
    report = (tmp_path / "report.html").read_text()
    assert "not from a model" in report
    assert report.count("<img ") >= 1
    assert "board.example.test" in report


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_misaligned_button_is_found_and_corrected_by_its_picture(seed: int, settings: Config, tmp_path: Path) -> None:
    done = run("button", seed, tmp_path, settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert pictures(tmp_path) == {"before.png", "after.png"}
    assert (tmp_path / "before.png").read_bytes() != (tmp_path / "after.png").read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1])
def test_records_are_entered_and_read_back_by_pixels_alone(seed: int, settings: Config, tmp_path: Path) -> None:
    done = run("legacy", seed, tmp_path, settings)
    assert done.returncode == 0, done.stderr
    assert pictures(tmp_path) == {"calendar.png"}
    assert (tmp_path / "Read_Back.xlsx").is_file()


def test_the_records_match_their_generator(tmp_path: Path) -> None:
    records.write(tmp_path / "records.csv", 0)
    assert (tmp_path / "records.csv").read_bytes() == (EXAMPLES / "legacy/records.csv").read_bytes()
