"""`hotdesk watch`: show a desk's screen in a web page."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import anyio

from hotdesk import config
from hotdesk.api import web
from hotdesk.cli.ids import find_desk
from hotdesk.cli.terminal import run_interruptible
from hotdesk.errors import BriefError, DeskGone, HostError
from hotdesk.hands import page
from hotdesk.hands.page import novnc
from hotdesk.hands.page.login import CODE_SECONDS, PageLogin
from hotdesk.hands.page.server import PageServer
from hotdesk.hands.screen.remote_screen import Far
from hotdesk.host import reach
from hotdesk.linux.landlock import confine

LOOK = 1.0
"""Seconds between two checks whether the page was opened and the desk still exists."""
_OPENER = "xdg-open"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("desk", metavar="ID", help="the id of an open desk")
    parser.add_argument("--control", action="store_true", help="let the user of the page take control of the desk")
    parser.add_argument("--no-open", action="store_true", help="print the page's address, and do not open a browser")
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="the port to listen on at 127.0.0.1 (default: any)"
    )
    parser.add_argument("--json", action="store_true", help="print the address as JSON")


def main(arguments: argparse.Namespace) -> int:
    """Show a desk's screen in a web page, live, until Ctrl-C or the desk's end.

    The address works once, within a minute. With --control you can take control: the worker is
    suspended then, and its programs stop except screen, window manager and browser; at a desk
    without a worker they continue. The desk can still read what you type.

    For example:

      hotdesk watch $ID
      hotdesk watch --control $ID
    """
    settings = config.load()
    desk = find_desk(settings, arguments.desk)
    if os.geteuid() != 0 and novnc.read_version(settings.lib) is None:
        raise HostError(
            "Only root can read the screen viewer in the machine's state directory: use `sudo hotdesk watch`, or "
            "the web page of `hotdesk serve`."
        )
    page_files = page.load(novnc.get_folder(settings.lib), files(web) / "static")
    login = PageLogin(time.monotonic)

    async def work() -> int:
        with listening(arguments.port) as listener:
            async with reach(settings, desk) as lent:
                owner = Far(lent.runtime, desk)
                (
                    await owner.open_screen(secrets.token_hex(16), control=False)
                ).close()  # it can be shown; otherwise this raises the reason
                port = listener.getsockname()[1]
                address = f"http://127.0.0.1:{port}/enter/{login.invite()}"
                tell(desk, address, arguments.json)
                with open_browser(address, not arguments.no_open):
                    confine([])
                    return await serve(PageServer(desk, owner, login, page_files, port, arguments.control), listener)

    return run_interruptible(work)


async def serve(server: PageServer, listener: socket.socket) -> int:
    """Serve the page until the desk ends or its screen is no longer available."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, listener)
        gone = await wait_for_end(server)
        await anyio.sleep(2 * LOOK)  # gives the page time to report the end
        tasks.cancel_scope.cancel()
    if gone is not None and not server.login.sessions:
        raise gone
    if not server.login.sessions:
        raise BriefError(f"the page was not opened within {CODE_SECONDS:.0f} s; run `hotdesk watch` again")
    return 0


async def wait_for_end(server: PageServer) -> DeskGone | None:
    """Wait until the desk ends, and return that error; return `None` if the page's login is over."""
    try:
        while not server.login.is_over():
            await anyio.sleep(LOOK)
            await server.owner.get_wheel()
    except DeskGone as e:
        return e
    return None


@contextlib.contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """Listen on the loopback address only."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as e:
            why = e.strerror if isinstance(e, OSError) else "ports are 0 to 65535"
            raise HostError(f"cannot listen on port {port} of 127.0.0.1: {why}; choose another with --port") from e
        listener.listen(64)
        listener.setblocking(False)
        yield listener


def tell(desk: str, address: str, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"desk": desk, "url": address}), flush=True)
    else:
        print(
            f"{address}\nThe address works once, within {CODE_SECONDS:.0f} s. Ctrl-C ends the page.",
            file=sys.stderr,
            flush=True,
        )


@contextlib.contextmanager
def open_browser(address: str, enabled: bool) -> Iterator[None]:
    """Open an address in the user's browser, through a private file: other users can read command lines."""
    opener = shutil.which(_OPENER)
    if not enabled or opener is None or not ({"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ)):
        yield
        return
    folder = Path(tempfile.mkdtemp(prefix="hotdesk-watch-"))
    with _remove_at_end(folder):
        note = folder / "desk.html"
        note.touch(mode=0o600)
        note.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">')
        subprocess.Popen(
            [opener, str(note)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        yield


@contextlib.contextmanager
def _remove_at_end(folder: Path) -> Iterator[None]:
    """Remove a folder at the end of the block, or of this process: a confined process cannot. A child does it."""
    argv = ["sh", "-c", 'cat >/dev/null; exec rm -rf -- "$1"', "sh", str(folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True):
        yield
