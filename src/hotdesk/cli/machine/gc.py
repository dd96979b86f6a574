"""`hotdesk gc`: remove what killed processes, replaced images and old jobs left behind."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import field

from hotdesk import config
from hotdesk.api.launch.job_command import list_stray_orders, remove_order
from hotdesk.cli import FAILED, options
from hotdesk.cli.jobs.decision import JOBS, get_journal_path
from hotdesk.cli.jobs.forget import forget_all
from hotdesk.cli.machine.image import say
from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import DEFAULT_TENANT, Config, get_tenant_settings, list_tenants
from hotdesk.dataclass import dataclass
from hotdesk.desk.image import store
from hotdesk.desk.image.build import require_root
from hotdesk.desk.keeper import state
from hotdesk.desk.owner.runtime import bury as bury_orphans
from hotdesk.drive.keep import Drive
from hotdesk.errors import HostError, HotdeskError
from hotdesk.job.record.forget import DAY, destroy, explain_retention, list_due, list_strays
from hotdesk.job.record.summary import read_summaries


def add(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Remove what killed processes, replaced images and old jobs left behind.

    Removes desks whose keeper was killed, layers that no image uses, stale bytecode, and data in the drive without a
    name, of all tenants. A job's stored data is deleted after `[jobs] retention_days` (30) without activity; a server
    does that by itself a few times a day.

    For example:

      hotdesk gc
      hotdesk gc --json | jq .bytes
    """
    settings = config.load()
    require_root("cleaning up this machine")
    done = _CleanedUp()
    for tenant in list_tenants(settings):
        for work in (_bury, _forget_old, _sweep_drive):
            try:
                work(get_tenant_settings(settings, tenant), done)
            except HotdeskError as e:  # must not keep the rest
                done.errors.append(str(e) if tenant == DEFAULT_TENANT else f"tenant {tenant}: {e}")
    swept = store.sweep(settings.images, say)
    layers = [each for each in swept if each.kind == "layer"]
    size = sum(each.size for each in swept)
    if arguments.json:
        removed = {
            "desks": done.desks,
            "layers": [each.name for each in layers],
            "copies": [each.name for each in swept if each.kind == "copy"],
            "guest": [each.name for each in swept if each.kind == "guest"],
            "jobs": done.jobs,
            "drive": done.unnamed,
            "bytes": size,
        }
        print(json.dumps(removed, indent=1))
        return done.exit_code()
    print(f"orphaned desks: {len(done.desks)} removed")
    print(f"layers: {len(layers)} removed, {sum(each.size for each in layers) / 1e6:.0f} MB")
    copies = [each for each in swept if each.kind == "copy"]
    print(f"clean copies of images: {len(copies)} removed, {sum(each.size for each in copies) / 1e6:.0f} MB")
    print(f"guest bytecode: {sum(each.kind == 'guest' for each in swept)} stale files removed")
    print(f"jobs: {len(done.jobs)} deleted")
    print(f"drive: {done.unnamed / 1e6:.0f} MB of data without a name removed")
    return done.exit_code()


@dataclass(slots=True)
class _CleanedUp:
    """What was removed of all tenants."""

    desks: list[str] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    unnamed: int = 0
    """Bytes in drives that had no name."""
    errors: list[str] = field(default_factory=list)

    def exit_code(self) -> int:
        for error in self.errors:
            print(f"hotdesk: {error}", file=sys.stderr)
        return FAILED if self.errors else 0


def _forget_old(settings: Config, done: _CleanedUp) -> None:
    """Delete the stored data of jobs that are due, and requests of which a server kept nothing else."""
    days, now, jobs = settings.retention_days, int(time.time() * 1000), settings.lib / JOBS
    if not get_journal_path(settings).exists():
        return  # without it, every job would look like one that was never recorded
    summaries = read_summaries(get_journal_path(settings))
    found = list_due(summaries, jobs, now, days)
    if found:
        forget_all(settings, found, explain_retention(days))
        done.jobs += [summary.job for summary in found]
    for folder in list_strays((summary.job for summary in summaries), jobs, now, days):
        destroy(folder)
        done.jobs.append(folder.name)
    for job in list_stray_orders(settings, jobs, now - days * DAY):
        remove_order(settings, job)


def _sweep_drive(settings: Config, done: _CleanedUp) -> None:
    if (settings.lib / "drive").exists():
        done.unnamed += Drive(settings.lib / "drive").sweep()


def _bury(settings: Config, done: _CleanedUp) -> None:
    done.desks += bury(settings)


def bury(settings: Config) -> list[str]:
    """Have a keeper remove the desks whose own keeper was killed; return their ids."""
    orphaned = state.list_orphans(settings)
    if not orphaned:
        return []

    async def work() -> int:
        await bury_orphans(settings)
        return 0

    if code := run_interruptible(work):
        raise SystemExit(code)
    if leftovers := set(orphaned) & set(state.list_orphans(settings)):
        raise HostError(f"desks {', '.join(sorted(leftovers))} could not be removed; `hotdesk gc --debug` shows why")
    return orphaned
