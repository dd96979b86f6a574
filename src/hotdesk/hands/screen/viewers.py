"""Viewers of one owner's screens, and who has control; reached over the owner's control socket.

GET  /desks/ID/view/NAME          upgrade to the screen, as RFB; NAME is chosen by the caller
GET  /desks/ID/view/NAME/control  the same, for a viewer that may take control
GET  /desks/ID/wheel              who watches, who has control, and since when
POST /desks/ID/wheel              take control, keep it, hand it back, or have a secret's placeholder typed:
                                  {"act": "take", "viewer": NAME, "secret": ""}
"""

from __future__ import annotations

import functools
import json
import re
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from hotdesk.dataclass import dataclass
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.lend import join
from hotdesk.desk.owner.control import NOTHING
from hotdesk.desk.owner.control_bodies import name_caller, parse_behind
from hotdesk.desk.owner.control_http import respond, switch
from hotdesk.desk.owner.keeper_handle import KeeperHandle, suspend
from hotdesk.desk.seam import DeskId
from hotdesk.errors import BriefError, DeskError, HotdeskError
from hotdesk.event import Note
from hotdesk.hands.reader import SCREEN_PORT
from hotdesk.hands.reader.view import GONE
from hotdesk.hands.screen.reader_client import DeskSeat, dial
from hotdesk.hands.screen.takeover import Wheel
from hotdesk.ipc.tasks import Background
from hotdesk.linux.sockets import get_peer

NAME = re.compile(r"[a-z0-9]{16,64}", re.ASCII)
"""A viewer's secret name for itself."""
PROTOCOL = "hotdesk-screen"


@dataclass(frozen=True, slots=True)
class Viewer:
    number: int
    may_drive: bool


class Watching:
    """The viewers of one owner's desks."""

    def __init__(
        self,
        seat: Callable[[LinkedDesk], DeskSeat],
        ready: Callable[[], Awaitable[None]],
        note: Note,
        tasks: Background,
        personal: set[DeskId],
    ) -> None:
        self.seat = seat
        self.ready = ready
        """Prepares the recorder of events; awaited before control is given."""
        self.note = note
        self.tasks = tasks
        self.personal = personal
        """Desks that people opened for themselves, and that no worker has used yet."""
        self.wheels: dict[DeskId, Wheel] = {}
        self.viewers: dict[DeskId, dict[str, Viewer]] = {}

    def get_wheel(self, desk: LinkedDesk) -> Wheel:
        if desk.id not in self.wheels:
            secrets, has_worker = _get_placeholders(desk), lambda: desk.id not in self.personal
            stop = functools.partial(suspend, desk)
            self.wheels[desk.id] = Wheel(self.seat(desk), stop, self.note, self.tasks, secrets, has_worker)
        return self.wheels[desk.id]

    def leave(self, desk: DeskId) -> None:
        if (wheel := self.wheels.pop(desk, None)) is not None:
            wheel.leave()
        self.viewers.pop(desk, None)
        self.personal.discard(desk)

    async def answer(self, sock: socket.socket, method: str, desk: LinkedDesk, parts: list[str], body: bytes) -> None:
        match method, parts:
            case "GET", ["view", name]:
                await self.show(sock, desk, as_name(name), may_drive=False)
            case "GET", ["view", name, "control"]:
                await self.show(sock, desk, as_name(name), may_drive=True)
            case "GET", ["wheel"]:
                await respond(sock, 200, self.tell(desk))
            case "POST", ["wheel"]:
                act, name, secret, behind = parse_act(json.loads(body))
                await self.turn(desk, act, name, secret, name_caller(*get_peer(sock), behind))
                await respond(sock, 200, self.tell(desk))
            case _:
                raise BriefError(NOTHING)

    async def show(self, sock: socket.socket, desk: LinkedDesk, name: str, *, may_drive: bool) -> None:
        """Show the screen to a viewer until it disconnects, which ends its control."""
        viewers = self.viewers.setdefault(desk.id, {})
        if name in viewers:
            raise BriefError("a viewer with this name is already connected; choose another name")
        (await dial(desk, SCREEN_PORT)).close()  # fail here if there is no screen, so that the viewer learns why
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with ours:
            with theirs:
                number = await self.seat(desk).join(theirs)
            viewers[name] = Viewer(number, may_drive)
            try:
                await switch(sock, PROTOCOL)
                await join(sock, ours)
            finally:
                viewers.pop(name, None)
                if (wheel := self.wheels.get(desk.id)) is not None:
                    with suppress(HotdeskError):
                        await wheel.hand_back(number, "", "its viewer left")

    async def turn(self, desk: LinkedDesk, act: str, name: str, secret: str, by: str) -> None:
        viewer = self.viewers.get(desk.id, {}).get(name)
        if viewer is None:
            raise DeskError(GONE)
        if not viewer.may_drive:
            raise BriefError("this viewer may only watch; `hotdesk watch --control` lets you take over")
        wheel = self.get_wheel(desk)
        match act:
            case "take":
                await self.ready()
                await wheel.take(viewer.number, by)
                if name not in self.viewers.get(desk.id, {}):
                    await wheel.hand_back(viewer.number, "", "its viewer left")
            case "keep":
                wheel.keep(viewer.number)
            case "hand back":
                await wheel.hand_back(viewer.number, by)
            case "type":
                await wheel.type_secret(viewer.number, secret)
            case _:
                raise BriefError('the field "act" must be take, keep, hand back or type')

    def tell(self, desk: LinkedDesk) -> dict[str, object]:
        """Describe how many viewers there are and whether a person has control, without the viewers' names."""
        wheel = self.get_wheel(desk)
        holder = wheel.holder if wheel.holder is not None and wheel.holder.drives else None
        viewers = self.viewers.get(desk.id, {})
        return {
            "viewers": len(viewers),
            "paused": desk.link.paused or desk.down is not None,
            "holder": holder.by if holder is not None else "",
            "driver": next(
                (mark(name) for name, each in viewers.items() if holder and each.number == holder.viewer), ""
            ),
            "secrets": sorted(wheel.secrets) if holder is not None else [],
            "stopped": wheel.desk_suspended,
            "worker": wheel.has_worker(),
            "seconds": round(time.monotonic() - holder.since, 1) if holder is not None else 0.0,
        }


def _get_placeholders(desk: LinkedDesk) -> dict[str, str]:
    """Return the placeholders of a desk's secrets by name, as they were issued, not as the desk reports them."""
    if not isinstance(desk.outside, KeeperHandle):
        return {}
    return {grant.secret: desk.outside.env[grant.env] for grant in desk.outside.scope.grants if grant.env}


def mark(name: str) -> str:
    """Return a prefix by which a viewer recognises itself; the whole name would allow others to use its control."""
    return name[:6]


def as_name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise BriefError("a viewer's name must be 16 to 64 lower-case letters and digits")
    return text


def parse_act(data: object) -> tuple[str, str, str, str]:
    """Parse an action: act, viewer, secret (for `type`), and the person on whose behalf it is sent."""
    match data:
        case {"act": str(act), "viewer": str(name), "secret": str(secret), **rest} if rest.keys() <= {"behind"}:
            return act, as_name(name), secret, parse_behind(rest.get("behind", ""))
    raise BriefError('a control request must have the string fields "act", "viewer" and "secret"')
