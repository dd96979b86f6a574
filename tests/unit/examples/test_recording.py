"""Tests of recordings of the examples: each names the model that answered, and replays with its seed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from examples.recording import Recording, RecordingNote, find_recording, write_note

from hotdesk.errors import BriefError

RUN = Path(__file__).parents[3] / "examples/audit/run.py"
NOTE = {
    "answered_by": "by hand through a loopback provider",
    "model": "anthropic:claude-sonnet-5",
    "seed": 5150,
    "count": 40,
    "date": "2026-11-17",
    "commit": "1a2b3c4d5e6f7",
}


def write(folder: Path, note: object, name: str = "mind") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(note))
    (folder / f"{name}.jsonl").write_text("")
    return folder / f"{name}.jsonl"


def test_the_first_recording_of_a_folder_is_found_with_its_note(tmp_path: Path) -> None:
    write(tmp_path, NOTE, "b")
    file = write(tmp_path, {**NOTE, "seed": 7}, "a")
    assert find_recording(tmp_path) == Recording(file, RecordingNote(**{**NOTE, "seed": 7}))  # type: ignore[arg-type]
    found = find_recording(tmp_path / "b.jsonl").note
    assert found.describe() == (
        "recorded on 2026-11-17 at commit 1a2b3c4d5e6f, as anthropic:claude-sonnet-5, "
        "answered by hand through a loopback provider"
    )


@pytest.mark.parametrize(
    "note",
    [
        {},
        {**NOTE, "answered_by": ""},
        {**NOTE, "date": "today"},
        {**NOTE, "seed": "5150"},
        {**NOTE, "commit": "main"},
        {**NOTE, "more": 1},
    ],
)
def test_a_recording_whose_note_is_malformed_is_not_replayed(note: object, tmp_path: Path) -> None:
    file = write(tmp_path, note)
    with pytest.raises(BriefError, match="is malformed"):
        find_recording(file)


def test_a_recording_without_a_note_is_not_replayed(tmp_path: Path) -> None:
    file = write(tmp_path, NOTE)
    file.with_suffix(".json").unlink()
    with pytest.raises(BriefError, match=r"It must say how mind\.jsonl was made"):
        find_recording(file)
    file.unlink()
    with pytest.raises(BriefError, match="There is no recording"):
        find_recording(tmp_path)


def test_a_note_is_written_with_date_and_commit(tmp_path: Path) -> None:
    file = tmp_path / "recorded/mind.jsonl"
    write_note(file, "the model itself", "openai:gpt-5", 3, 40)
    file.write_text("")
    note = find_recording(tmp_path / "recorded").note
    assert (note.answered_by, note.model, note.seed, note.count) == ("the model itself", "openai:gpt-5", 3, 40)
    assert note.describe().endswith("answered by the model itself")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["--replay", "nowhere.jsonl"], "There is no recording at nowhere.jsonl"),
        (["--replay", "--seed", "0"], "remove the other options"),
        (["--replay", "--count", "60"], "remove the other options"),
        (["--replay", "--brain", "hijacked"], "remove the other options"),
        (["--record", "mind.jsonl"], "--record needs --model"),
    ],
)
def test_a_demo_that_cannot_replay_says_why_and_makes_nothing(argv: list[str], why: str, tmp_path: Path) -> None:
    command = [sys.executable, str(RUN), "--out", str(tmp_path / "out"), *argv]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert why in done.stderr
    assert not (tmp_path / "out").exists()
