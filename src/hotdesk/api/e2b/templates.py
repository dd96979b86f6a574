"""E2B's templates: the image of each, and the programs that must run before a sandbox is handed over."""

from __future__ import annotations

import json
from collections.abc import Mapping

import anyio

from hotdesk.api.e2b.responses import E2bError, log
from hotdesk.desk.owner.runtime import READY
from hotdesk.desk.seam import Desk
from hotdesk.errors import DeskError, HotdeskError, make_printable
from hotdesk.linux.pace import scale_seconds
from hotdesk.linux.sockets import receive, send
from hotdesk.walls import NAMES

IMAGES = {"desktop": "e2b-desktop"}
"""Templates whose image has another name: E2B's desktop is not ours."""
_INTERPRETER = "code-interpreter-v1"
_GATEWAY = "mcp-gateway"
"""The template of a sandbox with MCP servers: E2B's own image, which is not installed by default."""
PLAIN = frozenset(("base", "office", "desktop", "e2b-desktop"))
"""Images without programs to start; an image saved from a sandbox may have some."""
WALL_KEY = "hotdesk.wall"
"""The metadata key with which a program requests a wall that its template does not name."""
_NO_METADATA: Mapping[str, str] = {}
MISSING = 127
"""The exit code for a program that does not exist."""
MARK = "HOTDESK_PROCESS"
"""An environment variable that is different for each program."""
PORT = 49999
START_TIMEOUT_S = 60.0
_MAX_ENV_BYTES = 1 << 20
"""Bytes that the environment variables of a desk's programs may have."""


def parse_image_name(template: str) -> str:
    """Return the name of the image that a template means, without its tag and wall."""
    name = template.rpartition("/")[2].partition(":")[0].partition("@")[0]
    return IMAGES.get(name, name)


def parse_wall(template: str, metadata: Mapping[str, str] = _NO_METADATA) -> str:
    """Return the wall that a template (`base@gvisor`) or a sandbox's metadata requests; empty if none."""
    wall = template.partition("@")[2] or metadata.get(WALL_KEY, "")
    if wall and wall not in NAMES[1:]:
        raise E2bError(400, f"unknown wall '{make_printable(wall[:64])}'; the walls are {', '.join(NAMES[1:])}")
    return wall


def make_missing_template_error(template: str) -> E2bError:
    if parse_image_name(template) == _GATEWAY:
        return E2bError(
            404,
            f"template {_GATEWAY} not found: the server's operator can build it with `hotdesk image build "
            f"./{_GATEWAY}.toml`, from a recipe of the operator's own",
        )
    return E2bError(404, f"template '{template}' not found")


async def start(desk: Desk, image: str) -> None:
    """Start the programs that an image promises; opened, copied and restarted desks need it."""
    if image in PLAIN:
        return
    limit = scale_seconds(START_TIMEOUT_S)
    try:
        with anyio.fail_after(limit):
            if image == _INTERPRETER and await _introduce(desk):
                return
            done = await desk.run([READY], timeout=limit, output_limit=_MAX_ENV_BYTES)
    except TimeoutError:
        raise E2bError(500, f"this template did not start within {limit:.0f} s; try again") from None
    if not done.ok and (image == _INTERPRETER or done.exit_code != MISSING):
        if image == _INTERPRETER:
            raise DeskError(f"the sandbox's code interpreter did not start (exit status {done.exit_code}); try again")
        output = (done.stderr or done.stdout).decode("utf-8", "replace")
        lines = output.splitlines() or [f"exit status {done.exit_code}"]
        raise E2bError(500, f"this template did not start: {make_printable(lines[-1][:300])}")


async def renew_variables(desk: Desk, image: str) -> None:
    """Tell a code interpreter that continues in another desk that desk's variables; other programs need nothing."""
    if image != _INTERPRETER:
        return
    try:
        with anyio.fail_after(scale_seconds(START_TIMEOUT_S)):
            if not await _introduce(desk):
                raise DeskError(
                    f"the code interpreter of desk {desk.id} did not accept the desk's variables; its programs see "
                    "those of the desk it comes from"
                )
    except (HotdeskError, TimeoutError, OSError) as e:
        log(e)


async def _introduce(desk: Desk) -> bool:
    """Send a running code interpreter this desk's environment variables; return `False` if that fails."""
    try:
        sock = await desk.dial(PORT)
    except DeskError:
        return False
    try:
        found = await desk.run(
            ["cat", "/proc/self/environ"], timeout=scale_seconds(START_TIMEOUT_S), output_limit=_MAX_ENV_BYTES
        )
        pairs = (each.partition("=") for each in found.text.split("\0") if each)
        body = json.dumps({"env": {key: value for key, _, value in pairs if key != MARK}}).encode()
        await send(sock, b"POST /init HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        return (await receive(sock)).startswith(b"HTTP/1.1 204 ")
    finally:
        sock.close()
