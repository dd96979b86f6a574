"""Root's guests, as the keeper holds them: started on first need, proven, and given up when they do not come."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

from hotdesk.config import Config
from hotdesk.desk import bundle, launch, proof
from hotdesk.desk.held import Held, Root, now
from hotdesk.errors import BriefError, DeskError, HotdeskError, KeeperError

RISING = 20.0
"""Seconds the runtime may take to start one."""
RESTING = 1.0
"""Seconds until `sudo` may call for another after the last one ended."""
LOOK = 0.002
"""Seconds between two looks at one whose walls do not stand yet."""


class Teller(Protocol):
    """Who tells the owner."""

    def send(self, message: dict[str, object], *fds: int) -> None:
        """Send a message with descriptors."""
        ...

    def refuse(self, number: int, error: HotdeskError) -> None:
        """Answer a request with what went wrong."""
        ...


class Roots:
    """The second guests of one keeper's desks."""

    def __init__(self, settings: Config, desks: dict[str, Held], owner: Teller) -> None:
        self.settings = settings
        self.desks = desks
        self.owner = owner

    def begin(self, number: int, held: Held) -> None:
        """Start a desk's root; `prove` answers when its walls stand."""
        held.knocked = False
        desk = held.room.desk
        if held.room.sudo is None:
            raise BriefError(f"desk {desk} was opened without root; open one with `root`")
        if held.paused:
            raise DeskError(f"desk {desk} is paused; resume it first")
        if held.root is not None and not held.root.proven:
            held.root.asked = number  # whoever asked first was cancelled
            return
        if held.root is not None:  # its owner lost it: it no longer speaks as it should, or not at all
            strike(held.root)
            self.owner.send({"event": "rootless", "desk": desk})
        held.room.listener = held.room.admit_root()
        held.root = Root(launch.enter(self.settings, held.room, held.room.sudo), number, now() + RISING)

    def rising(self) -> Iterator[tuple[Held, Root]]:
        """Give the desks whose root was asked for and is not proven yet."""
        for held in list(self.desks.values()):
            if held.root is not None and not held.root.proven:
                yield held, held.root

    def patience(self) -> Iterator[float]:
        """Give seconds until something is due."""
        for _, root in self.rising():
            yield root.hard - now() if root.runtime else LOOK
        for held in self.desks.values():
            if held.root is None and held.rest > now():
                yield held.rest - now()

    def turn(self) -> None:
        """Look at those that were just started: one that never looks right must keep nobody waiting."""
        for held, root in self.rising():
            if root.init:
                self.prove(held, root)
            elif root.hard <= now():
                self.end(held, root, f"root's guest did not start within {RISING:.0f} s")

    def ended(self, held: Held, pid: int, status: int) -> None:
        """Take an exit that may be of a desk's root, or of the runtime that starts it."""
        root = held.root
        if root is None:
            return
        if pid == root.runtime:
            self.started(held, root, status)
        elif pid == root.init and root.proven:
            self.lose(held)
            self.owner.send({"event": "rootless", "desk": held.room.desk})
        elif pid == root.init:
            root.init = 0  # reaped: the number may be another's by now
            self.end(held, root, f"root's guest in desk {held.room.desk} ended at once")

    def started(self, held: Held, root: Root, status: int) -> None:
        """Take the runtime's end; what it started must then be proven."""
        room, root.runtime = held.room, 0
        root.hard = now() + proof.SECONDS
        try:
            if status != 0:
                told = launch.complaint(self.settings, room, status, "root.log")
                raise KeeperError(f"root's guest did not start in desk {room.desk}: {told}")
            root.init = int((room.folder / "root.pid").read_text())
        except (OSError, ValueError, KeeperError) as e:
            self.end(held, root, str(e))

    def prove(self, held: Held, root: Root) -> None:
        """Give the owner what it needs to talk to a root whose walls stand."""
        room = held.room
        try:
            wrong = proof.flaws(root.init, room.base, bundle.CAPABILITY_BITS, room.netns, room.userns)
        except OSError as e:
            wrong, root.hard = [str(e)], 0.0  # it has ended
        if wrong and root.hard <= now():
            self.end(held, root, f"the wall around root does not stand: {'; '.join(wrong)}")
        elif not wrong:
            assert room.listener is not None
            root.proven = True
            reply = {"desk": room.desk, "pid": root.init, "uid": room.base}
            self.owner.send({"re": root.asked, "ok": reply}, room.listener.fileno())
            room.hang_up()

    def end(self, held: Held, root: Root, why: str) -> None:
        """Give up a root that did not come up as it should."""
        strike(root)
        held.room.hang_up()
        self.lose(held)
        self.owner.refuse(root.asked, KeeperError(why))

    def lose(self, held: Held) -> None:
        """Have a desk without its root; `sudo` is heard again after a rest."""
        held.root = None
        held.rest = now() + RESTING


def strike(root: Root) -> None:
    """Kill a root's guest, or the runtime that starts it; both are children of ours that nobody else reaps."""
    for pid in filter(None, (root.runtime, root.init)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
