"""Start the door and keys processes: on the first call at any gate or the owner's request, connected to each other.

The keeper keeps a copy of every gate: while the door is away calls wait, and no program in a desk can take the port.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from hotdesk.config import Config
from hotdesk.ipc.child import Child
from hotdesk.linux import syscalls, uids
from hotdesk.walls import WallProof

SCRATCH = "size=256k,nr_inodes=64,mode=700"
"""Mount options of the door's file system, which holds certificates for a moment only."""


class Doorman:
    """One door and one keys process, running or not."""

    def __init__(self, settings: Config, authority: Path | None = None, *, mounts: bool = True) -> None:
        self.settings = settings
        self.mounts = mounts
        """Whether this process can mount the door's folder as a file system in memory."""
        self.authority = authority
        """The certificate of the cluster's authority; keys then accept facts about desks that its nodes sign."""
        self.door = Child("hotdesk.door.process")
        self.keys = Child("hotdesk.keys.process")
        self.gates: dict[str, socket.socket] = {}
        self.proofs: dict[str, WallProof] = {}
        """The proven facts about each desk that has a gate."""

    def add(self, desk: str, gate: socket.socket, proof: WallProof) -> None:
        """Add a gate, and send keys the proof of its desk's wall. A restarted desk keeps its gate."""
        if self.proofs.get(desk) != proof:
            self.proofs[desk] = proof
            self.keys.tell({"desk": desk, "proof": proof.as_json()})
        if desk in self.gates:
            return
        self.gates[desk] = gate
        self.door.tell({"gate": desk}, gate.fileno())

    def remove(self, desk: str) -> None:
        """Forget a gate; its room closes it."""
        self.proofs.pop(desk, None)
        if self.gates.pop(desk, None) is not None:
            self.door.tell({"gate": desk})

    def get_waiting_gates(self) -> dict[int, socket.socket]:
        if self.door.pid or not self.door.can_restart():
            return {}
        return {gate.fileno(): gate for gate in self.gates.values()}

    def is_waited_for(self) -> bool:
        """Return whether there are gates, and no door that serves them."""
        return bool(self.gates) and not self.door.pid

    def is_resting(self) -> bool:
        """Return whether the door is away and may not be restarted yet."""
        return not self.door.pid and not self.door.can_restart()

    def ensure_started(self) -> None:
        if not self.door.pid and self.door.can_restart():
            self.start()

    def start(self) -> None:
        """Start the door, and keys if they are not running; pass it every gate."""
        self.start_keys()
        scratch = self.settings.run / "private" / "door"
        if not scratch.exists():
            scratch.mkdir(mode=0o700)
            self.prepare_scratch(scratch)
        settings = {
            "uid": uids.DOOR,
            "resolver": uids.RESOLVER,
            "root": str(scratch),
            "ca": self.settings.ca,
            "proxy": self.settings.proxy,
        }
        self.door.start(settings)
        for desk, gate in self.gates.items():
            self.door.tell({"gate": desk}, gate.fileno())
        self.join()

    def prepare_scratch(self, scratch: Path) -> None:
        """Give the door a folder of its own, in memory where this process can mount."""
        if self.mounts:
            flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
            syscalls.mount("door", str(scratch), "tmpfs", flags, f"{SCRATCH},uid={uids.DOOR},gid={uids.DOOR}")
        elif os.geteuid() == 0:
            os.chown(scratch, uids.DOOR, uids.DOOR)

    def start_keys(self) -> None:
        if self.keys.pid:
            return
        folder = _make_keys_folder(self.settings.lib / "keys")
        authority = self.authority.read_text() if self.authority is not None else ""
        self.keys.start({"uid": uids.KEYS, "root": str(folder), "authority": authority})
        for desk, proof in self.proofs.items():
            self.keys.tell({"desk": desk, "proof": proof.as_json()})
        if self.door.pid:
            self.join()

    def meet(self) -> tuple[socket.socket, socket.socket]:
        """Return an owner's ends of two sockets to keys, starting keys if needed: one to talk over, one to wait at."""
        self.start_keys()
        talk, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        wait, hears = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs, hears:
            self.keys.tell({"line": "owner"}, theirs.fileno())
            self.keys.tell({"line": "owner"}, hears.fileno())
        return talk, wait

    def join(self) -> None:
        """Connect door and keys; neither sees the other's other connections."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with ours, theirs:
            self.keys.tell({"line": "door"}, ours.fileno())
            self.door.tell({"line": "keys"}, theirs.fileno())

    def note_exit(self, pid: int) -> bool:
        """Record the exit of either; the next use starts it again."""
        return self.door.note_exit(pid) or self.keys.note_exit(pid)

    def close(self) -> None:
        """Close both connections; the processes then end by themselves."""
        self.door.close()
        self.keys.close()


def _make_keys_folder(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.geteuid() == 0:
        with suppress(FileNotFoundError):
            os.chown(folder, uids.KEYS, uids.KEYS)
    folder.chmod(0o700)
    return folder
