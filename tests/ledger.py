"""A state directory with a journal and jobs, written as an owner's keys process writes them, but without desks."""

from __future__ import annotations

import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hotdesk.config import Config
from hotdesk.drive.journal import FILE, Journal
from hotdesk.drive.signing import Signer
from hotdesk.event import (
    Acted,
    Checkpointed,
    Decided,
    Event,
    Exchange,
    JobBegun,
    JobBurnt,
    JobEnded,
    JobPaused,
    Kept,
    Observed,
    Pending,
    Planned,
    Preflight,
    RolledBack,
    StepBegun,
    StepEnded,
    Thought,
    Verified,
    get_chain,
)
from hotdesk.job.people.wait import Card, new_pending
from hotdesk.job.record import papers
from hotdesk.job.record.papers import Papers
from hotdesk.linux import private_files
from hotdesk.plan import Plan, Step, to_json

SIGNER = Signer(Ed25519PrivateKey.from_private_bytes(b"not a secret: for golden files.."))
JOB = "i" + "a1b2" * 5
DESK = "i" + "d3e4" * 5
PLAN = Plan((Step("read", "read the orders", hosts=("GET erp.test/*",)), Step("write", "write the report")), "so it is")

THOUGHT = '{"thought":"I \\u001b[2J look","text":""}'


class Ledger:
    """Writes events and papers below one folder."""

    def __init__(self, home: Path) -> None:
        self.settings = Config(run=home / "run", lib=home / "lib", images=home / "images")
        self.jobs = self.settings.lib / "jobs"
        self.path = self.settings.lib / "keys" / FILE
        private_files.make_folder(self.path.parent)
        self.journal = Journal(self.path, SIGNER)

    def note(self, *events: Event) -> None:
        for event in events:
            self.journal.add(get_chain(event), "owner", event)
        self.journal.commit()

    def begin(self, job: str = JOB, goal: str = "compare the invoices") -> Papers:
        made = papers.create(self.jobs, job)
        self.note(JobBegun(job, goal, "ab" * 32, "recorded script 1a2b", "uid 0 pid 1"))
        self.note(Planned(job, PLAN.digest, ("read", "write"), made.write(to_json(PLAN))))
        return made

    def ask(
        self, kept: Papers, kind: str = "plan", seconds: float = 60.0, words: str = "", job: str = JOB, step: str = ""
    ) -> Pending:
        subject = to_json(PLAN) if kind in ("plan", "amendment") else "which of the two?"
        card = Card("the plan", {"steps": "2", "host": "erp.test"}, ("1 read", "2 write"), words, subject)
        pending = new_pending(job, kind, card, kept, seconds, step)
        self.note(pending)
        return pending


def whole_job(ledger: Ledger) -> None:
    kept = ledger.begin()
    pending = ledger.ask(kept, words="let me")
    card = kept.write("x")
    until = int(time.time() * 1000)
    ledger.note(
        Preflight(JOB, PLAN.digest, ("erp.test resolves",), ()),
        Decided(JOB, pending.id, pending.digest, "approved", "uid 0 pid 7"),
        StepBegun(JOB, "read", "read the orders", DESK, 1, "anthropic:m"),
        Thought(
            JOB, "read", 1, "anthropic:m", kept.write('{"thought":"I \\u001b[2J look","text":""}'), 9, 5, 0, 99, 7, 0.01
        ),
        Acted(JOB, "read", 1, "shell", kept.write('{"command":"ls"}')),
        Observed(JOB, "read", 1, "failed", 12, kept.write("no \x1b[31m such file")),
        StepEnded(JOB, "read", "failed", "no such \x1b file", DESK),
        RolledBack(JOB, "read", 1, "exit code 1"),
        StepBegun(JOB, "read", "read the orders", DESK, 2, "anthropic:m"),
        Acted(JOB, "read", 2, "shell", kept.write('{"command":"ls orders"}')),
        Observed(JOB, "read", 2, "done", 12, kept.write("A" * 4000)),
        StepEnded(JOB, "read", "done", "", DESK),
        Checkpointed(JOB, "read", 2, "cd" * 32, 4096),
        StepBegun(JOB, "write", "write the report", DESK, 1, "anthropic:m"),
        Acted(JOB, "write", 3, "shell", kept.write('{"command":"make"}')),
        Pending(JOB, "late0001", "amendment", "ab" * 32, card, until, step="write"),
    )
    ledger.note(
        Exchange(DESK, "read", "allow", "erp.test", "GET", "https", "erp.test", 443, "/orders", 200, 10, 20, 3, ("t",)),
        Exchange(DESK, "read", "deny", "no rule", "POST", "https", "evil\u202e.test", 443, "/x", 403, 0, 0, 1),
    )
    ledger.note(
        Verified(JOB, DESK, "a.xlsx", "cd" * 32, "xlsx", "passed", ("5 rows",)),
        Kept(JOB, "a.xlsx", "cd" * 32, 4711, 2),
        JobEnded(JOB, "done"),
        JobBurnt(JOB, (f"desk {DESK}",), ("a.xlsx in the drive",), ("mount /x",)),
    )


def paused_job(ledger: Ledger, job: str, why: str = "its operator stopped it") -> None:
    ledger.begin(job)
    ledger.note(JobPaused(job, why))
