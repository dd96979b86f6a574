"""`hotdesk exec`: a command on an open desk."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.options import Command, Env
from hotdesk.cli.terminal import follow, run_interruptible
from hotdesk.desk.seam import as_id
from hotdesk.errors import BriefError
from hotdesk.host import borrow


def execute(
    desk: Annotated[str, Parameter(help="The desk's id.")],
    /,
    *command: Command,
    cwd: Annotated[str | None, Parameter(help="Folder to run it in.")] = None,
    timeout: Annotated[float | None, Parameter(help="Seconds until the command is killed; exit code 124.")] = None,
    env: Env = None,
) -> int:
    """Run a command on an open desk.

    For example:

      hotdesk exec $ID -- pip install httpx
      hotdesk exec $ID --cwd /tmp --env LANG=C -- sh -c 'ls | wc -l'
    """
    if not command:
        raise BriefError("nothing to run; write the command after `--`, as in `hotdesk exec ID -- uname -a`")

    async def work() -> int:
        async with borrow(config.load(), as_id(desk)) as found:
            return await follow(found, list(command), env=options.parse_env(env), cwd=cwd, timeout=timeout)

    return run_interruptible(work)
