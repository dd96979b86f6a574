"""The programs of a desk: started for the host, read, fed, reaped, and ended at their time limit."""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs a desk 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hotdesk_guest.agent import Guest, GuestChannel

    Ask = dict[str, Any]

import errno
import posix
import select
import time

from hotdesk_guest.process import ENVIRONMENT, GuestProcess, kill_tree
from hotdesk_guest.wire import CREDIT, DATA, EVENT, encode

EXIT_RETENTION_S = 30
MAX_EXITS = 64
TICK_S = 1.0
"""Seconds between two checks of programs with a time limit; a much longer gap means that the whole desk was frozen."""


class GuestPrograms:
    """The programs that the guest started, and their followers."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest
        self.poll = guest.poll
        self.line = guest.line
        self.by_pid: dict[int, GuestProcess] = {}
        self.by_fd: dict[int, GuestProcess] = {}
        self.timed: set[int] = set()
        self.awaited: dict[int, Callable[[int], None]] = {}
        """Callbacks for the exits of children that no channel follows, by pid."""
        self.tidied = self.looked = time.monotonic()

    def execute(self, channel: GuestChannel, ask: Ask) -> None:
        """Start a program with this channel as its first follower, before it can write."""
        self.tidy()
        process = GuestProcess(ask)
        if not process.pid:
            self.guest.reply(channel, process.describe_outcome())
            return
        self.by_pid[process.pid] = process
        for fd in process.open_outputs():
            self.by_fd[fd] = process
        self.follow(channel, process)
        if process.due is not None:
            if not self.timed:
                self.looked = time.monotonic()
            self.timed.add(process.pid)
        if ask.get("tell"):
            self.guest.tell(channel, EVENT, encode({"pid": process.pid}))
        self.listen(process)

    def attach(self, channel: GuestChannel, pid: int) -> None:
        self.tidy()
        process = self.by_pid.get(pid)
        if process is None:
            raise OSError(errno.ENOENT, "hotdesk started no program with pid %d in this desk" % pid)
        self.guest.tell(channel, EVENT, encode({"pid": pid}))
        for message in process.recent:
            self.guest.tell(channel, DATA, message)
        if process.over:
            self.guest.reply(channel, process.describe_outcome())
        else:
            self.follow(channel, process)
            self.listen(process)

    def follow(self, channel: GuestChannel, process: GuestProcess) -> None:
        channel.process = process
        process.followers[channel.number] = channel

    def leave(self, channel: GuestChannel) -> None:
        """Stop following a program. It continues, and gets pending input, for which a later host gets no credit."""
        if channel.process is not None:
            channel.process.followers.pop(channel.number, None)
            pending = channel.process.pending
            pending[:] = [(0 if number == channel.number else number, data) for number, data in pending]
            self.listen(channel.process)

    def describe(self) -> list[dict[str, object]]:
        self.tidy()
        return [one.describe() for one in self.by_pid.values()]

    def obey(self, process: GuestProcess, order: Ask) -> None:
        if "size" in order:
            process.resize(order["size"])
        elif order["tree"]:
            kill_tree(process.pid, process.mark, process.status is None)
        else:
            process.signal(order["signal"])

    def handle_event(self, fd: int) -> bool:
        """Handle an event of a program's descriptor; return False if it is not one of theirs."""
        process = self.by_fd.get(fd)
        if process is None:
            return False
        if fd == process.feeding:
            self.feed(process)
        else:
            self.hear(process, fd)
        return True

    def consume(self, channel: GuestChannel, process: GuestProcess, data: bytes) -> None:
        process.pending.append((channel.number, data))
        process.typed = data[-1:]
        self.feed(process)

    def finish(self, process: GuestProcess) -> None:
        """Close a program's input, once it has read the rest."""
        process.end_input()
        self.feed(process)

    def feed(self, process: GuestProcess) -> None:
        for number, size in process.feed():
            if number in self.guest.channels:
                self.line.send(CREDIT, number, size.to_bytes(4, "big"))
        if process.stdin >= 0 and process.pending and process.stdin not in self.by_fd:
            self.by_fd[process.stdin] = process
            self.poll.register(process.stdin, select.EPOLLOUT)
        elif self.by_fd.get(process.feeding) is process and (process.stdin < 0 or not process.pending):
            self.stop_feeding(process)

    def stop_feeding(self, process: GuestProcess) -> None:
        """Stop polling a program's input; its descriptor's number may be reused once it is closed."""
        fd, process.feeding = process.feeding, -1 if process.stdin < 0 else process.feeding
        if self.by_fd.get(fd) is process:
            del self.by_fd[fd]
            try:
                self.poll.unregister(fd)
            except OSError:
                pass  # closing it removed it from the poll

    def listen(self, process: GuestProcess) -> None:
        """Read a program's output only while every follower can take it: slow readers slow the program down."""
        ready = not self.line.is_full() and process.measure_room() > 0
        for fd in process.open_outputs():
            if ready and fd not in process.polled:
                self.poll.register(fd, select.EPOLLIN)
                process.polled.add(fd)
            elif not ready and fd in process.polled:
                self.poll.unregister(fd)
                process.polled.discard(fd)

    def listen_again(self) -> None:
        """Check every program again, because the link has room."""
        for process in list(self.by_pid.values()):
            self.listen(process)

    def hear(self, process: GuestProcess, fd: int) -> None:
        if process.measure_room() <= 0:
            self.listen(process)
            return
        message = process.read(fd)
        if message:
            for channel in list(process.followers.values()):
                self.guest.tell(channel, DATA, message)
            self.listen(process)
        elif message == b"":
            self.hush(process, fd)
            self.conclude(process)

    def hush(self, process: GuestProcess, fd: int) -> None:
        """Close an output, which also removes it from the poll."""
        process.polled.discard(fd)
        self.by_fd.pop(fd, None)
        process.close_output(fd)

    def reap(self) -> None:
        """Reap every child: programs started here, and orphans adopted by process 1."""
        while True:
            try:
                pid, status = posix.waitpid(-1, posix.WNOHANG)
            except OSError:
                return
            if pid == 0:
                return
            process = self.by_pid.get(pid)
            if process is not None and process.status is None:
                process.status = status
                process.hang_up()
                self.conclude(process)
            elif pid in self.awaited:
                self.awaited.pop(pid)(status)

    def conclude(self, process: GuestProcess) -> None:
        """Send the followers the result once a program is reaped and its output closed."""
        if process.over or process.status is None or process.open_outputs():
            return
        self.stop_feeding(process)
        process.end()
        for channel in list(process.followers.values()):
            self.guest.reply(channel, process.describe_outcome())

    def settle(self, env: dict[str, str | None]) -> None:
        """Reset to the initial state, and set these variables for all new programs; `None` removes one."""
        for name, value in env.items():
            if value is None:
                ENVIRONMENT.pop(name, None)
            else:
                ENVIRONMENT[str(name)] = str(value)
        for pid in [pid for pid, one in self.by_pid.items() if one.over]:
            del self.by_pid[pid]
            self.timed.discard(pid)

    def tidy(self) -> None:
        if len(self.by_pid) <= 2 * MAX_EXITS and time.monotonic() < self.tidied + EXIT_RETENTION_S:
            return
        self.tidied = time.monotonic()
        ended = sorted((one.ended, pid) for pid, one in self.by_pid.items() if one.over)
        limit = time.monotonic() - EXIT_RETENTION_S
        for place, (when, pid) in enumerate(ended):
            if when < limit or place < len(ended) - MAX_EXITS:
                del self.by_pid[pid]
                self.timed.discard(pid)

    def expire(self) -> float:
        """Kill programs past their time limit, not counting the desk's freezes; return seconds until the next check."""
        now = time.monotonic()
        stopped = now - self.looked - TICK_S if now - self.looked > 2 * TICK_S else 0.0
        self.looked = now
        next_due = TICK_S if self.timed else 3600.0
        for process in [self.by_pid[pid] for pid in self.timed]:
            if process.over or process.due is None:
                self.timed.discard(process.pid)
                continue
            process.due += stopped
            if process.due <= now:
                process.timed_out = True
                kill_tree(process.pid, process.mark, process.status is None)
                process.due = now + 0.2
                if process.status is not None:
                    for fd in process.open_outputs():  # a process that was not found as a descendant holds the pipe
                        self.hush(process, fd)
                    self.conclude(process)
            next_due = min(next_due, process.due - now)
        return max(0.0, next_due)
