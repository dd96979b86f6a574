"""`run`, `exec`, `ps` and `ssh --stdio` as mostly typed, importing little: Python's start is most of their time.

`run` has the resident holder (`hotdesk.cli.holder`) open a desk for the length of one call, and follows its command
over that call. `exec` does so at the socket of the desk's owner, and `ssh --stdio` there or at the server's. `ps` reads
files. Whatever is unusual (an option that is not listed here, an ordinary user, a holder that is not there or not the
right one) is left to the command itself, which does the same without a holder: `attempt` then returns None, and nothing
has happened yet.

No module here imports `json`, `re`, `socket`, `signal` or `typing`, nor anything of ours that does.
"""

from __future__ import annotations

import os

from hotdesk.cli.quick import arguments

SWITCH = "HOTDESK_HOLDER"
"""The variable that says whether a holder may be used."""
OFF = ("0", "no", "off", "false")


def attempt(argv: list[str]) -> int | None:
    """Carry a command line out; None: nothing was done, and the command itself has to."""
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
