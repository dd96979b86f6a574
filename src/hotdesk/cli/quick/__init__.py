"""Fast paths of usual `run`, `exec`, `ps` and `ssh --stdio` commands, with few imports: Python's start dominates them.

`run` has the resident holder (`hotdesk.cli.holder`) open a desk for one connection, and follows its command over that
connection. `exec` uses the socket of the desk's owner, and `ssh --stdio` that one or the server's. `ps` reads files.
Anything unusual (an option that is not listed here, an ordinary user, a missing or different holder) is left to the
regular command, which does the same without a holder: `attempt` then returns `None`, and nothing has happened.

A module here imports `json` only where it needs it, and never `re`, `socket`, `signal` or `typing`, nor modules of
hotdesk that do.
"""

from __future__ import annotations

import os

from hotdesk.cli.quick import arguments

SWITCH = "HOTDESK_HOLDER"
"""Environment variable that disables the use of a holder."""
OFF = ("0", "no", "off", "false")


def attempt(argv: list[str]) -> int | None:
    """Run a command line; return its exit code, or `None` if nothing was done and the regular command must run."""
    if not argv or os.environ.get("HOTDESK_DEBUG") or (os.geteuid() != 0 and argv[0] != "ssh"):
        return None
    match argv[0]:
        case "run":
            may_hold = os.environ.get(SWITCH, "").lower() not in OFF
            order = arguments.parse_run(argv[1:])
            if order is not None:
                from hotdesk.cli.quick.run import run

                return run(order, may_hold=may_hold and not order.is_alone)
        case "exec":
            if (call := arguments.parse_exec(argv[1:])) is not None:
                from hotdesk.cli.quick.exec import run as run_exec

                return run_exec(call)
        case "ps":
            if (options := arguments.parse_ps(argv[1:])) is not None:
                from hotdesk.cli.quick.ps import run as run_ps

                return run_ps(*options)
        case "ssh":
            if (desk := arguments.parse_ssh(argv[1:])) is not None:
                from hotdesk.cli.quick import ssh

                return ssh.run(desk)
    return None
