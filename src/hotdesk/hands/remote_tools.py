"""The tools of one owner's desks, for other processes of its user over its control socket.

GET  /desks/ID/tools        the tools: name, description and parameters of each
POST /desks/ID/tools/NAME   use one; the body has its arguments
"""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Awaitable, Callable
from dataclasses import field

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.owner.control import NOTHING
from hotdesk.desk.owner.control_http import respond
from hotdesk.desk.seam import DeskId
from hotdesk.errors import BriefError, unwrap_group
from hotdesk.hands.output import describe_left_out_picture
from hotdesk.hands.toolbox import Toolbox
from hotdesk.linux.sockets import receive
from hotdesk.tool import Observation

MAX_IMAGE_BYTES = 10 << 20
"""Maximum bytes of a picture in an answer, where it takes a third more; a caller reads 16 MiB at most."""


@dataclass(slots=True)
class LentToolbox:
    """The tools of one desk, made at the first call; other calls wait for them."""

    making: anyio.Lock = field(default_factory=anyio.Lock)
    toolbox: Toolbox | None = None


class Lending:
    """One toolbox for each desk, shared by all callers, so that a shell session continues in the next call."""

    def __init__(self, hands: Callable[[LinkedDesk], Awaitable[Toolbox]]) -> None:
        self.hands = hands
        self.lent: dict[DeskId, LentToolbox] = {}

    async def answer(self, sock: socket.socket, method: str, desk: LinkedDesk, parts: list[str], body: bytes) -> None:
        toolbox = await self.ensure_toolbox(desk)
        match method, parts:
            case "GET", ["tools"]:
                await respond(sock, 200, toolbox.describe())
            case "POST", ["tools", name]:
                observation = await self.use(sock, toolbox, name, json.loads(body or b"{}"))
                await respond(sock, 200, as_json(observation))
            case _:
                raise BriefError(NOTHING)

    async def ensure_toolbox(self, desk: LinkedDesk) -> Toolbox:
        lent = self.lent.setdefault(desk.id, LentToolbox())
        async with lent.making:
            if lent.toolbox is None:
                if desk.link.suspended:
                    raise BriefError(f"a person has control of desk {desk.id}; try again after they hand it back")
                lent.toolbox = await self.hands(desk)
            return lent.toolbox

    async def use(self, sock: socket.socket, toolbox: Toolbox, name: str, arguments: object) -> Observation:
        observation = Observation(ok=False)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hang_up, sock, tasks.cancel_scope)
                observation = await toolbox.use(name, arguments)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise unwrap_group(group) from None
        return observation

    def leave(self, desk: DeskId) -> None:
        self.lent.pop(desk, None)


async def hang_up(sock: socket.socket, scope: anyio.CancelScope) -> None:
    """Cancel when the caller disconnects."""
    await receive(sock)
    scope.cancel()


def as_json(observation: Observation) -> dict[str, object]:
    image, note = observation.image, observation.note
    if len(image) > MAX_IMAGE_BYTES:
        note = "\n".join(filter(None, (note, describe_left_out_picture(len(image), MAX_IMAGE_BYTES))))
        image = b""
    fields = {"text": observation.text, "ok": observation.ok, "note": note, "fallback": observation.fallback}
    return {**fields, "media": observation.media, "image": base64.b64encode(image).decode()}
