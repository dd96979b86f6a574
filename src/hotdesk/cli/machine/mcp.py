"""`hotdesk mcp`: give an MCP client a desk, over standard input and output."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from pathlib import Path

from hotdesk import config
from hotdesk.api.mcp.desk_limits import IDLE, LASTING, McpPolicy
from hotdesk.cli import options, unlock
from hotdesk.cli.desks.run import can_ask, show
from hotdesk.cli.job_request import say
from hotdesk.cli.parser import parse_timeout
from hotdesk.cli.terminal import run_interruptible
from hotdesk.config import Config
from hotdesk.desk.image import image, sterilize
from hotdesk.drive.identity import describe_actor, get_current_user
from hotdesk.drive.keep import Drive
from hotdesk.errors import ImageError
from hotdesk.host import Host, control_path
from hotdesk.linux.landlock import confine

_CHECKED_IN = ("base", "office")
"""Images in which delivered files are checked."""


def add(parser: argparse.ArgumentParser) -> None:
    options.add_spec(parser)
    parser.set_defaults(image="desktop")
    options.add_scope(parser)
    parser.add_argument(
        "--idle",
        type=parse_timeout,
        default=IDLE,
        metavar="SECONDS",
        help=f"burn the desk after this time without use (default: {IDLE:.0f})",
    )


def main(arguments: argparse.Namespace) -> int:
    """Give an MCP client a desk: shell, files, browser, screen, packages, and a tool to deliver files.

    The desk is opened when a tool is first used, and burnt when the client disconnects. Only these options decide its
    size and what it may reach.

    For example:

      hotdesk mcp
      hotdesk mcp --image desktop --allow pypi --memory 2G
    """
    # Their packages are an extra, which --help does not need.
    from hotdesk.api.mcp.session import McpSession
    from hotdesk.api.mcp.stdio import serve

    spec = options.make_spec(arguments, deadline=LASTING, idle=arguments.idle)
    scope = options.make_scope(arguments)
    settings = config.load()
    key = unlock.find(settings, scope) if scope.grants else ""
    writable = _prepare_storage(settings) if os.geteuid() == 0 else []

    async def work() -> int:
        async with Host(settings) as host:
            confine(writable)
            if os.geteuid() == 0:
                await host.prepare()
                if can_ask(scope):
                    host.doors.on_question = show
                if key:
                    await host.doors.unlock(key)
            await serve(McpSession(host, McpPolicy(spec, scope), get_current_user(), f"{describe_actor()} mcp"))
        return 0

    return run_interruptible(work)


def _prepare_storage(settings: Config) -> list[Path]:
    """Create the drive and sterile images before privileges are dropped; return the writable folders."""
    Drive(settings.lib / "drive")
    for name in _CHECKED_IN:
        with suppress(ImageError):
            sterilize.make(settings.images, image.find(settings.images, name), say)
    return [settings.lib / "drive", control_path(settings, 0).parent]
