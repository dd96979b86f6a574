"""The keeper: a small privileged child process of an owner. It prepares rooms, calls the OCI runtime, and burns.

It answers a fixed set of requests over a socketpair and reads no byte that a guest wrote. When the owner is gone it
burns every desk at once; deadlines hold even while the owner is stopped. Standard library only, so that it starts fast.
"""

from __future__ import annotations

import gc
import json
import math
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from hotdesk import config
from hotdesk.desk.keeper import operations, reap, socket_buffers, state
from hotdesk.desk.keeper.burn import Burning, Fire, contain, describe
from hotdesk.desk.keeper.memory import MemorySaves
from hotdesk.desk.keeper.namespace import enter_mount_namespace, explain_refusal
from hotdesk.desk.keeper.open import Opening
from hotdesk.desk.keeper.outbox import LOCK_TIMEOUT_S, Outbox
from hotdesk.desk.keeper.poller import Ears
from hotdesk.desk.keeper.queue import Queue, QueuedOpen
from hotdesk.desk.keeper.readers import Readers
from hotdesk.desk.keeper.reboot import Reboots
from hotdesk.desk.keeper.root import Roots
from hotdesk.desk.keeper.save import Saves
from hotdesk.desk.keeper.services import Doorman
from hotdesk.desk.keeper.snapshot import KeeperSnapshots, require_idle
from hotdesk.desk.keeper.spawn import decode_settings
from hotdesk.desk.keeper.tracked import TrackedDesk, read_clock
from hotdesk.desk.keeper.volumes import KeeperVolumes
from hotdesk.desk.request import KeeperRequest, describe_end, parse, read_number
from hotdesk.errors import DeskError, DeskGone, HostError, HotdeskError, KeeperError
from hotdesk.ipc.child import MAX_PACKET_BYTES, send_now
from hotdesk.ipc.title import set_title
from hotdesk.linux import rlimits, syscalls
from hotdesk.linux.pace import scale_seconds

_MAX_STARTING = 2 * (os.cpu_count() or 1)
"""Desks being started at a time. More would not raise throughput, and would delay the first ones."""
_MAX_REQUESTS_PER_TURN = 256
"""Requests handled before deadlines are checked."""
TURN_S = 0.05
"""Seconds requests may take before deadlines are checked."""
BURN_TIMEOUT_S = 10.0
"""Seconds for burning the desks of an owner that is gone; the next keeper burns the rest."""
_SERVICE_STOP_TIMEOUT_S = 3.0
"""Seconds the door and keys processes may take to end once they are no longer needed."""
_MAX_POLL_S = 3600.0
"""Maximum seconds of one poll, as the system call accepts at most 24 days."""


