"""Snapshots that are kept as images: copied by a child of the keeper, which meanwhile goes on."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from importlib import import_module

from hotdesk.config import Config
from hotdesk.desk import kernel, upkeep
from hotdesk.desk.held import Held
from hotdesk.desk.image import Image
from hotdesk.desk.request import Request
from hotdesk.desk.roots import Teller
from hotdesk.errors import HotdeskError, ImageError

SAVING = "hotdesk.desk.saving"
"""Imported by the child alone: most keepers never save."""
WORDS = 2000
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Save:
    """One copy under way."""

    held: Held
    asked: int
    complaint: int
    """Where the child says what went wrong."""
    own: str
    """The snapshot that was taken for it alone."""


class Saves:
    """What one keeper is saving."""

    def __init__(self, settings: Config, owner: Teller) -> None:
        self.settings = settings
        self.owner = owner
        self.children: dict[int, Save] = {}

    def begin(self, number: int, held: Held, request: Request) -> None:
        """Start a child that copies; `ended` answers."""
        own = "" if request.snapshot else upkeep.take(held)
        room = held.room
        try:
            layer = room.disk.look(room.layers.find(request.snapshot or own), room.folder / "look")
            try:
                child, complaint = self.start(layer, room.image, request.name, room.desk)
            finally:
                os.close(layer)
        except BaseException:
            self.tidy(held, own)
            raise
        self.children[child] = Save(held, number, complaint, own)

    def start(self, layer: int, image: Image, name: str, desk: str) -> tuple[int, int]:
        """Fork a child that copies and says what fails; it holds nothing else of the keeper's, and dies with it."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                kernel.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                signal.set_wakeup_fd(-1)
                os.dup2(layer, 3)
                os.dup2(write, 4)
                os.closerange(5, 1 << 20)
                os.nice(10)
                import_module(SAVING).save(self.settings, 3, image, name, desk)
            except (HotdeskError, OSError) as e:
                os.write(4, str(e).encode()[:WORDS])
            finally:
                os._exit(0)
        os.close(write)
        return child, read

    def ended(self, pid: int) -> bool:
        """Take a child's exit; False when it is not one of these."""
        save = self.children.pop(pid, None)
        if save is None:
            return False
        wrong = os.read(save.complaint, WORDS).decode("utf-8", "replace")
        os.close(save.complaint)
        self.tidy(save.held, save.own)
        if wrong:
            self.owner.refuse(save.asked, ImageError(wrong))
        else:
            self.owner.send({"re": save.asked, "ok": {}})
        return True

    def tidy(self, held: Held, own: str) -> None:
        """Delete a snapshot nobody asked for; one whose desk has burnt is gone."""
        if own in held.room.layers.snapshots:
            held.room.layers.forget(own)
