"""Jobs requested through this server: each has its own folder (`api/launch/job_command.py`) and names its requester."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, field
from pathlib import Path

import anyio

from hotdesk.api.launch.job_command import ORDERS, get_folder, remove_order
from hotdesk.api.launch.launcher_client import LauncherClient
from hotdesk.brief import CLOSED
from hotdesk.brief.brief import Brief, Deliverable, DeskSize
from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable
from hotdesk.job.verify import count_concurrent_desks
from hotdesk.linux import private_files

BRIEF = "brief"
REQUEST = "request.json"
USUAL = DeskSize()
"""The desk size of a job whose brief is not known any more."""
_TAIL = 2000
"""Bytes at the end of a job's output that are read if the job never began."""


def compute_demand(size: DeskSize = USUAL, deliverables: Sequence[Deliverable] = ()) -> dict[str, float]:
    """Return what a job takes of its tenant's quota while it runs: as many desks of its size as may be open at once.

    One desk is for the work. Beside it there is one for a step that must not see other files, or the clean desks for
    the checks of deliverables.
    """
    desks = 1 + max(1, count_concurrent_desks(deliverables))
    sizes = {"cpus": desks * size.cpus, "memory": desks * size.memory, "disk": desks * size.disk}
    return {"jobs": 1, "desks": desks, **sizes}


def compute_swarm_demand(brief: Brief, most: int) -> dict[str, float]:
    """Return what a swarm takes of its tenant's quota while it runs: desks for `most` items, and one clean desk.

    If desks have egress, an item may have a second one, for a step that must not see other files.
    """
    report = 1 + max(1, count_concurrent_desks(brief.reduce.deliverables)) if brief.reduce is not None else 0
    desks = max(most * (1 if brief.scope == CLOSED else 2) + 1, report)
    size = brief.size
    return {
        "jobs": 1, "desks": desks, "cpus": desks * size.cpus, "memory": desks * size.memory, "disk": desks * size.disk
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class RequestedJob:
    """A job as it was requested, before and while it runs."""

    job: str
    task: str
    by: str
    at: float
    """Seconds since 1970."""
    template: str = ""
    takes: Mapping[str, float] = field(default_factory=compute_demand)
    """What the job takes of the tenant's quota while it runs."""


@dataclass(slots=True)
class Jobs:
    launcher: LauncherClient
    by_tenant: dict[str, dict[str, RequestedJob]] = field(default_factory=dict)
    """Requested jobs, by tenant and job."""

    def read_requests(self, tenant: str, settings: Config) -> dict[str, RequestedJob]:
        if tenant not in self.by_tenant:
            found = (read_request(path) for path in sorted((settings.lib / ORDERS).glob(f"*/{REQUEST}")))
            self.by_tenant[tenant] = {each.job: each for each in found if each is not None}
        return self.by_tenant[tenant]

    async def remember(self, tenant: str, settings: Config, request: RequestedJob) -> None:
        """Store a request; in a thread, because the disk may be slow."""
        folder, text = get_folder(settings, request.job), json.dumps(asdict(request)).encode()
        await anyio.to_thread.run_sync(private_files.write, folder, REQUEST, text, 0o600)
        self.read_requests(tenant, settings)[request.job] = request

    def forget(self, tenant: str, settings: Config, job: str) -> None:
        """Remove a job's folder: its brief, uploads and output."""
        self.read_requests(tenant, settings).pop(job, None)
        remove_order(settings, job)


def read_request(path: Path) -> RequestedJob | None:
    """Read a stored request; `None` if it is unreadable."""
    with suppress(OSError, ValueError, TypeError):
        return RequestedJob(**json.loads(path.read_bytes()))
    return None


def make_folder(settings: Config, job: str) -> Path:
    """Create a job's folder and that of its brief; return the latter."""
    folder = get_folder(settings, job)
    for each in (folder.parent, folder, folder / BRIEF):
        private_files.make_folder(each)
    return folder / BRIEF


def read_last_line(settings: Config, job: str) -> str:
    try:
        with (get_folder(settings, job) / "stderr").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return make_printable(lines[-1])[:500] if lines else ""
