"""`hotdesk run`: run a command on a fresh desk."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from hotdesk.brief.data import CLOSED, Scope
from hotdesk.brief.names import put_domain_first
from hotdesk.cli import FAILED, options, prestart
from hotdesk.cli.parser import MAX_SECONDS
from hotdesk.cli.terminal import follow, run_interruptible
from hotdesk.config import Config
from hotdesk.desk.owner.transfer import get, put
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import HotdeskError, make_printable
from hotdesk.event import Asked
from hotdesk.host import Host, control_path
from hotdesk.linux.landlock import confine

DAY = 86400.0
SHOWN = 200
"""Maximum characters shown of an access request's target."""


def add(parser: argparse.ArgumentParser) -> None:
    options.add_spec(parser)
    options.add_scope(parser)
    options.add_timeout(parser)
    parser.add_argument(
        "--in",
        action="append",
        dest="carried_in",
        metavar="LOCAL:REMOTE",
        help="copy a local file into the desk before the command; repeatable",
    )
    parser.add_argument(
        "--out",
        action="append",
        metavar="REMOTE:LOCAL",
        help="copy a file out of the desk after the command; repeatable",
    )
    parser.add_argument(
        "--no-holder",
        action="store_true",
        help="open the desk in this process, without the background helper (the holder)",
    )
    options.add_command(parser)


async def _bring_out(desk: Desk, pairs: list[tuple[str, str]]) -> bool:
    """Copy each result out, even if another failed; return whether all were copied."""
    failures = 0
    for remote, local in pairs:
        try:
            await get(desk, remote, Path(local), complain)
        except HotdeskError as e:
            complain(make_printable(str(e)))
            failures += 1
    return failures == 0


def complain(text: str) -> None:
    print(f"hotdesk: {text}", file=sys.stderr, end="\r\n" if os.isatty(2) else "\n")  # the terminal of a shell is raw


def can_ask(scope: Scope) -> bool:
    return scope.may_ask or any(rule.verdict == "ask" for rule in scope.rules)


def show(question: Asked) -> None:
    what = put_domain_first(question.host, f"{question.method} {question.host}{question.path}")[:SHOWN]
    complain(
        make_printable(f"desk {question.desk} requests access: {what}; allow it with `hotdesk approve {question.id}`")
    )


def make_run_spec(arguments: argparse.Namespace) -> Spec:
    lasting = min((arguments.timeout or DAY) + 300, MAX_SECONDS)
    return options.make_spec(arguments, deadline=lasting, idle=lasting)


def main(arguments: argparse.Namespace) -> int:
    """Run a command on a new desk, then burn the desk.

    Streams pass through. The exit code is the command's: 124 timeout, 125 hotdesk failed,
    126 cannot run, 127 not found, 128+n ended by signal n. Files are copied out after a
    failure, too. Put hotdesk's own options before the command; everything after it belongs to the command.

    For example:

      hotdesk run -- python3 -c 'print(6*7)'
      hotdesk run --in a.csv:a.csv --out b.csv:b.csv -- sh -c 'sort a.csv > b.csv'
      hotdesk run --memory 512M --timeout 10 -- ./untrusted
      hotdesk run --allow pypi -- pip download requests
      hotdesk run --allow erp.test --grant erp-token@erp.test -- curl https://erp.test/orders
    """
    command = options.require_command(arguments.command, "hotdesk run uname -a")
    spec = make_run_spec(arguments)
    carried_in = [options.parse_pair(text, "--in") for text in arguments.carried_in or []]
    carried_out = [options.parse_pair(text, "--out") for text in arguments.out or []]
    written = [Path(local) for _, local in carried_out]
    scope = options.make_scope(arguments)
    settings = prestart.get_settings()
    key = options.find_key(settings, scope)

    confine_to = partial(confine, any_owner=bool(carried_in or carried_out))

    async def work() -> int:
        async with open_fresh_desk(settings, spec, scope, key, lambda own: confine_to([*written, *own])) as desk:
            for local, remote in carried_in:
                await put(desk, Path(local), remote)
            code = await follow(desk, command, env={}, cwd=None, timeout=arguments.timeout)
            brought = await _bring_out(desk, carried_out)
            return code if code or brought else FAILED

    return run_interruptible(work)


@asynccontextmanager
async def open_fresh_desk(
    settings: Config, spec: Spec, scope: Scope, key: str, confine_to: Callable[[list[Path]], None]
) -> AsyncIterator[Desk]:
    """Open a desk with the given scope while the block runs.

    `key` unlocks the vault. `confine_to` drops this process's privileges, except for writing to the folders it gets. An
    ordinary user's desk is opened by a server, which also has its door and answers its questions.
    """
    own = os.geteuid() == 0 and scope != CLOSED
    async with Host(settings, control=can_ask(scope), keeper=prestart.take_keeper()) as host:
        confine_to([control_path(settings, 0).parent] if can_ask(scope) else [])
        if own:
            host.doors.on_question = show
        if own and key:
            await host.doors.unlock(key)
        async with host.open_desk(spec, scope) as desk:
            yield desk
