"""Deletes the stored data of jobs, on request and once they were inactive for `[jobs] retention_days`."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from hotdesk.api.launch.job_command import ORDERS, list_stray_orders
from hotdesk.api.log import LOG
from hotdesk.api.native.context import Native
from hotdesk.api.tenants import Tenant
from hotdesk.config import Config, get_tenant_settings, list_tenants
from hotdesk.errors import HotdeskError
from hotdesk.job.record.decisions import JOBS, get_journal_path
from hotdesk.job.record.forget import DAY, destroy, explain_retention, forget, list_due, list_strays
from hotdesk.job.record.summary import JobSummary

_FIRST_S = 300.0
"""Seconds from the server's start to the first pass."""
_PERIOD_S = 6 * 3600.0
_BY = "this server"


async def delete_stored_data(
    native: Native, tenant: Tenant, job: str, summary: JobSummary | None, by: str, why: str = ""
) -> None:
    """Delete what is stored of a job: first its key, then the rest, its request and the server's caches of it."""
    jobs = tenant.settings.lib / JOBS
    if summary is not None and (jobs / job).is_dir():
        noted = summary.forgotten is not None
        await run_sync(partial(forget, jobs, job, tenant.host.note, by, why, noted=noted))
    native.stories.forget(tenant.name, job)
    native.swarms.forget(tenant.name, job)
    await run_sync(native.jobs.forget, tenant.name, tenant.settings, job)


class Retention:
    """Applies the retention of every tenant, a few times a day and after each reload."""

    def __init__(self, settings: Config, native: Native) -> None:
        self.settings = settings
        self.native = native
        self.requested = anyio.Event()

    def change_settings(self, settings: Config) -> None:
        self.settings = settings

    def ask(self) -> None:
        self.requested.set()

    async def run(self) -> None:
        pause = _FIRST_S
        while True:
            with anyio.move_on_after(pause):
                await self.requested.wait()
            self.requested, pause = anyio.Event(), _PERIOD_S
            for name in await run_sync(list_tenants, self.settings):
                try:
                    await self.apply(name)
                except (HotdeskError, OSError) as e:
                    LOG.report_error(e)

    async def apply(self, name: str) -> None:
        """Delete what is due of one tenant. Its keeper is started only if there may be something."""
        settings = get_tenant_settings(self.settings, name)
        now, days = int(time.time() * 1000), self.settings.retention_days
        if not get_journal_path(settings).exists():
            return  # without it, every job would look like one that was never recorded
        if not await run_sync(_has_old_folders, settings, now, days):
            return
        tenant = await self.native.tenants.get_tenant(name)
        summaries = await self.native.get_ledger(tenant).read_summaries()
        jobs = settings.lib / JOBS
        for summary in await run_sync(list_due, list(summaries.values()), jobs, now, days):
            try:
                await delete_stored_data(self.native, tenant, summary.job, summary, _BY, explain_retention(days))
            except HotdeskError as e:  # for example a job that was resumed just now
                LOG.report_error(e)
        for folder in await run_sync(list_strays, set(summaries), jobs, now, days):
            await run_sync(destroy, folder)
        for job in await run_sync(list_stray_orders, settings, jobs, now - days * DAY):
            await run_sync(self.native.jobs.forget, name, settings, job)


def _has_old_folders(settings: Config, now: int, days: float) -> bool:
    return any(
        now - path.stat().st_mtime * 1000 >= days * DAY
        for place in (JOBS, ORDERS)
        for path in _list_folder(settings.lib / place)
    )


def _list_folder(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []
