"""Decisions of people about jobs, read from and written to the journal, whether or not the job is running."""

from __future__ import annotations

import json as jsons
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config
from hotdesk.errors import BriefError, make_printable
from hotdesk.event import Event
from hotdesk.host import Host
from hotdesk.job.people.draft import as_draft, from_draft, list_differing_lines
from hotdesk.job.record.decisions import JOBS as JOBS
from hotdesk.job.record.decisions import PLANS, make_decision, require_first
from hotdesk.job.record.decisions import OpenDecision as OpenDecision
from hotdesk.job.record.decisions import find_case as find_case
from hotdesk.job.record.decisions import get_journal_path as get_journal_path
from hotdesk.job.record.decisions import open_cases as open_cases
from hotdesk.job.record.lock import is_held


def settle(
    settings: Config,
    case: OpenDecision,
    answer: Literal["approved", "refused", "answered"],
    digest: str = "",
    *,
    edited: str = "",
    words: str = "",
    json: bool = False,
) -> int:
    case.require_open(digest)
    decision = make_decision(case, answer, describe_decider(), edited, words)
    write_down(settings, decision)
    require_first(settings, decision)
    if json:
        print(jsons.dumps(asdict(decision)))
    else:
        print(f"{answer}:\n{case.format_text(int(time.time() * 1000))}")
        if not is_held(settings.lib / JOBS / case.pending.job):
            print(f"no process is running this job; continue it with `hotdesk resume {case.pending.job}`")
    return 0


def describe_decider() -> str:
    """Describe who decides: this process, and the user who called `sudo`."""
    behind = os.environ.get("SUDO_UID", "")
    on_behalf = f" for uid {behind}" if behind.isascii() and behind.isdigit() and len(behind) < 11 else ""
    return f"uid {os.getuid()} pid {os.getpid()}{on_behalf}"


def write_down(settings: Config, *events: Event) -> None:
    async def work() -> int:
        async with Host(settings, control=False) as host:
            await host.prepare()
            host.note(*events)
        return 0

    if code := run_interruptible(work):
        raise SystemExit(code)


def edit(case: OpenDecision) -> str:
    """Let a person edit a plan; return the edited plan, or `""` if nothing was changed."""
    if case.pending.kind not in PLANS or case.card is None:
        raise BriefError(f"{case.pending.id} is not a plan and cannot be edited; approve or refuse it as it is")
    before = as_draft(case.card.subject)
    subject = from_draft(_edit_text(before))
    if subject == from_draft(before):
        return ""
    for line in list_differing_lines(before, as_draft(subject)):
        print(make_printable(line), file=sys.stderr)
    if sys.stdin.isatty() and input("approve this? [y/N] ").strip().lower() not in ("y", "yes"):
        raise BriefError("the edited plan was not approved; the request is still pending")
    return subject


def _edit_text(text: str) -> str:
    """Open an editor on a text in a private file; return the text when the editor ends."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="hotdesk-plan-") as folder:
        path = Path(folder) / "plan.toml"
        path.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run([*shlex.split(editor), str(path)], check=False)
        except (OSError, ValueError) as e:
            raise BriefError(f"the editor {editor!r} cannot be started: {e}; set $EDITOR to an installed editor") from e
        if done.returncode:
            raise BriefError(
                f"the editor ended with exit code {done.returncode}, so nothing was approved; "
                "the request is still pending"
            )
        return path.read_text(encoding="utf-8", errors="replace")
