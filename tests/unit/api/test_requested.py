"""Tests of what a job takes of its tenant's quota: as many desks of its size as may be open at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.api.native.jobs.requests import RequestedJob, compute_demand, read_request
from hotdesk.brief.brief import Brief
from hotdesk.brief.load import parse_job
from hotdesk.door.policy.scope import scope_of

OPENED = '{path = "a.json", check = "json"}, {path = "b.csv", check = "csv"}'
RUN = '{path = "%s.py", check = "program"}'


def read(deliverables: str, more: str = "") -> Brief:
    text = f'goal = "x"\ndeliverables = [{deliverables}]\n{more}'
    return parse_job(text.encode(), Path("/nowhere"), scope_of, "toml")


@pytest.mark.parametrize(
    ("deliverables", "desks"),
    [
        (RUN % "a", 3),
        (OPENED, 2),
        (f"{OPENED}, {RUN % 'a'}", 3),
        (f"{OPENED}, {RUN % 'a'}, {RUN % 'b'}, {RUN % 'c'}", 4),
    ],
)
def test_a_job_counts_as_the_desks_it_may_have_open_at_once(deliverables: str, desks: int) -> None:
    job = read(deliverables)
    assert compute_demand(job.size, job.deliverables)["desks"] == desks


def test_its_desks_count_by_their_size() -> None:
    job = read(OPENED, 'size = {cpus = 1.5, memory = "1G", disk = "4G"}')
    told = compute_demand(job.size, job.deliverables)
    assert told == {"jobs": 1, "desks": 2, "cpus": 3.0, "memory": 2 << 30, "disk": 8 << 30}


def test_a_job_without_recorded_sizes_counts_as_a_default_one(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text('{"job": "i1", "task": "x", "by": "anna", "at": 1.0}')
    found = read_request(tmp_path / "request.json")
    assert isinstance(found, RequestedJob)
    assert found.takes == compute_demand()
    assert found.takes["desks"] == 2
