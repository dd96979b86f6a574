"""`hotdesk gc`: remove what killed processes, replaced images and old jobs left behind."""

from __future__ import annotations

import argparse
import json
import time

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.jobs.decision import JOBS, get_journal_path
from hotdesk.cli.jobs.forget import forget_all
from hotdesk.cli.machine.image import say
from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config, list_tenant_settings
from hotdesk.desk.image import store
from hotdesk.desk.image.build import require_root
from hotdesk.desk.keeper import state
from hotdesk.desk.owner.runtime import bury as bury_orphans
from hotdesk.drive.keep import Drive
from hotdesk.errors import HostError, HotdeskError
from hotdesk.job.record.forget import destroy, list_due, list_strays
from hotdesk.job.record.summary import read_summaries


def add(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Remove what killed processes, replaced images and old jobs left behind.

    Removes desks of all tenants whose keeper was killed, layers that no image uses, stale bytecode, and data in the
    drive without a name. A job's stored data is deleted after `[jobs] retention_days` (30) without activity.

    For example:

      hotdesk gc
      hotdesk gc --json | jq .bytes
    """
    settings = config.load()
    require_root("cleaning up this machine")
    orphans = _bury_all(settings)
    swept = store.sweep(settings.images, say)
    forgotten = _forget_old(settings)
    unnamed = Drive(settings.lib / "drive").sweep() if (settings.lib / "drive").exists() else 0
    layers = [each for each in swept if each.kind == "layer"]
    size = sum(each.size for each in swept)
    if arguments.json:
        removed = {
            "desks": orphans,
            "layers": [each.name for each in layers],
            "copies": [each.name for each in swept if each.kind == "copy"],
            "guest": [each.name for each in swept if each.kind == "guest"],
            "jobs": forgotten,
            "drive": unnamed,
            "bytes": size,
        }
        print(json.dumps(removed, indent=1))
        return 0
    print(f"orphaned desks: {len(orphans)} removed")
    print(f"layers: {len(layers)} removed, {sum(each.size for each in layers) / 1e6:.0f} MB")
    copies = [each for each in swept if each.kind == "copy"]
    print(f"clean copies of images: {len(copies)} removed, {sum(each.size for each in copies) / 1e6:.0f} MB")
    print(f"guest bytecode: {sum(each.kind == 'guest' for each in swept)} stale files removed")
    print(f"jobs: {len(forgotten)} deleted")
    print(f"drive: {unnamed / 1e6:.0f} MB of data without a name removed")
    return 0


def _forget_old(settings: Config) -> list[str]:
    """Delete the stored data of jobs that are due; return their ids."""
    days, now, jobs = settings.retention_days, int(time.time() * 1000), settings.lib / JOBS
    summaries = read_summaries(get_journal_path(settings))
    found = list_due(summaries, jobs, now, days)
    if found:
        forget_all(settings, found, f"no activity for {days:g} days")
    stray = list_strays((summary.job for summary in summaries), jobs, now, days)
    for folder in stray:
        destroy(folder)
    return [*(summary.job for summary in found), *(folder.name for folder in stray)]


def _bury_all(settings: Config) -> list[str]:
    """Bury the orphaned desks of every tenant; an error of one does not keep the others."""
    buried: list[str] = []
    errors = []
    for each in list_tenant_settings(settings):
        try:
            buried += bury(each)
        except HotdeskError as e:
            errors.append(str(e))
    if errors:
        raise HostError("; ".join(errors))
    return buried


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
