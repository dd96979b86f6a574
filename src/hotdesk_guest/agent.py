"""The guest: runs programs and handles files for its host, over one socket it dials and redials. Pid 1 of its desk.

One thread, one poll loop. It imports only what the interpreter holds anyway, because every desk pays for its start.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs a desk 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Ask = dict[str, Any]
    Steps = Iterator[tuple[int, bytes]]

import _signal  # type: ignore[import-not-found]
import errno
import os
import select
import time

from hotdesk_guest import files
from hotdesk_guest.line import Line
from hotdesk_guest.process import Process, kill_tree
from hotdesk_guest.wire import (
    CREDIT,
    DATA,
    DROP,
    END,
    EVENT,
    OPEN,
    PING,
    PONG,
    REPLY,
    SIGNAL,
    STEP,
    WINDOW,
    WireError,
    cost,
    decode,
    encode,
)

KEPT_SECONDS = 30
KEPT_MOST = 64
SLICE = 64
"""Steps one long operation takes before others get their turn."""


class Channel:
    """One thing the host asked for."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.credit = WINDOW
        self.process: Process | None = None
        self.steps: Steps | None = None
        self.sink: files.Sink | None = None


class Guest:
    """The loop, and everything the desk runs for its host."""

    def __init__(self, path: str) -> None:
        self.poll = select.epoll()
        self.channels: dict[int, Channel] = {}
        self.processes: dict[int, Process] = {}
        self.by_fd: dict[int, Process] = {}
        self.timed: set[int] = set()
        self.line = Line(path, self.poll)
        self.tidied = time.monotonic()
        self.wake, wake_w = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_w, False)
        _signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda number, at: None)
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
        self.poll.register(self.wake, select.EPOLLIN)

    # -- the link ---------------------------------------------------------------------------------------------

    def hang_up(self) -> None:
        """Drop the link and all channels; programs go on."""
        self.line.hang_up()
        for number in list(self.channels):
            self.forget(number)

    def tell(self, channel: Channel, kind: int, payload: bytes) -> None:
        """Send what counts against a channel's credit."""
        channel.credit -= cost(payload)
        self.line.send(kind, channel.number, payload)

    def receive(self) -> None:
        """Take what the host sent."""
        frames = self.line.receive()
        if frames is None:
            self.hang_up()
            return
        for kind, number, payload in frames:
            self.take(kind, number, payload)

    def take(self, kind: int, number: int, payload: bytes) -> None:
        """Handle one frame."""
        if kind == OPEN:
            self.channels[number] = Channel(number)
            self.begin(self.channels[number], table(payload))
            return
        if kind == PING:
            self.line.send(PONG, 0, payload)
            return
        channel = self.channels.get(number)
        if channel is None:
            return
        if kind == CREDIT:
            channel.credit += int.from_bytes(payload, "big")
            if channel.process is not None:
                self.listen(channel.process)
        elif kind == DATA:
            self.consume(channel, payload[1:])
        elif kind == END:
            self.finish(channel)
        elif kind == SIGNAL and channel.process is not None:
            order = table(payload)
            if order["tree"]:
                kill_tree(channel.process)
            else:
                channel.process.signal(order["signal"])
        elif kind == DROP:
            self.forget(number)

    def reply(self, channel: Channel, body: dict[str, object]) -> None:
        """Answer a channel for good."""
        self.line.send(REPLY, channel.number, encode(body))
        self.forget(channel.number)

    def fail(self, channel: Channel, error: OSError) -> None:
        """Answer a channel with what went wrong."""
        self.reply(channel, {"error": files.reason(error), "text": error.strerror or str(error)})

    def forget(self, number: int) -> None:
        """Let go of a channel; what it followed goes on."""
        channel = self.channels.pop(number, None)
        if channel is None:
            return
        if channel.sink is not None:
            channel.sink.close()
        if channel.process is not None:
            channel.process.followers.pop(number, None)
            self.listen(channel.process)

    # -- what a host asks -------------------------------------------------------------------------------------

    def begin(self, channel: Channel, ask: Ask) -> None:
        """Start one operation."""
        try:
            if ask["op"] == "exec":
                self.execute(channel, ask)
            elif ask["op"] == "attach":
                self.attach(channel, ask["pid"])
            elif ask["op"] == "processes":
                self.tidy()
                told = [one.describe() for one in self.processes.values()]
                channel.steps = iter([(EVENT, encode([one])) for one in told])
            elif ask["op"] == "write":
                channel.sink = files.Sink(ask["path"], ask["mode"])
            elif ask["op"] in files.STEPPED:
                channel.steps = files.STEPPED[ask["op"]](ask)
            else:
                self.reply(channel, files.SIMPLE[ask["op"]](ask))
        except OSError as e:
            self.fail(channel, e)
        except (ValueError, TypeError, KeyError, OverflowError, WireError) as e:
            self.fail(channel, OSError(errno.EINVAL, str(e)))

    def execute(self, channel: Channel, ask: Ask) -> None:
        """Start a program with this channel as its first follower, before it can write."""
        self.tidy()
        process = Process(ask)
        if not process.pid:
            self.reply(channel, process.outcome())
            return
        self.processes[process.pid] = process
        for fd in (process.stdout, process.stderr):
            self.by_fd[fd] = process
        self.follow(channel, process)
        if process.due is not None:
            self.timed.add(process.pid)
        if ask.get("tell"):
            self.tell(channel, EVENT, encode({"pid": process.pid}))
        self.listen(process)

    def attach(self, channel: Channel, pid: int) -> None:
        """Follow a program already started."""
        self.tidy()
        process = self.processes.get(pid)
        if process is None:
            raise OSError(errno.ENOENT, "no program with pid %d was started here" % pid)
        self.tell(channel, EVENT, encode({"pid": pid}))
        for message in process.recent:
            self.tell(channel, DATA, message)
        if process.over:
            self.reply(channel, process.outcome())
        else:
            self.follow(channel, process)
            self.listen(process)

    def follow(self, channel: Channel, process: Process) -> None:
        channel.process = process
        process.followers[channel.number] = channel

    def consume(self, channel: Channel, data: bytes) -> None:
        """Take bytes for a program's standard input or a file."""
        if channel.process is not None:
            channel.process.pending.append((channel.number, data))
            self.feed(channel.process)
        elif channel.sink is not None:
            try:
                channel.sink.write(data)
            except OSError as e:
                self.fail(channel, e)
                return
            self.line.send(CREDIT, channel.number, len(data).to_bytes(4, "big"))

    def finish(self, channel: Channel) -> None:
        """Take the end of what the host sends on a channel."""
        if channel.process is not None:
            channel.process.ending = True
            self.feed(channel.process)
        elif channel.sink is not None:
            try:
                channel.sink.finish()
            except OSError as e:
                self.fail(channel, e)
                return
            self.reply(channel, {})

    # -- programs ---------------------------------------------------------------------------------------------

    def feed(self, process: Process) -> None:
        """Write to a program's standard input what it takes now, and give the host its credit back."""
        for number, size in process.feed():
            if number in self.channels:
                self.line.send(CREDIT, number, size.to_bytes(4, "big"))
        if process.stdin >= 0 and process.pending and process.stdin not in self.by_fd:
            self.by_fd[process.stdin] = process
            self.poll.register(process.stdin, select.EPOLLOUT)
        elif self.by_fd.get(process.feeding) is process and (process.stdin < 0 or not process.pending):
            self.stop_feeding(process)

    def stop_feeding(self, process: Process) -> None:
        """Stop waiting for a program to take more; its descriptor may be another's once it is closed."""
        fd, process.feeding = process.feeding, -1 if process.stdin < 0 else process.feeding
        if self.by_fd.get(fd) is process:
            del self.by_fd[fd]
            try:
                self.poll.unregister(fd)
            except OSError:
                pass  # closing it took it out

    def listen(self, process: Process) -> None:
        """Read a program's output only while every follower can take it: reading slowly slows the program down."""
        ready = not self.line.full() and process.room() > 0
        for fd in process.open_outputs():
            if ready and fd not in process.heard:
                self.poll.register(fd, select.EPOLLIN)
                process.heard.add(fd)
            elif not ready and fd in process.heard:
                self.poll.unregister(fd)
                process.heard.discard(fd)

    def hear(self, process: Process, fd: int) -> None:
        """Pass on what a program wrote."""
        if process.room() <= 0:
            self.listen(process)
            return
        message = process.read(fd)
        if message:
            for channel in list(process.followers.values()):
                self.tell(channel, DATA, message)
            self.listen(process)
        elif message == b"":
            self.hush(process, fd)
            self.conclude(process)

    def hush(self, process: Process, fd: int) -> None:
        """Close an output; closing takes it out of the poll."""
        process.heard.discard(fd)
        self.by_fd.pop(fd, None)
        process.close_output(fd)

    def reap(self) -> None:
        """Collect every exit: of programs started here, and of orphans that fell to pid 1."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except OSError:
                return
            if pid == 0:
                return
            process = self.processes.get(pid)
            if process is not None and process.status is None:
                process.status = status
                self.conclude(process)

    def conclude(self, process: Process) -> None:
        """Tell the followers once a program is reaped and its output closed."""
        if process.over or process.status is None or process.open_outputs():
            return
        self.stop_feeding(process)
        process.end()
        for channel in list(process.followers.values()):
            self.reply(channel, process.outcome())

    def tidy(self) -> None:
        """Forget exits that were kept long enough."""
        if len(self.processes) <= 2 * KEPT_MOST and time.monotonic() < self.tidied + KEPT_SECONDS:
            return
        self.tidied = time.monotonic()
        ended = sorted((one.ended, pid) for pid, one in self.processes.items() if one.over)
        limit = time.monotonic() - KEPT_SECONDS
        for place, (when, pid) in enumerate(ended):
            if when < limit or place < len(ended) - KEPT_MOST:
                del self.processes[pid]
                self.timed.discard(pid)

    def expire(self) -> float:
        """Kill programs whose time is up; give seconds until the next is due."""
        now = time.monotonic()
        next_due = 3600.0
        for process in [self.processes[pid] for pid in self.timed]:
            if process.over or process.due is None:
                self.timed.discard(process.pid)
                continue
            if process.due <= now:
                process.timed_out = True
                kill_tree(process)
                process.due = now + 0.2
                if process.status is not None:
                    for fd in process.open_outputs():  # something out of the tree's reach holds the pipe
                        self.hush(process, fd)
                    self.conclude(process)
            next_due = min(next_due, process.due - now)
        return max(0.0, next_due)

    # -- the loop ---------------------------------------------------------------------------------------------

    def pump(self) -> bool:
        """Take the next steps of long operations; say whether any can go on at once."""
        busy = False
        for channel in list(self.channels.values()):
            if channel.steps is None:
                continue
            for _ in range(SLICE):
                if channel.credit < STEP or self.line.full():
                    break
                try:
                    step = next(channel.steps, None)
                except OSError as e:
                    self.fail(channel, e)
                    break
                except WireError as e:
                    self.fail(channel, OSError(errno.EINVAL, str(e)))
                    break
                if step is None:
                    self.reply(channel, {})
                    break
                kind, payload = step
                if kind:
                    self.tell(channel, kind, payload)
            else:
                busy = True
        return busy

    def run(self) -> None:
        """Serve for ever."""
        pause = 0.02
        while True:
            if self.line.sock is None:
                if self.line.dial():
                    pause = 0.02
                else:
                    pause = min(1.0, pause * 1.5)
            busy = self.pump()
            wait = self.expire()
            if self.line.sock is None:
                wait = min(wait, pause)
            for fd, event in self.poll.poll(0 if busy else wait):
                if fd == self.wake:
                    os.read(self.wake, 4096)
                    self.reap()
                elif fd == self.line.number():
                    if event & select.EPOLLOUT:
                        self.line.flush()
                        for process in list(self.processes.values()):
                            self.listen(process)
                    if event & ~select.EPOLLOUT:
                        self.receive()
                elif fd in self.by_fd:
                    process = self.by_fd[fd]
                    if fd == process.feeding:
                        self.feed(process)
                    else:
                        self.hear(process, fd)


def table(payload: bytes) -> Ask:
    """Read a request; a host that sends anything else is broken, and the link with it."""
    value = decode(payload)
    if not isinstance(value, dict):
        raise WireError("not a table")
    return value


def hide() -> None:
    """Make this process undumpable, so that programs beside it cannot read its memory."""
    try:
        import _ctypes

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        _ctypes.call_function(prctl, (4, 0, 0, 0, 0))
    except (ImportError, OSError):
        pass  # an image without it: ptrace on pid 1 is refused all the same


def main(path: str) -> None:
    """Serve the host that listens at a path."""
    guest = Guest(path)
    guest.line.dial()
    hide()
    guest.run()
