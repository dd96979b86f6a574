"""Tests of what a resumed job remembers from before."""

from __future__ import annotations

import json
from pathlib import Path

from hotdesk.brain.models.codec import call_to_json, observation_to_json
from hotdesk.drive.journal import FILE, Journal
from hotdesk.drive.signing import load_signer
from hotdesk.event import Acted, Event, Observed, Summed
from hotdesk.job.record import papers
from hotdesk.job.record.job_notes import read_notes
from hotdesk.linux import private_files
from hotdesk.tool import Call, Observation

JOB = "i" + "j" * 20


def test_what_was_seen_noted_and_summed_up_before_is_found_again(tmp_path: Path) -> None:
    kept = papers.create(tmp_path / "jobs", JOB)
    noted = kept.write(json.dumps(call_to_json(Call("1", "remember", {"text": "the gate opens at seven"}))))
    seen = kept.write(json.dumps(observation_to_json(Observation("the platypus weighs 1.7 kilograms"))))
    lost = kept.write(json.dumps(observation_to_json(Observation("said by nobody"))))
    events: list[Event] = [
        Acted(JOB, "look", 1, "remember", noted),
        Observed(JOB, "look", 1, "done", 1, lost),
        Acted(JOB, "look", 2, "shell", noted),
        Observed(JOB, "look", 2, "done", 1, seen),
        Acted(JOB, "look", 3, "shell", noted),
        Summed(JOB, "look", kept.write("forty herons were counted")),
    ]
    private_files.make_folder(tmp_path / "keys")
    journal = Journal(tmp_path / "keys" / FILE, load_signer(tmp_path / "keys"))
    for event in events:
        journal.add(JOB, "owner", event)
    journal.commit()
    notes = read_notes(tmp_path / "keys" / FILE, JOB, kept)
    journal.close()
    assert "[step look, act 2, shell] > the platypus weighs 1.7 kilograms" in notes.recall("platypus")
    assert "[step look, note] > the gate opens at seven" in notes.recall("gate seven")
    assert "[step look, summary] > forty herons were counted" in notes.recall("herons")
    assert "nobody" not in notes.recall("said by nobody")
