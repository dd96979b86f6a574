"""The keeper's volumes: created in threads, deleted, and read by confined processes started on request."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.desk.keeper.root import Teller
from hotdesk.desk.request import KeeperRequest
from hotdesk.desk.room.volume_store import VolumeStore
from hotdesk.errors import DeskError, HotdeskError, KeeperError
from hotdesk.ipc import child

PROGRAM = "hotdesk.desk.volume.process"
_MAX_PROCESSES = 256
"""Maximum volumes of one owner that are read at a time."""


@dataclass(frozen=True, slots=True)
class VolumeProcess:
    """A process that reads and writes a volume."""

    pid: int
    mounted: Path
    """Where the keeper has mounted the volume for the process."""


class KeeperVolumes:
    """The volumes of one keeper. A byte is written to `wake` when one is made."""

    def __init__(self, store: VolumeStore, owner: Teller, has_room: Callable[[], None]) -> None:
        self.store = store
        self.owner = owner
        self.has_room = has_room
        self.wake = -1
        self.outcomes: deque[tuple[int, HotdeskError | None]] = deque()
        self.processes: dict[str, VolumeProcess] = {}
        self.ending: set[int] = set()
        """Pids of processes that were killed and are not reaped yet."""

    def begin_make(self, number: int, request: KeeperRequest) -> None:
        """Make a volume in a thread; `turn` answers the request."""
        self.has_room()
        thread = threading.Thread(target=self.make, args=(number, request), daemon=True)
        try:
            thread.start()
        except RuntimeError as e:
            raise KeeperError(
                f"volume {request.desk} could not be created: this machine's process limit is reached; try again later"
            ) from e

    def make(self, number: int, request: KeeperRequest) -> None:
        """Runs in a thread."""
        failure: HotdeskError | None = None
        try:
            self.store.make(request.desk, request.size, request.origin)
        except HotdeskError as e:
            failure = e
        except OSError as e:
            failure = KeeperError(f"volume {request.desk} could not be created: {e.strerror or e}")
        except Exception as e:  # noqa: BLE001 - outer boundary: an error that ends a thread would go unnoticed
            failure = KeeperError(f"internal error of the keeper: {e!r}")
        self.outcomes.append((number, failure))
        with suppress(BlockingIOError):  # a full pipe wakes the reader as well
            os.write(self.wake, b"1")

    def turn(self) -> None:
        while self.outcomes:
            number, failure = self.outcomes.popleft()
            if failure is not None:
                self.owner.refuse(number, failure)
            else:
                self.owner.send({"re": number, "ok": {}})

    def drop(self, volume: str) -> None:
        """Delete a volume, and end the process that reads it. A missing volume is no error."""
        self.dismiss(volume)
        self.store.drop(volume)

    def read(self, volume: str) -> socket.socket:
        """Start the process that reads and writes a volume; return the owner's end of its socket, for passing
        connections.

        A process that runs already is ended: its owner asks again because it lost the connection.
        """
        if len(self.processes) >= _MAX_PROCESSES:
            raise DeskError(f"{_MAX_PROCESSES} volumes are already being read, which is the limit; try again later")
        self.dismiss(volume)
        at = self.store.place / f"read-{volume}-{os.urandom(4).hex()}"
        self.store.mount(volume, at)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                pid = child.spawn(PROGRAM, {"source": str(at), "at": str(at)}, theirs)
        except OSError:
            ours.close()
            self.store.unmount(at)
            raise
        self.processes[volume] = VolumeProcess(pid, at)
        return ours

    def dismiss(self, volume: str) -> None:
        if (process := self.processes.pop(volume, None)) is not None:
            os.kill(process.pid, signal.SIGKILL)  # not reaped yet, so its pid is not reused
            self.ending.add(process.pid)
            self.store.unmount(process.mounted)

    def note_exit(self, pid: int) -> bool:
        """Handle the exit of a process that read a volume; return False if the pid is not one."""
        if pid in self.ending:
            self.ending.remove(pid)
            return True
        for volume, process in self.processes.items():
            if process.pid == pid:
                with suppress(OSError):
                    self.store.unmount(process.mounted)
                del self.processes[volume]
                return True
        return False

    def close(self) -> None:
        for volume in list(self.processes):
            self.dismiss(volume)
