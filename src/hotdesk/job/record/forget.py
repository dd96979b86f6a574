"""Forgets jobs: the key first, without which nothing else can be read; then the rest. The journal stays whole."""

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
"""How long what a job kept stays, unless the operator says otherwise."""
DAY = 86_400_000
"""Milliseconds."""


def forget(jobs: Path, job: str, note: Callable[[Event], None], by: str, why: str = "", *, noted: bool = False) -> None:
    """Destroy what is kept of a job beside the journal, once that is written down; `BriefError` while it is worked at.

    `noted`: it was written down before, and something kept it from being carried out.
    """
    with hold_lock(jobs / job):
        if not noted:
            note(Forgotten(job, by, why))
        destroy(jobs / job)


def destroy(folder: Path) -> None:
    """Destroy a job's folder. Twice is no error."""
    try:
        overwrite(folder / KEY)
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as e:
        raise HostError(
            f"{folder} cannot be removed: {e.strerror}; delete {folder / KEY}, and its contents are unreadable"
        ) from e


def overwrite(path: Path) -> None:
    """Overwrite a key with noise, and remove it."""
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


def list_due(tales: Iterable[JobSummary], jobs: Path, now: int, days: float = DAYS) -> list[JobSummary]:
    """List the jobs to forget: not running, not waiting for anybody, and without events for so many days."""
    return [
        tale
        for tale in tales
        if now - tale.last >= days * DAY
        and (jobs / tale.job).is_dir()
        and not is_held(jobs / tale.job)
        and not any(each.until > now for each in tale.waiting.open)
    ]


def list_strays(jobs_in_journal: Iterable[str], jobs: Path, now: int, days: float = DAYS) -> list[Path]:
    """Return folders of jobs that ended before anything was written down of them."""
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
