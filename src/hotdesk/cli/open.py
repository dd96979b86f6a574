"""`hotdesk open`: a desk that stays, kept by a holder in the background."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from hotdesk import config
from hotdesk.cli import hold, options
from hotdesk.cli.options import Cpus, Disk, DiskIn, Env, Image, Memory, Pids
from hotdesk.cli.terminal import run_interruptible


def open_desk(
    *,
    image: Image = "base",
    cpus: Cpus = 2.0,
    memory: Memory = "2G",
    disk: Disk = "16G",
    disk_in: DiskIn = "disk",
    pids: Pids = 1024,
    env: Env = None,
    deadline: Annotated[float, Parameter(help="Seconds until it is burnt, whatever it is doing.")] = 3600.0,
    idle: Annotated[float, Parameter(help="Seconds without use until it is burnt.")] = 900.0,
    as_json: Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")] = False,
) -> int:
    """Open a desk that stays, and print its id. It burns at its deadline, when idle, or by `hotdesk burn`.

    For example:

      ID=$(hotdesk open --memory 4G)
      hotdesk exec $ID -- uname -a
    """
    spec = options.make_spec(image, cpus, memory, disk, disk_in, pids, env)

    async def work() -> int:
        desk = await hold.open_held(config.load(), replace(spec, deadline=deadline, idle=idle))
        print(json.dumps({"id": desk}) if as_json else desk)
        return 0

    return run_interruptible(work)