class Keeper:
    """Serves one owner until it is gone."""

    def __init__(self, settings: config.Config, owner: socket.socket) -> None:
        self.settings = settings
        self.owner = owner
        self.queue = Queue()
        self.desks: dict[str, TrackedDesk] = {}
        self.early: set[int] = set()
        """Pids of unknown children that exited while a desk starts: a desk's process can exit before its runtime."""
        self.roots = Roots(settings, self.desks, self.early, self, self.burn)
        self.burning = Burning(settings, self.report_end)
        self.opening = Opening(settings, self.burning, _read_peer_credentials(owner)[0])
        self.saves = Saves(settings, self.desks, self)
        self.snapshots = KeeperSnapshots(self.desks, self, self.opening.check_floors)
        self.volumes = KeeperVolumes(self.opening.volumes, self, self.opening.check_floors)
        self.hibernated = self.opening.hibernated
        self.memory = MemorySaves(self.desks, self, self.opening.check_floors, self.hibernated, self.burn)
        self.reboots = Reboots(self.desks, self.opening, self, self.burn, self.hibernated)
        self.doorman = Doorman(settings)
        self.outbox = Outbox(settings.lib)
        self.readers = Readers(settings)
        self.buffers = socket_buffers.BufferWatch(self.desks, self.burn)
        self.open_for_business = True
        self.ears = Ears()
        self.nearest = 0.0
        """No desk is due before this time; in the past if it must be computed again."""

    # -- the loop ---------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Answer until the owner is gone, then burn the remaining desks."""
        wake_r, wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        self.snapshots.wake = self.volumes.wake = self.memory.wake = wake_w
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.note_signal)
        self.warm()
        try:
            while self.open_for_business:
                readable = self.listen(wake_r)
                if wake_r in readable:
                    os.read(wake_r, 4096)
                if self.owner.fileno() in readable:
                    self.receive_some()
                self.answer_calls(readable)
                self.reap()
                self.snapshots.turn()
                self.volumes.turn()
                self.memory.turn()
                self.roots.turn()
                self.reboots.turn()
                self.outbox.turn()
                operations.keep_suspended(self.desks.values(), self.burn)
                self.burn_due()
                self.burn_flooded()
                self.burning.turn()
                self.open_next()
        finally:
            self.close()

    def close(self) -> None:
        """Burn every desk; what resists stays listed, for the next keeper."""
        for desk in list(self.desks):
            with contain(desk, self.burn):
                self.burn(desk, "owner gone")
        end = read_clock() + scale_seconds(BURN_TIMEOUT_S)
        while self.burning.fires and read_clock() < end:
            time.sleep(min(0.01, self.burning.compute_wait() or 0.0))
            self.reap()
            self.snapshots.turn()
            self.memory.turn()
            self.burning.turn()
        self.doorman.close()
        self.readers.close()
        self.volumes.close()
        self.outbox.finish(LOCK_TIMEOUT_S)
        self.see_off()

    def see_off(self) -> None:
        """Wait for children that are ending (door, keys), so that no process outlives the keeper."""
        end = read_clock() + scale_seconds(_SERVICE_STOP_TIMEOUT_S)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0] or read_clock() < end:
                time.sleep(0.002)

    def warm(self) -> None:
        """Clean up and mount the disk pool while the owner initializes. A failure is reported when it matters."""
        try:
            reap.collect(self.settings, self.opening.hierarchies, self.opening.get_disk)
            self.opening.get_disk()
        except (OSError, HostError):
            pass

    def listen(self, wake: int) -> set[int]:
        """Wait for the owner, a signal, a deadline, or a first call at a gate or by `sudo`. No call is read."""
        own = {self.owner.fileno(): self.owner, wake: self}
        self.ears.turn_to({**own, **self.doorman.get_waiting_gates(), **self.find_knocking_desks()})
        return self.ears.hear(self.compute_wait())

    def find_knocking_desks(self) -> dict[int, TrackedDesk]:
        """Return the desks without a guest for root, by the socket that `sudo` calls."""
        return {fd: tracked for tracked in self.desks.values() if (fd := tracked.find_knock_socket()) is not None}

    def answer_calls(self, readable: set[int]) -> None:
        """Start the door on a first call at a gate; notify the owner of a first call by `sudo`."""
        if readable.intersection(self.doorman.get_waiting_gates()):
            with suppress(OSError):
                self.doorman.start()
        for fd, tracked in self.find_knocking_desks().items():
            if fd in readable:
                tracked.knocked = True
                with contain(tracked.room.desk, self.burn):
                    tracked.room.drop_knocks()
                self.send({"event": "knock", "desk": tracked.room.desk})

    def note_signal(self, number: int, _frame: object) -> None:
        """Record a signal. Ctrl-C reaches all processes of the terminal, and the owner decides how to react."""
        if number == signal.SIGTERM:
            self.open_for_business = False

    def compute_wait(self) -> float:
        waits = [self.nearest - read_clock()] if self.desks else []
        waits += [
            *self.roots.iterate_waits(),
            *self.reboots.iterate_waits(),
            *self.outbox.iterate_waits(),
            *operations.iterate_waits(self.desks.values()),
        ]
        waits += self.buffers.iterate_waits()
        if (fire := self.burning.compute_wait()) is not None:
            waits.append(fire)
        if self.queue.waiting and self.has_hands():
            waits.append(0.0)
        if self.doorman.is_resting():
            waits.append(1.0)
        return max(0.0, min([_MAX_POLL_S, *waits]))

    def receive_some(self) -> None:
        """Handle some requests before deadlines: they may mark desks as in use. A flood does not delay deadlines."""
        end = read_clock() + TURN_S
        for _ in range(_MAX_REQUESTS_PER_TURN):
            if not self.receive() or read_clock() > end:
                return

    def receive(self) -> bool:
        """Handle one request if there is one; end the service if the owner disconnected. Return whether to read on."""
        try:
            data = self.owner.recv(MAX_PACKET_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.open_for_business = False
            return False
        try:
            number, request = parse(data)
        except HotdeskError as e:
            self.refuse(read_number(data), e)
        else:
            self.attempt(number, request, self.answer)
        return True

    def attempt(self, number: int, request: KeeperRequest, work: Callable[[int, KeeperRequest], None]) -> None:
        if request.verb != "touch":
            self.nearest = 0.0
        try:
            work(number, request)
        except HotdeskError as e:
            self.refuse(number, e)
        except OSError as e:
            self.refuse(number, KeeperError(explain_refusal(e)))
        except Exception as e:  # noqa: BLE001 - outer boundary: one request must not end the other desks
            self.refuse(number, KeeperError(describe(e)))

    def answer(self, number: int, request: KeeperRequest) -> None:
        match request.verb:
            case "open":
                self.queue.add(number, request)
            case "burn":
                self.burn(request.desk, "not whole" if request.spare_hibernated else "asked", number)
            case "strike":
                self.burn(request.desk, "asked")
                self.send({"re": number, "ok": {}})
            case "touch":
                if tracked := self.desks.get(request.desk):
                    operations.touch(tracked)
            case "root":
                self.reap()  # an earlier root may have ended a moment ago
                self.roots.begin(number, self.find(request.desk))
            case "keys" | "door" | "reader" | "dismiss" | "make-volume" | "drop-volume" | "read-volume":
                self.answer_service(number, request)
            case "snapshot":
                self.snapshots.begin(number, self.find(request.desk, idle=True))
            case "halt":
                self.reboots.halt(number, self.find(request.desk, idle=True), request.snapshot)
            case "boot":
                self.reboots.boot(number, self.find(request.desk, idle=True), request.snapshot)
            case "may_save":
                self.memory.check(self.find(request.desk, idle=True), request.stop)
                self.send({"re": number, "ok": {}})
            case "checkpoint":
                self.memory.begin(number, self.find(request.desk, idle=True), stop=False)
            case "hibernate":
                self.memory.begin(number, self.find(request.desk, idle=True), stop=True, token=request.token)
            case "recall":
                found = self.hibernated.find(request.desk)
                reply = {"spec": found.spec, "token": found.token, "seconds": found.until - time.time()}
                self.send({"re": number, "ok": reply})
            case "woken":
                self.find(request.desk)
                self.hibernated.forget(request.desk)
                self.send({"re": number, "ok": {}})
            case "save":
                self.saves.begin(number, self.find(request.desk), request)
            case "dial":
                with operations.dial(self.find(request.desk), request.port) as caller:
                    self.send({"re": number, "ok": {}}, caller.fileno())
            case verb:
                tracked = self.find(request.desk, idle=verb != "usage")
                self.send({"re": number, "ok": operations.ACTS[verb](tracked, request)})
                if verb == "claim":
                    operations.note_claim(tracked)
                    tracked.scoped = bool(request.ca)
                    self.note_opened(tracked)

    def answer_service(self, number: int, request: KeeperRequest) -> None:
        """Answer a request about other processes: keys, door, readers, volumes."""
        match request.verb:
            case "keys":
                talk, wait = self.doorman.meet()
                with talk, wait:
                    self.send({"re": number, "ok": {}}, talk.fileno(), wait.fileno())
            case "door":
                self.doorman.ensure_started()
            case "reader":
                talk, hand = self.readers.start(request.desk)
                with talk, hand:
                    self.send({"re": number, "ok": {}}, talk.fileno(), hand.fileno())
            case "dismiss":
                self.readers.dismiss(request.desk)
                self.send({"re": number, "ok": {}})
            case "make-volume":
                self.volumes.begin_make(number, request)
            case "drop-volume":
                self.volumes.drop(request.desk)
                self.send({"re": number, "ok": {}})
            case "read-volume":
                with self.volumes.read(request.desk) as line:
                    self.send({"re": number, "ok": {}}, line.fileno())

    def find(self, desk: str, idle: bool = False) -> TrackedDesk:
        """Return an open desk of this keeper. With `idle`, refuse one that is being saved."""
        tracked = self.desks.get(desk)
        if tracked is not None and tracked.runtime and tracked.ends < math.inf:
            raise DeskError(f"desk {desk} is restarting; try again")
        if tracked is None or not (tracked.init or tracked.down):
            raise DeskGone(f"desk {desk} is not open here; `hotdesk ps` lists open desks")
        if idle:
            require_idle(tracked)
        return tracked

    def send(self, message: dict[str, object], *fds: int) -> None:
        """Send a message to the owner; one that does not read is treated as gone."""
        try:
            send_now(self.owner, json.dumps(message).encode(), fds)
        except OSError:  # also when its queue is full: deadlines must not wait for an owner that never reads
            self.open_for_business = False

    def refuse(self, number: int, error: HotdeskError) -> None:
        self.send({"re": number, "error": {"code": error.code, "text": str(error)}})

    # -- opening ----------------------------------------------------------------------------------------------

    def has_hands(self) -> bool:
        return sum(1 for tracked in self.desks.values() if tracked.runtime) < _MAX_STARTING

    def open_next(self) -> None:
        """Start the next desk in the queue. One per turn, so that other requests need not wait."""
        if self.has_hands() and (turn := self.queue.take()) is not None:
            self.attempt(turn.number, turn.request, lambda number, request: self.begin(turn))

    def begin(self, turn: QueuedOpen) -> None:
        """Start a desk; `finish` answers the request when it is up."""
        turn.check()
        request = turn.request
        origin = self.desks.get(request.origin)
        if request.origin and origin is None:
            raise DeskGone(f"desk {request.origin} is not open here; `hotdesk ps` lists open desks")
        tracked = self.opening.begin(turn.number, request, origin.room if origin else None)
        tracked.scoped = bool(request.ca)
        self.desks[request.desk] = tracked

    def finish(self, tracked: TrackedDesk, status: int) -> None:
        tracked.runtime = 0
        self.nearest = 0.0
        try:
            self.opening.prove(tracked, status, self.early)
            self.hand_over(tracked)
        except Exception as e:  # noqa: BLE001 - outer boundary: one desk must not end the others
            self.burn(tracked.room.desk, "did not start")
            self.refuse(tracked.number, KeeperError(describe(e)))

    def hand_over(self, tracked: TrackedDesk) -> None:
        desk, room = tracked.room.desk, tracked.room
        assert room.listener is not None
        assert room.gate is not None
        assert tracked.proof is not None
        self.doorman.add(desk, room.gate, tracked.proof)
        caller, uid = tracked.wall.find_caller(room, tracked.init)
        reply = {
            "desk": desk,
            "pid": tracked.init,
            "caller": caller,
            "uid": uid,
            "image": room.image.digest,
            "can_dial": tracked.wall.traits.can_dial,
            "own_kernel": tracked.wall.traits.kernel == "own",
            "start_seconds": tracked.wall.traits.start_seconds,
        }
        self.send({"re": tracked.number, "ok": reply}, room.listener.fileno(), tracked.console)
        room.hang_up()
        os.close(tracked.console)
        tracked.console = -1
        if not tracked.spare:
            self.note_opened(tracked)

    def note_opened(self, tracked: TrackedDesk) -> None:
        """Add the opening of a desk without a scope to the outbox, once. Keys record the others."""
        if not tracked.scoped and not tracked.noted:
            tracked.noted = True
            by = tracked.spec.by or "uid {1} pid {0}".format(*_read_peer_credentials(self.owner))
            facts = {
                "desk": tracked.room.desk,
                "scope": "",
                "rules": [],
                "grants": [],
                "by": by,
                "image": tracked.spec.image,
                **(tracked.proof.as_json() if tracked.proof is not None else {}),
            }
            self.outbox.add("keeper", "Opened", facts)

    # -- ending -----------------------------------------------------------------------------------------------

    def reap(self) -> None:
        """Collect exits: a runtime that finished, a desk whose process 1 died, orphans of either."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.doorman.note_exit(pid) or self.readers.note_exit(pid) or self.volumes.note_exit(pid):
                continue
            if not self.saves.note_exit(pid, os.waitstatus_to_exitcode(status)):
                self.note_exits(pid, os.waitstatus_to_exitcode(status))

    def note_exits(self, pid: int, status: int) -> None:
        self.early.add(pid)
        for tracked in list(self.desks.values()):
            with contain(tracked.room.desk, self.burn):
                self.note_exit(tracked, pid, status)
        self.burning.note_exit(pid)
        if not any(tracked.is_starting() for tracked in self.desks.values()):
            self.early.clear()

    def note_exit(self, tracked: TrackedDesk, pid: int, status: int) -> None:
        if pid == tracked.runtime:
            self.finish(tracked, status)
        elif pid == tracked.init and tracked.down:
            tracked.init = 0
        elif pid == tracked.init:
            self.burn(tracked.room.desk, tracked.explain_exit())
        else:
            self.roots.note_exit(tracked, pid, status)

    def burn_due(self) -> None:
        """Burn desks whose time is up. Use can only postpone an end, so nothing is due before `nearest`."""
        if self.nearest > read_clock():
            return
        for desk, tracked in list(self.desks.items()):
            at, why = tracked.compute_due_time()
            if at <= read_clock():
                why = why if not tracked.runtime else "it did not start in time; the machine may be overloaded"
                with contain(desk, self.burn):
                    self.burn(desk, why)
        self.nearest = min((tracked.compute_due_time()[0] for tracked in self.desks.values()), default=math.inf)

    def burn_flooded(self) -> None:
        for desk in self.buffers.list_flooded():
            self.burn(desk, socket_buffers.WHY)

    def burn(self, desk: str, why: str, number: int | None = None) -> None:
        """End a desk and everything in it. An unknown desk is no error."""
        if queued := self.queue.drop(desk):
            self.refuse(queued.number, DeskGone(f"desk {desk} was burnt before it was opened"))
        tracked = self.desks.pop(desk, None)
        try:
            if why in ("asked", "deadline") and (tracked or not (self.settings.run / "desks" / desk).exists()):
                if tracked is not None:
                    tracked.is_unwanted = True
                self.hibernated.forget(desk)  # any other end is not a decision of its user: the saved state stays
        finally:
            if tracked is not None:
                self.end(tracked, why, number)
        if tracked is None and number is not None and not self.burning.wait_for(desk, number):
            self.send({"re": number, "ok": {}})

    def end(self, tracked: TrackedDesk, why: str, number: int | None) -> None:
        """Refuse the requests that wait for a desk, and start removing it."""
        desk = tracked.room.desk
        self.doorman.remove(desk)
        if tracked.console >= 0:
            os.close(tracked.console)
            tracked.console = -1
        if tracked.runtime and tracked.ends == math.inf:
            self.refuse(
                tracked.number, KeeperError(f"desk {desk} was burnt while it was being opened: {describe_end(why)}")
            )
        elif tracked.runtime or tracked.down == "halting":
            self.refuse(tracked.number, DeskGone(f"desk {desk} is gone: {describe_end(why)}; open another"))
        if tracked.root is not None and not tracked.root.proven:
            self.refuse(tracked.root.number, DeskGone(f"desk {desk} is gone: {describe_end(why)}; open another"))
        self.burning.begin(tracked, why, number)

    def report_end(self, fire: Fire, leftovers: list[str]) -> None:
        if fire.tracked.noted and not self.hibernated.has(fire.tracked.room.desk):
            self.outbox.add("keeper", "Burnt", {"desk": fire.tracked.room.desk, "why": fire.why})
        if fire.tracked.init or fire.tracked.runtime or fire.tracked.ends < math.inf:
            self.send({"event": "ended", "desk": fire.tracked.room.desk, "why": fire.why, "left": leftovers})
        for number in fire.numbers:
            self.send({"re": number, "ok": {}})


def _read_peer_credentials(owner: socket.socket) -> tuple[int, int]:
    """Return pid and user id of the owner, which made the socketpair. The parent process may be a launcher instead."""
    pid, uid, _ = struct.unpack("=iII", owner.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def main() -> None:
    set_title(__name__)
    os.umask(0o022)
    owner = socket.socket(fileno=3)
    owner.set_inheritable(False)
    settings = decode_settings(sys.argv[1])
    complain: Callable[[str], object] = lambda text: owner.send(json.dumps({"event": "unfit", "why": text}).encode())  # noqa: E731
    try:
        syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
        rlimits.set_core_limit()
        rlimits.raise_open_files()
        rlimits.raise_file_table()
        state.prepare(settings)
        enter_mount_namespace(settings)
        keeper = Keeper(settings, owner)
    except HostError as e:
        complain(str(e))
        return
    except OSError as e:
        complain(explain_refusal(e))
        return
    gc.collect()
    gc.freeze()  # exclude existing objects from collection, so that a forked child copies fewer pages
    gc.enable()
    keeper.serve()
    os._exit(0)  # everything is released; the interpreter's own cleanup would only delay the owner
