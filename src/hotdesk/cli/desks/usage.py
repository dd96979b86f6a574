"""`hotdesk usage`: show the resource usage of desks."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.desks.ps import find_all_desks
from hotdesk.cli.ids import find_desk
from hotdesk.cli.terminal import align_columns, run_interruptible
from hotdesk.config import DEFAULT_TENANT, MIB, Config, get_tenant_settings
from hotdesk.desk.seam import DeskId, Usage, as_id
from hotdesk.errors import DeskGone, HostError
from hotdesk.host import borrow
from hotdesk.linux.landlock import confine


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("desks", nargs="*", metavar="ID", help="ids of desks (default: every open desk)")
    parser.add_argument("--tenant", help="show only this tenant's desks (for root only; default: all tenants)")
    options.add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Show the resource usage of desks: processor time, memory, disk, processes.

    For example:

      hotdesk usage
      hotdesk usage $ID --json
    """

    settings = config.load()
    chosen = _select_desks(settings, arguments.desks, arguments.tenant)

    async def work() -> int:
        confine([])
        found: dict[tuple[str, str], Usage] = {}
        for tenant, each in chosen:
            try:
                async with borrow(get_tenant_settings(settings, tenant), each) as desk:
                    found[tenant, each] = await desk.usage()
            except (DeskGone, HostError):
                if arguments.desks:
                    raise  # otherwise it ended meanwhile, or its owner does not lend it
        show(found, as_json=arguments.json)
        return 0

    return run_interruptible(work)


def _select_desks(settings: Config, names: list[str], tenant: str | None) -> list[tuple[str, DeskId]]:
    if names:
        of = tenant or DEFAULT_TENANT
        return [(of, find_desk(get_tenant_settings(settings, of), name)) for name in names]
    found = find_all_desks(settings, tenant)
    return [(str(facts["tenant"]), as_id(str(facts["id"]))) for facts in found if facts["kept"]]


def show(found: dict[tuple[str, str], Usage], *, as_json: bool) -> None:
    if as_json:
        usages = [{"id": name, "tenant": tenant, **asdict(usage)} for (tenant, name), usage in found.items()]
        print(json.dumps(usages, indent=1))
        return
    rows = [("ID", "TENANT", "CPU", "MEMORY", "DISK", "PIDS", "OOM KILLS")]
    rows += [
        (
            name,
            tenant,
            f"{usage.cpu:.2f}s",
            f"{usage.memory / MIB:.1f}M",
            f"{usage.disk / MIB:.1f}M",
            str(usage.pids),
            str(usage.oom_kills),
        )
        for (tenant, name), usage in found.items()
    ]
    print("\n".join(align_columns(rows)))
