"""Tests of storing a recording in the repository: it replays the same, without pictures and repetitions."""

from __future__ import annotations

import json
from pathlib import Path

from tools.keep_recording import shorten

from hotdesk.brain.models.record import read_replies

RECORDINGS = Path(__file__).parents[1] / "recordings"


def test_the_replies_stay_and_instructions_and_tools_stand_once(tmp_path: Path) -> None:
    source = min(RECORDINGS.glob("*.jsonl"))
    short = tmp_path / source.name
    short.write_text(shorten(source.read_text()))
    assert read_replies(short) == read_replies(source)
    requests = [line["request"] for line in map(json.loads, short.read_text().splitlines()) if "request" in line]
    assert [bool(request["system"]) for request in requests].count(True) == len({r["step"] for r in requests})
    assert shorten(short.read_text()) == short.read_text()


def test_conversations_that_went_on_at_the_same_time_stand_one_after_another() -> None:
    request = {"system": "s", "tools": ["t"], "history": []}
    lines = [{"request": request, "part": part} for part in ("report", "item b", "item a", "item b")]
    short = shorten("".join(f"{json.dumps(line)}\n" for line in ({"recording": {}}, *lines)))
    header, *found = map(json.loads, short.splitlines())
    assert header == {"recording": {}}
    assert [line["part"] for line in found] == ["item a", "item b", "item b", "report"]
    assert [bool(line["request"]["tools"]) for line in found] == [True, False, False, False]


def test_pictures_are_left_out_wherever_they_are() -> None:
    request = {"system": "s", "tools": [], "history": [{"pairs": [[{"id": "1"}, {"text": "t", "image": "AAAA"}]]}]}
    [line] = map(json.loads, shorten(json.dumps({"request": request}) + "\n").splitlines())
    assert line["request"]["history"] == [{"pairs": [[{"id": "1"}, {"text": "t", "image": ""}]]}]
