"""Tests of what people do to jobs from another process: the real `hotdesk`, a real journal, no running job."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hotdesk.config import Config, get_tenant_settings
from hotdesk.desk.seam import new_id
from hotdesk.drive.journal import FILE
from hotdesk.event import JobBegun, JobEnded, JobPaused, Pending, Planned
from hotdesk.host import Host
from hotdesk.job.people.wait import Card, new_pending, read_waiting
from hotdesk.job.record import papers
from hotdesk.job.record.decisions import get_journal_path
from hotdesk.job.record.lock import hold_lock
from hotdesk.job.record.papers import Papers
from hotdesk.plan import from_json, to_json
from tests.e2e.conftest import environment
from tests.ledger import PLAN

pytestmark = [pytest.mark.container, pytest.mark.anyio]

SOURCE = os.pathsep.join(filter(None, sys.path))
MAIN = "from hotdesk.cli import main; main()"
WORDS = 'the \x1b[31morders" are there'


@dataclass
class Place:
    """A state directory, and an owner that records jobs there."""

    settings: Config
    host: Host

    def call(self, *argv: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        around = {**environment(self.settings), "PYTHONPATH": SOURCE, **env}
        command = [sys.executable, "-c", MAIN, *argv]
        return subprocess.run(command, check=False, input=stdin, capture_output=True, text=True, timeout=90, env=around)

    def told(self, *argv: str) -> list[dict[str, object]]:
        """Run `hotdesk`, and parse its output as JSON."""
        done = self.call(*argv, "--json")
        assert done.returncode == 0, done.stderr
        found: list[dict[str, object]] = json.loads(done.stdout)
        return found

    def begin(self) -> Papers:
        kept = papers.create(self.settings.lib / "jobs", new_id())
        job = kept.folder.name
        self.host.note(JobBegun(job, "compare", "ab" * 32, "recorded script 1a2b", "uid 0 pid 1"))
        self.host.note(Planned(job, PLAN.digest, ("read", "write"), kept.write(to_json(PLAN))))
        return kept

    def ask(self, kept: Papers, kind: str = "plan") -> Pending:
        subject = to_json(PLAN) if kind == "plan" else "which of the two?"
        card = Card(f"a {kind}", {"host": "erp.test"}, ("1 read",), WORDS, subject)
        pending = new_pending(kept.folder.name, kind, card, kept, 60.0)
        self.host.note(pending)
        return pending

    @property
    def journal(self) -> Path:
        return self.settings.lib / "keys" / FILE


@pytest.fixture
async def place(settings: Config) -> AsyncIterator[Place]:
    """Yield a state directory with a journal, which must be whole at the end."""
    home = Path(tempfile.mkdtemp(prefix="jobs-", dir=settings.run.parent))
    home.chmod(0o755)
    own = replace(settings, run=home / "run", lib=home / "lib")
    async with Host(own, control=False) as host:
        await host.prepare()
        made = Place(own, host)
        yield made
        verified = made.call("journal", "verify")
        assert verified.returncode == 0, verified.stdout + verified.stderr
    shutil.rmtree(home)


async def test_a_plan_is_approved_by_another_process_once(place: Place) -> None:
    kept = place.begin()
    job, pending = kept.folder.name, place.ask(kept)
    listed = place.told("jobs")[0]
    assert (listed["state"], listed["waits"]) == ("waiting", [pending.id])
    card = place.call("approve").stdout.splitlines()
    assert card[0] == f"{pending.id}  a plan"
    assert card[-1] == '  the worker says (unchecked): "the \\x1b[31morders\' are there"'
    wrong = place.call("approve", pending.id, "--digest", "0000")
    assert (wrong.returncode, "has the digest" in wrong.stderr) == (125, True)
    done = place.call("approve", pending.id, "--digest", pending.digest[:16], SUDO_UID="1000")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"no process is running this job; continue it with `hotdesk resume {job}`"
    decided = read_waiting(place.journal, job).decided[pending.id]
    assert (decided.answer, decided.digest) == ("approved", pending.digest)
    assert decided.by.startswith("uid 0 pid ")
    assert decided.by.endswith(" for uid 1000")
    place.host.note(JobBegun(new_id(), "another", "ab" * 32))
    place.host.note(JobPaused(job, "and the job's own process goes on writing"))
    again = place.call("refuse", pending.id)
    assert again.returncode == 125
    assert f"{pending.id} was approved by {decided.by} at " in again.stderr
    assert place.told("approve") == []


@pytest.mark.long
async def test_of_two_concurrent_decisions_the_second_is_refused(place: Place) -> None:
    kept = place.begin()
    pending = place.ask(kept)
    with ThreadPoolExecutor(2) as both:
        one, other = both.map(lambda word: place.call(word, pending.id), ("approve", "refuse"))
    assert sorted([one.returncode, other.returncode]) == [0, 125], one.stderr + other.stderr
    first = "approved" if one.returncode == 0 else "refused"
    assert read_waiting(place.journal, kept.folder.name).decided[pending.id].answer == first
    assert f"was {first} by uid 0 pid" in one.stderr + other.stderr


@pytest.mark.long
async def test_an_edited_plan_is_the_approved_one(place: Place, tmp_path: Path) -> None:
    kept = place.begin()
    pending = place.ask(kept)
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/write the report/write it well/' \"$1\"\n")
    editor.chmod(0o755)
    done = place.call("approve", pending.id, "--edit", EDITOR=str(editor))
    assert done.returncode == 0, done.stderr
    assert '+intent = "write it well"' in done.stderr.splitlines()
    decided = read_waiting(place.journal, kept.folder.name).decided[pending.id]
    plan = from_json(kept.read_text(decided.paper))
    assert plan.steps[1].intent == "write it well"
    assert decided.digest == plan.digest != pending.digest


@pytest.mark.long
async def test_a_question_is_answered_and_a_refusal_has_its_reason(place: Place) -> None:
    kept = place.begin()
    question, plan = place.ask(kept, "question"), place.ask(kept)
    assert "hotdesk answer" in place.call("approve", question.id).stderr
    assert place.call("answer", question.id, "-", stdin="the second\n").returncode == 0
    assert place.call("refuse", plan.id, "--reason", "not on a Sunday").returncode == 0
    decided = read_waiting(place.journal, kept.folder.name).decided
    assert (decided[question.id].answer, kept.read_text(decided[question.id].paper)) == ("answered", "the second")
    assert (decided[plan.id].answer, kept.read_text(decided[plan.id].paper)) == ("refused", "not on a Sunday")


@pytest.mark.long
async def test_a_job_is_forgotten_and_its_journal_stays_whole(place: Place, tmp_path: Path) -> None:
    kept = place.begin()
    job = kept.folder.name
    with hold_lock(kept.folder):
        assert "another process is running job" in place.call("forget", job, "--yes").stderr
    place.host.note(JobEnded(job, "done"))
    assert place.call("forget", job[:8], "--yes").stdout == f"deleted: {job}\n"
    assert not kept.folder.exists()
    assert "deleted by uid 0 pid" in place.call("show", job).stdout
    assert "is already deleted" in place.call("forget", job, "--yes").stderr
    assert "was deleted" in place.call("show", job, "--papers").stderr


@pytest.mark.long
async def test_an_export_is_verified_with_the_public_key_alone(place: Place, tmp_path: Path) -> None:
    kept, other = place.begin(), place.begin()
    job, file, key = kept.folder.name, tmp_path / "job.jsonl", tmp_path / "key.pub"
    key.write_bytes((place.settings.lib / "keys/signing.pub").read_bytes())
    assert place.call("journal", "export", "--job", job, str(file)).returncode == 0
    assert other.folder.name not in file.read_text()
    elsewhere = {"HOTDESK_HOME": str(tmp_path / "nowhere")}
    check = ("journal", "verify", "--export", str(file), "--key", str(key))
    assert place.call(*check, **elsewhere).returncode == 0
    assert "--key" in place.call(*check[:4]).stderr
    file.write_text(file.read_text().replace("compare", "COMPARE"))
    assert place.call(*check, **elsewhere).returncode == 1
    whole = place.call("journal", "export", "-")
    assert place.call(*check[:3], "-", *check[4:], stdin=whole.stdout).returncode == 0


@pytest.mark.long
async def test_gc_cleans_up_for_every_tenant_although_one_fails(place: Place, tmp_path: Path) -> None:
    for name in ("acme", "zebra"):
        lib = get_tenant_settings(place.settings, name).lib
        stray = papers.create(lib / "jobs", new_id()).folder
        request = lib / "orders" / stray.name
        request.mkdir(parents=True)
        for each in (stray, request):
            os.utime(each, (0, 0))
    assert json.loads(place.call("gc", "--json", HOTDESK_IMAGES=str(tmp_path)).stdout)["jobs"] == []
    broken, whole = (get_journal_path(get_tenant_settings(place.settings, name)) for name in ("acme", "zebra"))
    for each in (broken, whole):
        each.parent.mkdir()
    broken.write_bytes(b"no database" * 1000)
    place.begin()
    with closing(sqlite3.connect(place.journal)) as source, closing(sqlite3.connect(whole)) as copy:
        source.backup(copy)
    done = place.call("gc", "--json", HOTDESK_IMAGES=str(tmp_path))
    assert json.loads(done.stdout)["jobs"] == [stray.name]
    assert not stray.exists()
    assert not request.exists()
    assert done.returncode == 125
    assert "tenant acme: the journal cannot be used: file is not a database" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
async def test_old_jobs_are_forgotten_by_gc_and_young_ones_stay(place: Place, tmp_path: Path) -> None:
    kept = place.begin()
    job = kept.folder.name
    place.host.note(JobEnded(kept.folder.name, "done"))
    stray = papers.create(place.settings.lib / "jobs", new_id()).folder
    os.utime(stray, (0, 0))
    done = place.call("gc", "--json", HOTDESK_IMAGES=str(tmp_path))
    assert json.loads(done.stdout)["jobs"] == [stray.name], done.stderr
    assert not stray.exists()
    assert kept.folder.exists()
    etc = place.settings.run.parent / "etc"
    etc.mkdir()
    (etc / "config.toml").write_text("[jobs]\nretention_days = 0\n")
    done = place.call("gc", "--json", HOTDESK_IMAGES=str(tmp_path))
    assert json.loads(done.stdout)["jobs"] == [job], done.stderr
    assert not kept.folder.exists()
    assert "no activity for 0 days" in place.call("show", job).stdout
