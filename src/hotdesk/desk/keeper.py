"""The keeper: the one small privileged child of an owner. It prepares rooms, calls the OCI runtime, and burns.

It answers a fixed vocabulary over a socketpair and reads no byte a guest wrote. When the owner is gone it burns
every desk at once; deadlines hold even while the owner is stopped. Standard library only, so that it starts fast.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hotdesk import config
from hotdesk.desk import bundle, guestlib, image, kernel, proof, state, uids
from hotdesk.desk.cgroup import Cgroup, here
from hotdesk.desk.disk import Disk, Memory, choose
from hotdesk.desk.doorman import Doorman
from hotdesk.desk.filters import Filters
from hotdesk.desk.request import Request, parse
from hotdesk.desk.room import Room
from hotdesk.desk.seam import ID_SHAPE, Spec
from hotdesk.desk.seclude import raise_core_limit, raise_file_table, seclude
from hotdesk.desk.spawn import MESSAGE, send_now
from hotdesk.errors import DeskGone, HostError, HotdeskError, KeeperError

OPENING = 20.0
"""Seconds the runtime may take to start a desk."""
LOG_LIMIT = 4096
LONGEST = 3_600_000.0
"""Milliseconds of one poll; the call takes no more than 24 days."""
RETRY = 2.0
"""Seconds until a desk that resisted burning is tried again."""


@dataclass(slots=True)
class Held:
    """One desk this keeper answers for."""

    room: Room
    record: state.Record
    spec: Spec
    runtime: int
    """Pid of the runtime while it is starting the desk, else 0."""
    console: int
    """Read end of the desk's standard output; given to the owner, which may read it when a start fails."""
    asked: int
    """The number of the request to open it."""
    hard: float
    """When it must be over; while opening, when it must be open."""
    touched: float
    init: int = 0

    def due(self) -> tuple[float, str]:
        """Say when the desk must burn, and why."""
        idle = self.touched + self.spec.idle
        return (self.hard, "deadline") if self.hard <= idle else (idle, "idle")


