"""Deletes the stored data of jobs: the key first, without which the rest is unreadable. The journal is unchanged."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from hotdesk.errors import HostError
from hotdesk.event import Event, Forgotten
from hotdesk.job.record.lock import hold_lock, is_held
from hotdesk.job.record.papers import KEY
from hotdesk.job.record.summary import JobSummary

DAYS = 30
"""Default number of days that a job's stored data is kept."""
DAY = 86_400_000
"""Milliseconds of a day."""


def forget(jobs: Path, job: str, note: Callable[[Event], None], by: str, why: str = "", *, noted: bool = False) -> None:
    """Record the deletion of a job's stored data, then delete it; raise `BriefError` while a process runs the job.

    Pass `noted` if an earlier call recorded the deletion but did not complete it.
    """
    with hold_lock(jobs / job):
        if not noted:
            note(Forgotten(job, by, why))
        destroy(jobs / job)


def destroy(folder: Path) -> None:
    """Delete a job's folder. A second call does nothing."""
    try:
        overwrite(folder / KEY)
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as e:
        raise HostError(
            f"{folder} cannot be removed: {e.strerror}; delete {folder / KEY} yourself: "
            "without this key, the rest of the folder is unreadable"
        ) from e


def overwrite(path: Path) -> None:
    """Overwrite a key with random bytes and remove it."""
    with suppress(FileNotFoundError):
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.write(fd, secrets.token_bytes(os.fstat(fd).st_size))
            os.fsync(fd)
        finally:
            os.close(fd)
        path.unlink()
        place = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(place)
        finally:
            os.close(place)


def explain_retention(days: float) -> str:
    return f"no activity for {days:g} days"


def list_due(summaries: Iterable[JobSummary], jobs: Path, now: int, days: float = DAYS) -> list[JobSummary]:
    """List the jobs to forget: not running, without an open question, and without events for `days` days."""
    return [
        summary
        for summary in summaries
        if now - summary.last >= days * DAY
        and (jobs / summary.job).is_dir()
        and not is_held(jobs / summary.job)
        and not any(each.until > now for each in summary.waiting.open)
    ]


def list_strays(jobs_in_journal: Iterable[str], jobs: Path, now: int, days: float = DAYS) -> list[Path]:
    """List old folders of jobs that ended before their first event was recorded."""
    names = set(jobs_in_journal)
    with suppress(FileNotFoundError):
        return [
            folder
            for folder in jobs.iterdir()
            if folder.name not in names
            and folder.is_dir()
            and not is_held(folder)
            and now - folder.stat().st_mtime * 1000 >= days * DAY
        ]
    return []
