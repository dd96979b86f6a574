"""Save snapshots as images: a child of the keeper copies them, while the keeper continues."""

from __future__ import annotations

import os
import signal

from hotdesk.config import Config
from hotdesk.desk.image.image import Image
from hotdesk.desk.keeper.root import Teller
from hotdesk.desk.keeper.tracked import TrackedDesk
from hotdesk.desk.request import KeeperRequest
from hotdesk.errors import BriefError, DeskGone, HotdeskError, ImageError
from hotdesk.linux import rlimits, syscalls

WORDS = 2000
COPY_TIMEOUT_S = 3600
"""Seconds a copy may take, as long as its owner waits for it."""
COPY_MEMORY = 2 << 30
"""Bytes of memory of a copying process: names and hard links of as many entries as an image may have take half."""
PR_SET_PDEATHSIG = 1


class Saves:
    """The saves of one keeper."""

    def __init__(self, settings: Config, desks: dict[str, TrackedDesk], owner: Teller) -> None:
        self.settings = settings
        self.desks = desks
        self.owner = owner
        self.children: dict[int, tuple[int, int, TrackedDesk]] = {}
        """Copies in progress, by the child's pid: number of the request, pipe with the child's error, and the desk."""

    def begin(self, number: int, tracked: TrackedDesk, request: KeeperRequest) -> None:
        """Start a child that copies a snapshot; `note_exit` answers the request."""
        room = tracked.room
        if room.stage is not None:
            raise BriefError(
                f"desk {room.desk} cannot be saved as an image: only the kernel of its virtual machine can read its "
                "disk; copy its files out, or write a recipe"
            )
        layer = room.disk.look(room.layers.find(request.snapshot), room.folder / "look")
        try:
            child, complaint = self.start(layer, room.image, request.name, room.desk)
        finally:
            os.close(layer)
        self.children[child] = (number, complaint, tracked)

    def start(self, layer: int, image: Image, name: str, desk: str) -> tuple[int, int]:
        """Fork a child that copies and writes its error to a pipe. It has no other descriptors; it dies with the
        keeper.
        """
        read, write = os.pipe()
        try:
            child = os.fork()
        except OSError:
            syscalls.close_all((read, write))
            raise
        if child == 0:
            try:
                syscalls.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(COPY_TIMEOUT_S)
                os.dup2(layer, 3)
                os.dup2(write, 4)
                os.closerange(5, 1 << 20)
                os.nice(10)
                rlimits.limit_added_memory(COPY_MEMORY)
                from hotdesk.desk.keeper.capture import save  # most keepers never save

                save(self.settings, 3, image, name, desk)
                os._exit(0)
            except (HotdeskError, OSError) as e:
                os.write(4, str(e).encode()[:WORDS])
            except MemoryError:
                os.write(
                    4, b"saving the image needs more than %d MiB of memory, which is the limit" % (COPY_MEMORY >> 20)
                )
            finally:
                os._exit(1)
        os.close(write)
        return child, read

    def note_exit(self, pid: int, status: int) -> bool:
        """Handle the exit of a copying child; return False if the pid is not one."""
        if pid not in self.children:
            return False
        number, complaint, tracked = self.children.pop(pid)
        wrong = os.read(complaint, WORDS).decode("utf-8", "replace")
        os.close(complaint)
        if status == 0:
            self.owner.send({"re": number, "ok": {}})
        elif self.desks.get(desk := tracked.room.desk) is not tracked:  # its files were deleted during the copy
            self.owner.refuse(number, DeskGone(f"desk {desk} was burnt while it was being saved; open another"))
        else:
            self.owner.refuse(
                number, ImageError(wrong or f"the image was not saved: the copy process ended with status {status}")
            )
        return True