def now() -> float:
    """Read a clock that nobody sets and that counts sleep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Keeper:
    """Serves one owner until it is gone."""

    def __init__(self, settings: config.Config, owner: socket.socket) -> None:
        self.settings = settings
        self.owner = owner
        self.private = settings.run / "private"
        self.hierarchies = here()
        self.guest_sources = guestlib.sources()
        self.pool: Disk | None = None
        self.held: dict[str, Held] = {}
        self.filters = Filters(settings.lib / "cache", settings.runtime)
        self.doorman = Doorman()
        self.stuck: dict[str, Held] = {}
        """Desks that resisted burning."""
        self.retry_at = 0.0
        self.open_for_business = True

    # -- the loop ---------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Answer until the owner is gone, then burn what is left."""
        wake_r, wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.signalled)
        self.warm()
        try:
            while self.open_for_business:
                heard = self.listen(wake_r)
                if wake_r in heard:
                    os.read(wake_r, 4096)
                while self.owner.fileno() in heard and self.receive():
                    pass  # all that is asked comes before deadlines: among it may be that a desk is in use
                if heard - {wake_r, self.owner.fileno()}:
                    with suppress(OSError):
                        self.doorman.start()
                self.reap()
                self.burn_due()
                self.retry()
        finally:
            for desk in list(self.held):
                self.burn(desk, "owner gone")
            self.retry_at = 0.0
            self.retry()
            self.doorman.close()

    def warm(self) -> None:
        """Clear up and mount the pool while the owner gets ready; what fails here is told when it is needed."""
        try:
            self.collect()
            self.disk()
        except (OSError, HostError):
            pass

    def listen(self, wake: int) -> set[int]:
        """Wait for the owner, a signal, a deadline, or a first call at a gate; a call is noticed, never read."""
        poll = select.poll()
        for fd in (self.owner.fileno(), wake, *self.doorman.waiting()):
            poll.register(fd, select.POLLIN)
        return {fd for fd, _ in poll.poll(self.patience())}

    def signalled(self, number: int, _frame: object) -> None:
        """Note a signal. Ctrl-C reaches the whole terminal group; the owner decides what it means."""
        if number == signal.SIGTERM:
            self.open_for_business = False

    def patience(self) -> float | None:
        """Give milliseconds until the next deadline."""
        if not self.held:
            return RETRY * 1000 if self.stuck else None
        wait = max(0.0, min(held.due()[0] for held in self.held.values()) - now()) * 1000 + 1
        retry = RETRY * 1000 if self.stuck else LONGEST
        return min(wait, retry, LONGEST if self.doorman.pid or self.doorman.rested() else 1000.0)

    def receive(self) -> bool:
        """Take one request and answer it, if there is one; an owner that hung up ends the service."""
        try:
            data = self.owner.recv(MESSAGE, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.open_for_business = False
            return False
        number = -1
        try:
            number, request = parse(data)
            self.answer(number, request)
        except HotdeskError as e:
            self.send({"re": number, "error": {"code": e.code, "text": str(e)}})
        except OSError as e:
            self.send({"re": number, "error": {"code": KeeperError.code, "text": str(e)}})
        return True

    def answer(self, number: int, request: Request) -> None:
        """Carry out one request of the vocabulary."""
        match request.verb:
            case "open":
                self.begin(number, request)
            case "burn":
                self.burn(request.desk, "asked")
                self.send({"re": number, "ok": {}})
            case "touch":
                if held := self.held.get(request.desk):
                    held.touched = now()
            case "oom":
                self.send({"re": number, "ok": {"kills": self.find(request.desk).room.cgroup.oom_kills()}})

    def find(self, desk: str) -> Held:
        """Give a desk of ours."""
        if desk not in self.held:
            raise DeskGone(f"desk {desk} is not open here")
        return self.held[desk]

    def send(self, message: dict[str, object], *fds: int) -> None:
        """Tell the owner; one that does not listen is gone."""
        try:
            send_now(self.owner, json.dumps(message).encode(), fds)
        except OSError:  # also when its queue is full: an owner that never reads must not stop the deadlines of others
            self.open_for_business = False

    # -- opening ----------------------------------------------------------------------------------------------

    def begin(self, number: int, request: Request) -> None:
        """Prepare a room and start the runtime; `finish` answers when it is done."""
        spec, desk = request.spec, request.desk
        picture = image.find(self.settings.images, spec.image)
        state.check_floors(self.settings)
        record = state.enter(self.settings, desk, {"image": spec.image, "owner": os.getppid(), "keeper": os.getpid()})
        room = None
        base = None
        try:
            base = uids.claim(record.folder)
            record.note(base=base, opened=time.time(), deadline=spec.deadline, memory=spec.memory, cpus=spec.cpus)
            disk = Memory() if spec.disk_in == "memory" else self.disk()
            room = Room(desk, self.private / desk, Cgroup(self.hierarchies, desk), disk, base)
            guest = guestlib.load(self.settings.images, picture.digest, self.guest_sources)
            room.prepare(spec, picture, guest, self.filters.compiled)
            runtime, console = self.start_runtime(room)
        except BaseException:
            if room is not None and room.clear():
                self.stuck[desk] = Held(room, record, spec, 0, -1, number, 0.0, 0.0)
            else:
                record.leave()
                if base is not None:
                    uids.release(base, record.folder)
            raise
        start = now()
        hard = start + min(OPENING, spec.deadline)
        self.held[desk] = Held(room, record, spec, runtime, console, number, hard, start)

    def disk(self) -> Disk:
        """Give the pool, mounted on first need."""
        if self.pool is None:
            self.pool = choose(self.settings)
        return self.pool

    def start_runtime(self, room: Room) -> tuple[int, int]:
        """Start the OCI runtime inside the desk's cgroup.

        Its stdio are pipes: a runtime gives fds 0 to 2 to the desk's user, and a host file there would be the desk's.
        """
        argv = [
            self.settings.runtime,
            f"--root={self.settings.run / 'runtime'}",
            f"--log={room.folder / 'runtime.log'}",
            "--cgroup-manager=disabled",
            "run",
            "--detach",
            f"--bundle={room.folder / 'bundle'}",
            f"--pid-file={room.folder / 'pid'}",
            room.desk,
        ]
        stdin_r, stdin_w = os.pipe()
        console_r, console_w = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                room.cgroup.join()
                for source, target in ((stdin_r, 0), (console_w, 1), (console_w, 2)):
                    os.dup2(source, target)
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
                    signal.signal(number, signal.SIG_DFL)
                os.execvpe(argv[0], argv, {"PATH": bundle.PATH})  # noqa: S606 - a fixed program, no shell
            finally:
                os._exit(127)
        for fd in (stdin_r, stdin_w, console_w):
            os.close(fd)
        return child, console_r

    def finish(self, held: Held, status: int) -> None:
        """Tell the owner how opening went."""
        held.runtime = 0
        try:
            if status != 0:
                raise KeeperError(f"desk {held.room.desk} did not start: {self.complaint(held.room, status)}")
            self.hand_over(held)
        except (OSError, ValueError, KeeperError) as e:
            self.burn(held.room.desk, "did not start")
            self.send({"re": held.asked, "error": {"code": KeeperError.code, "text": str(e)}})

    def complaint(self, room: Room, status: int) -> str:
        """Give what the runtime said went wrong."""
        log = room.folder / "runtime.log"
        text = log.read_bytes()[:LOG_LIMIT].decode(errors="replace").strip() if log.exists() else ""
        return text or f"{self.settings.runtime} ended with {status}; is it installed? run `hotdesk setup`"

    def hand_over(self, held: Held) -> None:
        """Prove the walls, then give the owner what it needs to talk to the desk."""
        desk, room = held.room.desk, held.room
        held.init = int((room.folder / "pid").read_text())
        proof.check(held.init, room.base, room.netns, room.userns)
        self.filters.keep(self.settings.run / "runtime" / desk / "seccomp.bpf")
        held.touched = now()
        held.hard = held.touched + held.spec.deadline
        held.record.note(pid=held.init, state="open")
        assert room.listener is not None
        assert room.gate is not None
        self.doorman.add(desk, room.gate)
        reply = {"desk": desk, "pid": held.init, "uid": room.base + uids.USER}
        self.send({"re": held.asked, "ok": reply}, room.listener.fileno(), held.console)
        room.listener.close()
        os.close(held.console)
        held.console = -1

    # -- ending -----------------------------------------------------------------------------------------------

    def reap(self) -> None:
        """Collect exits: a runtime that finished starting, a desk whose pid 1 died, orphans of either."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.doorman.ended(pid):
                continue
            for held in list(self.held.values()):
                if pid == held.runtime:
                    self.finish(held, os.waitstatus_to_exitcode(status))
                elif pid == held.init:
                    self.burn(held.room.desk, "out of memory" if out_of_memory(held) else "its first process ended")

    def burn_due(self) -> None:
        """Burn desks whose time is up."""
        for desk, held in list(self.held.items()):
            at, why = held.due()
            if at <= now():
                self.burn(desk, why if not held.runtime else "it did not start in time; is the machine overloaded?")

    def burn(self, desk: str, why: str) -> None:
        """End a desk and everything of it; one that is not ours is no error."""
        held = self.held.pop(desk, None)
        if held is None:
            return
        self.doorman.remove(desk)
        if held.console >= 0:
            os.close(held.console)
        left = self.clear(held)
        if left:
            self.stuck[desk] = held
            self.retry_at = now() + RETRY
            with suppress(OSError):
                held.record.note(state="stuck", why=why, left=left)
        if held.runtime:
            text = f"desk {desk} was burnt while it opened: {why}"
            self.send({"re": held.asked, "error": {"code": KeeperError.code, "text": text}})
        self.send({"event": "ended", "desk": desk, "why": why, "left": left})

    def clear(self, held: Held) -> list[str]:
        """Kill a desk's processes and remove everything of it; say what resisted."""
        try:
            if not held.room.cgroup.kill():
                return [f"processes {sorted(held.room.cgroup.pids())} resist"]
            left = state.clear_runtime(self.settings, held.room.desk) + held.room.clear()
            if not left:
                held.record.leave()
                uids.release(held.room.base, held.record.folder)
        except OSError as e:
            return [str(e)]
        return left

    def retry(self) -> None:
        """Try again to burn what resisted, now and then: each try may take seconds that others wait."""
        if not self.stuck or now() < self.retry_at:
            return
        for desk, held in list(self.stuck.items()):
            if not self.clear(held):
                del self.stuck[desk]
        self.retry_at = now() + RETRY

    def collect(self) -> None:
        """Burn what keepers left that were killed; what resists stays listed, for the next one."""
        for desk in state.orphans(self.settings):
            state.bury(self.settings, self.hierarchies, desk, self.disk)
        state.sweep(self.settings)
        uids.sweep(self.settings.run / "desks")
        self.drop_layers()

    def drop_layers(self) -> None:
        """Delete disks of desks that are no more: a machine that lost power forgot the desks, not the pool."""
        if not (self.settings.lib / "pool.btrfs").exists():
            return
        pool = self.disk()
        for desk in pool.left():
            if ID_SHAPE.fullmatch(desk) and not (self.settings.run / "desks" / desk).exists():
                pool.drop(desk)


def main() -> None:
    """Serve the owner at descriptor 3."""
    os.umask(0o022)
    owner = socket.socket(fileno=3)
    owner.set_inheritable(False)
    settings = decode_settings(sys.argv[1])
    complain: Callable[[str], object] = lambda text: owner.send(json.dumps({"event": "unfit", "why": text}).encode())  # noqa: E731
    try:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        raise_core_limit()
        raise_file_table()
        state.prepare(settings)
        seclude(settings)
        keeper = Keeper(settings, owner)
    except (OSError, HostError) as e:
        complain(str(e))
        return
    keeper.serve()
    os._exit(0)  # everything is let go of; the interpreter's own clearing up would keep the owner waiting


def out_of_memory(held: Held) -> bool:
    """Say whether the memory limit killed something in a desk."""
    try:
        return held.room.cgroup.oom_kills() > 0
    except OSError:
        return False


def decode_settings(text: str) -> config.Config:
    """Read the settings an owner hands down on the command line."""
    values = json.loads(text)
    return config.Config(**{**values, **{name: Path(values[name]) for name in ("run", "lib", "images")}})
