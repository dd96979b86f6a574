"""`hotdesk run`: a command on a fresh desk."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from hotdesk.cli import options
from hotdesk.cli.options import Command, Cpus, Disk, DiskIn, Env, Image, Memory, Pids
from hotdesk.cli.terminal import follow, run_interruptible
from hotdesk.desk.transfer import get, put
from hotdesk.errors import BriefError
from hotdesk.host import Host

DAY = 86400.0


def run(
    *command: Command,
    image: Image = "base",
    cpus: Cpus = 2.0,
    memory: Memory = "2G",
    disk: Disk = "16G",
    disk_in: DiskIn = "disk",
    pids: Pids = 1024,
    timeout: Annotated[float | None, Parameter(help="Seconds until the command is killed; exit code 124.")] = None,
    env: Env = None,
    in_: Annotated[
        list[str] | None, Parameter(name="--in", negative="", help="LOCAL:REMOTE copied in before; repeatable.")
    ] = None,
    out: Annotated[
        list[str] | None, Parameter(name="--out", negative="", help="REMOTE:LOCAL copied out after; repeatable.")
    ] = None,
) -> int:
    """Run a command on a fresh desk, then burn the desk.

    Streams pass through. The exit code is the command's: 124 timeout, 125 hotdesk failed, 126 cannot run,
    127 not found, 128+n ended by signal n. Files are copied out after a failure, too.

    For example:

      hotdesk run -- python3 -c 'print(6*7)'
      hotdesk run --in report.csv:report.csv --out totals.csv:totals.csv -- sh -c 'sort report.csv > totals.csv'
      hotdesk run --memory 512M --timeout 10 -- ./untrusted
    """
    if not command:
        raise BriefError("nothing to run; write the command after `--`, as in `hotdesk run -- uname -a`")
    spec = options.make_spec(image, cpus, memory, disk, disk_in, pids, env)
    spec = replace(spec, deadline=(timeout or DAY) + 300, idle=(timeout or DAY) + 300)
    carried_in = [options.parse_pair(text, "--in") for text in in_ or []]
    carried_out = [options.parse_pair(text, "--out") for text in out or []]

    async def work() -> int:
        async with Host(control=False) as host, host.open_desk(spec) as desk:
            for local, remote in carried_in:
                await put(desk, Path(local), remote)
            code = await follow(desk, list(command), env={}, cwd=None, timeout=timeout)
            for remote, local in carried_out:
                await get(desk, remote, Path(local), lambda text: print(f"hotdesk: {text}", file=sys.stderr))
            return code

    return run_interruptible(work)
