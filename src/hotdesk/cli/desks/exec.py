"""`hotdesk exec`: run a command on an open desk."""

from __future__ import annotations

import argparse

from hotdesk import config
from hotdesk.cli import options
from hotdesk.cli.ids import find_desk
from hotdesk.cli.terminal import follow, run_interruptible
from hotdesk.host import borrow
from hotdesk.linux.landlock import confine


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("desk", help="the desk's id, or a prefix of it")
    parser.add_argument("--cwd", help="working folder in the desk")
    parser.add_argument("--user", choices=("user", "root"), default="user", help="the user in the desk (default: user)")
    options.add_timeout(parser)
    options.add_env(parser)
    options.add_command(parser)


def main(arguments: argparse.Namespace) -> int:
    """Run a command on an open desk.

    For example:

      hotdesk exec $ID -- pip list
      hotdesk exec $ID --cwd /tmp --env LANG=C -- sh -c 'ls | wc -l'
    """
    command = options.require_command(arguments.command, "hotdesk exec ID -- uname -a")
    env = options.parse_env(arguments.env)
    settings = config.load()
    chosen = find_desk(settings, arguments.desk)

    async def work() -> int:
        confine([])
        async with borrow(settings, chosen) as desk:
            return await follow(
                desk, command, env=env, cwd=arguments.cwd, timeout=arguments.timeout, user=arguments.user
            )

    return run_interruptible(work)
