"""What people decide about jobs: found in the journal, whether or not the job's process lives, and written there."""

from __future__ import annotations

import json as jsons
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config
from hotdesk.drive.journal import FILE
from hotdesk.errors import BriefError, HotdeskError, printable
from hotdesk.event import Decided, Event, Pending
from hotdesk.host import Host
from hotdesk.job import papers, waiting
from hotdesk.job.card_text import card_text
from hotdesk.job.draft import as_draft, difference, from_draft
from hotdesk.job.held import is_held
from hotdesk.job.papers import Papers
from hotdesk.job.waiting import Card, Waiting, read_card, said_already, waiting_everywhere, waiting_in

JOBS = "jobs"
LEAST = 4
"""Characters of an id that is not written whole."""
PLANS = ("plan", "amendment")
"""Kinds whose subject is a plan."""


@dataclass(frozen=True, slots=True)
class Case:
    """What a job waits for, with what is known of it."""

    pending: Pending
    waiting: Waiting
    papers: Papers | None
    """None: they were forgotten."""
    card: Card | None

    def text(self, now: int) -> str:
        """Lay it out for people."""
        return card_text(self.pending, self.card, now)

    def as_dict(self) -> dict[str, object]:
        """Give it as plain data."""
        card = None if self.card is None else jsons.loads(self.card.as_json())
        return {**asdict(self.pending), "card": card}

    def require_open(self, digest: str) -> None:
        """Refuse to decide what was decided, what is about something else, and what is too late."""
        waiting.require_open(self.pending, self.waiting, digest, int(time.time() * 1000))


def journal_of(settings: Config) -> Path:
    """Give the journal's path."""
    return settings.lib / "keys" / FILE


def everywhere(settings: Config) -> dict[str, Waiting]:
    """Read what waits in every job; who may not read the journal has no jobs."""
    journal = journal_of(settings)
    return waiting_everywhere(journal) if os.access(journal, os.R_OK) else {}


def open_cases(settings: Config, now: int) -> list[Case]:
    """Give everything that jobs still wait for."""
    found = everywhere(settings).values()
    return [case_of(settings, each, one) for each in found for one in each.open if one.until > now]


def find_case(settings: Config, text: str) -> Case | None:
    """Give what waits, or waited, under an id or the beginning of one; None when no job has it."""
    known = [(one, each) for each in everywhere(settings).values() for one in each.pending.values()]
    exact = [pair for pair in known if pair[0].id == text]
    begun = [pair for pair in known if len(text) >= LEAST and pair[0].id.startswith(text)]
    chosen = exact or begun
    if len(chosen) > 1:
        raise BriefError(f"{len(chosen)} things wait under ids that begin with {text!r}; write more of it")
    return case_of(settings, chosen[0][1], chosen[0][0]) if chosen else None


def case_of(settings: Config, found: Waiting, pending: Pending) -> Case:
    """Put together what is known; a card that is gone or no longer says what was asked is none."""
    try:
        kept = papers.find(settings.lib / JOBS, pending.job)
    except BriefError:
        return Case(pending, found, None, None)
    try:
        card = read_card(kept.text(pending.paper))
    except (HotdeskError, ValueError, KeyError, TypeError):
        return Case(pending, found, kept, None)
    return Case(pending, found, kept, card if card.digest == pending.digest else None)


def settle(
    settings: Config,
    case: Case,
    answer: Literal["approved", "refused", "answered"],
    digest: str = "",
    *,
    edited: str = "",
    words: str = "",
    json: bool = False,
) -> int:
    """Write a decision down, if nobody was first, and say what was decided."""
    case.require_open(digest)
    told = decided(case, answer, edited, words)
    write_down(settings, told)
    pending, found = case.pending, waiting_in(journal_of(settings), case.pending.job)
    if (first := found.decided.get(pending.id)) is None:
        raise BriefError(f"{pending.id} was too late, or its job is over; nothing is decided")
    if first != told:
        raise BriefError(said_already(first, found.decided_at[pending.id]))
    if json:
        print(jsons.dumps(asdict(told)))
    else:
        print(f"{answer}:\n{case.text(int(time.time() * 1000))}")
        if not is_held(settings.lib / JOBS / pending.job):
            print(f"nobody works at this job now: `hotdesk resume {pending.job}`")
    return 0


def decided(case: Case, answer: Literal["approved", "refused", "answered"], edited: str, words: str) -> Decided:
    """Make the decision. What can no longer be shown can only be refused."""
    if case.papers is not None and case.card is not None:
        return waiting.decide(case.pending, case.card, case.papers, answer, decider(), edited=edited, words=words)
    if answer != "refused":
        raise BriefError(f"the card of {case.pending.id} is gone or was changed: it can only be refused")
    return Decided(case.pending.job, case.pending.id, case.pending.digest, answer, decider())


def decider() -> str:
    """Say who decides: this process, and for whom, if `sudo` told."""
    behind = os.environ.get("SUDO_UID", "")
    told = f" for uid {behind}" if behind.isascii() and behind.isdigit() and len(behind) < 11 else ""
    return f"uid {os.getuid()} pid {os.getpid()}{told}"


def write_down(settings: Config, *events: Event) -> None:
    """Have events written down by a host of our own."""

    async def work() -> int:
        async with Host(settings, control=False) as host:
            await host.ready()
            host.note(*events)
        return 0

    if code := run_interruptible(work):
        raise SystemExit(code)


def edit(case: Case) -> str:
    """Have a person change a plan; give what is approved then, empty when nothing was changed."""
    if case.pending.kind not in PLANS or case.card is None:
        raise BriefError(f"{case.pending.id} is no plan that could be edited; approve or refuse it as it is")
    before = as_draft(case.card.subject)
    subject = from_draft(edited_text(before))
    if subject == from_draft(before):
        return ""
    for line in difference(before, as_draft(subject)):
        print(printable(line), file=sys.stderr)
    if sys.stdin.isatty() and input("approve this? [y/N] ").strip().lower() not in ("y", "yes"):
        raise BriefError("nothing is decided")
    return subject


def edited_text(text: str) -> str:
    """Open an editor on a text, in a file that is nobody else's; give what is there when it ends."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="hotdesk-plan-") as folder:
        path = Path(folder) / "plan.toml"
        path.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run([*shlex.split(editor), str(path)], check=False)
        except (OSError, ValueError) as e:
            raise BriefError(f"the editor {editor!r} cannot be started: {e}; set EDITOR") from e
        if done.returncode:
            raise BriefError(f"the editor ended with {done.returncode}; nothing is decided")
        return path.read_text(encoding="utf-8", errors="replace")
