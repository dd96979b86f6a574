"""The guest: runs programs and handles files for its host, over a socket to which it connects and reconnects. Process 1
of its desk.

One thread, one poll loop. It imports only modules the interpreter has loaded anyway, because they add to every desk's
start time. Where root is allowed, a second guest runs as root, started on first use. It is the same program, and also
serves `sudo`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs a desk 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from hotdesk_guest.acts import SudoCalls
    from hotdesk_guest.ports import DialledPort, GuestPorts
    from hotdesk_guest.process import GuestProcess
    from hotdesk_guest.watch import GuestWatch

    Ask = dict[str, Any]
    Steps = Iterator[tuple[int, bytes]]

import _signal  # type: ignore[import-not-found]
import errno
import posix
import select

from hotdesk_guest import files
from hotdesk_guest.line import GuestLink, PortLink
from hotdesk_guest.programs import GuestPrograms
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
    compute_cost,
    decode,
    encode,
)

MEANINGLESS = (WireError, LookupError, TypeError, ValueError, AttributeError, OverflowError)
"""Errors raised by malformed requests."""
SLICE = 64
"""Steps a long operation takes before other channels are served."""
PARKED_DIAL_S = 0.005
"""Seconds between two connection attempts while parked; for most of that time no process of the desk runs."""


class GuestChannel:
    """A request of the host."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.credit = WINDOW
        self.process: GuestProcess | None = None
        self.steps: Steps | None = None
        self.sink: files.Sink | None = None
        self.watch: GuestWatch | None = None
        self.port: DialledPort | None = None


class Guest:
    """The poll loop, and all state the guest keeps for its host."""

    def __init__(self, path: str, port: int | None = None) -> None:
        self.poll = select.epoll()
        self.channels: dict[int, GuestChannel] = {}
        self.line = GuestLink(path, self.poll) if port is None else PortLink(port, self.poll)
        self.programs = GuestPrograms(self)
        self.watches: dict[int, GuestChannel] = {}
        """Channels that watch files, by inotify's file descriptor."""
        self.acts: SudoCalls | None = None
        self.ports: GuestPorts | None = None
        self.ends_with_link = False
        """Whether it ends when its host disconnects; a host that needs it again starts another."""
        self.is_hidden = False
        """Whether other programs are prevented from reading its memory."""
        self.wake, wake_w = posix.pipe()
        posix.set_blocking(self.wake, False)
        posix.set_blocking(wake_w, False)
        _signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda number, at: None)
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
        self.poll.register(self.wake, select.EPOLLIN)

    # -- the link ---------------------------------------------------------------------------------------------

    def hang_up(self) -> None:
        """Close the link and, unless parked, all channels. Programs continue."""
        if self.ends_with_link:
            posix._exit(0)
        self.line.hang_up()
        for number in [] if self.line.parked else list(self.channels):
            self.forget(number)

    def tell(self, channel: GuestChannel, kind: int, payload: bytes) -> None:
        channel.credit -= compute_cost(payload)
        self.line.send(kind, channel.number, payload)

    def receive(self) -> None:
        """Read from the host. A malformed request ends its channel, a malformed frame the link."""
        try:
            frames = self.line.receive()
        except WireError:
            frames = None
        if frames is None:
            self.hang_up()
            return
        for kind, number, payload in frames:
            try:
                self.take(kind, number, payload)
            except OSError as e:
                self.refuse(number, e)
            except MEANINGLESS as e:
                self.refuse(number, OSError(errno.EINVAL, str(e)))

    def refuse(self, number: int, error: OSError) -> None:
        """Answer a channel with an error, if it is still open."""
        if number in self.channels:
            self.fail(self.channels[number], error)

    def take(self, kind: int, number: int, payload: bytes) -> None:
        if kind == OPEN:
            self.forget(number)
            self.channels[number] = GuestChannel(number)
            ask = read_request(payload)
            self.start(self.channels[number], ask["op"], ask)
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
                self.programs.listen(channel.process)
            elif channel.port is not None:
                channel.port.listen()
            elif self.acts is not None:
                self.acts.propose()
        elif kind == DATA:
            self.consume(channel, payload[1:])
        elif kind == END:
            self.finish(channel)
        elif kind == SIGNAL:
            self.obey(channel, read_request(payload))
        elif kind == DROP:
            self.forget(number)

    def obey(self, channel: GuestChannel, order: Ask) -> None:
        if channel.process is not None:
            self.programs.obey(channel.process, order)
        elif channel.watch is not None:
            channel.watch.drain(order["drain"])
        elif self.acts is not None and self.acts.channel is channel:
            self.acts.decide(order["act"], order["allow"])

    def reply(self, channel: GuestChannel, body: dict[str, object]) -> None:
        self.line.send(REPLY, channel.number, encode(body))
        self.forget(channel.number)

    def fail(self, channel: GuestChannel, error: OSError) -> None:
        self.reply(channel, {"error": files.reason(error), "text": error.strerror or str(error)})

    def forget(self, number: int) -> None:
        """Close a channel. The program it followed continues."""
        channel = self.channels.pop(number, None)
        if channel is None:
            return
        if channel.sink is not None:
            channel.sink.close()
        if channel.watch is not None:
            del self.watches[channel.watch.fd]
            channel.watch.close()
        if channel.port is not None:
            channel.port.close()
        self.programs.leave(channel)
        if self.acts is not None and self.acts.channel is channel:
            self.acts.leave()

    # -- requests of the host ---------------------------------------------------------------------------------

    def start(self, channel: GuestChannel, operation: str, ask: Ask) -> None:
        if operation == "exec":
            self.programs.execute(channel, ask)
        elif operation == "attach":
            self.programs.attach(channel, ask["pid"])
        elif operation == "processes":
            channel.steps = iter([(EVENT, encode([one])) for one in self.programs.describe()])
        elif operation == "write":
            channel.sink = files.Sink(ask["path"], ask["mode"])
        elif operation == "watch":
            self.begin_watch(channel, ask)
        elif operation == "dial" and self.ports is not None:
            self.ports.dial(channel, ask["port"])
        elif operation == "acts" and self.acts is not None:
            self.acts.attend(channel)
        elif operation == "settle":
            self.programs.settle(ask["env"])
            self.reply(channel, {})
        elif operation == "park" and self.ports is not None:
            from hotdesk_guest import parking

            parking.park(self, self.ports, channel, ask["token"])
        elif operation == "rejoin" and self.ports is not None:
            from hotdesk_guest import parking

            parking.rejoin(self, self.ports, channel, ask["same"], ask["env"])
        elif operation in files.STEPPED:
            channel.steps = files.STEPPED[operation](ask)
        else:
            self.reply(channel, files.SIMPLE[operation](ask))

    def begin_watch(self, channel: GuestChannel, ask: Ask) -> None:
        """Watch a folder. The import is here because few desks use it."""
        from hotdesk_guest.watch import GuestWatch

        channel.watch = GuestWatch(files.resolve(ask["path"]), ask["recursive"])
        self.watches[channel.watch.fd] = channel
        self.poll.register(channel.watch.fd, select.EPOLLIN)
        self.tell(channel, EVENT, encode([]))

    def consume(self, channel: GuestChannel, data: bytes) -> None:
        """Handle data for a program's standard input, a port or a file."""
        if channel.process is not None:
            self.programs.consume(channel, channel.process, data)
        elif channel.port is not None:
            channel.port.consume(data)
        elif channel.sink is not None:
            try:
                channel.sink.write(data)
            except OSError as e:
                self.fail(channel, e)
                return
            self.line.send(CREDIT, channel.number, len(data).to_bytes(4, "big"))

    def finish(self, channel: GuestChannel) -> None:
        if channel.process is not None:
            self.programs.finish(channel.process)
        elif channel.port is not None:
            channel.port.finish()
        elif channel.sink is not None:
            try:
                channel.sink.finish()
            except OSError as e:
                self.fail(channel, e)
                return
            self.reply(channel, {})

    # -- the loop ---------------------------------------------------------------------------------------------

    def pump(self) -> bool:
        """Take the next steps of long operations; return whether any can continue at once."""
        busy = False
        for channel in list(self.channels.values()):
            if channel.watch is not None:
                self.pass_on(channel, channel.watch)
            if channel.steps is None:
                continue
            for _ in range(SLICE):
                if channel.credit < STEP or self.line.is_full():
                    break
                try:
                    step = next(channel.steps, None)
                except OSError as e:
                    self.fail(channel, e)
                    break
                except MEANINGLESS as e:
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

    def pass_on(self, channel: GuestChannel, watch: GuestWatch) -> None:
        """Send changes while the host has credit; otherwise they wait in the kernel."""
        while channel.credit >= STEP and not self.line.parked and (batch := watch.take()):
            self.tell(channel, EVENT, batch)
        polled = watch.wants_more()
        if polled != watch.polled:
            watch.polled = polled
            self.poll.modify(watch.fd, select.EPOLLIN if polled else 0)

    def run(self) -> None:
        pause = 0.02
        while True:
            if self.line.sock is None:
                if self.line.dial():
                    pause = 0.02
                else:
                    pause = PARKED_DIAL_S if self.line.parked else min(1.0, pause * 1.5)
            busy = self.pump()
            wait = self.programs.expire()
            if self.line.sock is None:
                wait = min(wait, pause)
            for fd, event in self.poll.poll(0 if busy else wait):
                self.handle_event(fd, event)

    def handle_event(self, fd: int, event: int) -> None:
        if fd == self.wake:
            posix.read(self.wake, 4096)
            self.programs.reap()
        elif fd == self.line.get_fd():
            if event & select.EPOLLOUT:
                self.line.flush()
                self.programs.listen_again()
                if self.ports is not None:
                    self.ports.listen_again()
            if event & ~select.EPOLLOUT:
                self.receive()
        elif fd in self.watches:
            watch = self.watches[fd].watch
            if watch is not None:
                watch.read()
        elif self.programs.handle_event(fd) or (self.ports is not None and self.ports.handle_event(fd, event)):
            pass
        elif self.acts is not None:
            self.acts.handle_event(fd)


def read_request(payload: bytes) -> Ask:
    """Decode a request; raise `WireError` for a value that is not an object."""
    value = decode(payload)
    if not isinstance(value, dict):
        raise WireError("not an object")
    return value


def hide() -> bool:
    """Make this process undumpable, so that other programs cannot read its memory; return whether that succeeded."""
    try:
        import _ctypes

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        failed: int = _ctypes.call_function(prctl, (4, 0, 0, 0, 0))
        return failed == 0
    except (ImportError, OSError):
        return False  # an image without ctypes: the kernel refuses ptrace on process 1 in any case


def outlive_signals() -> None:
    """Catch every signal that would end this process: a sentry lets programs kill the first process with one.

    Started programs get the default action again. SIGKILL and SIGSTOP cannot be caught.
    """
    for number in _signal.valid_signals():
        try:
            if _signal.getsignal(number) == _signal.SIG_DFL:
                _signal.signal(number, lambda number, at: None)
        except (OSError, ValueError):
            continue


def main(path: str, sudo: int | None = None, sentry: bool = False, apart: bool = False) -> None:
    """Serve the host that listens at `path`; as root also the callers of `sudo`, a listening descriptor.

    `apart`: the network stack and the socket of `sudo` are the desk's own. `sentry`: the kernel is gVisor's, for which
    the same is true, and the first process to connect is taken for the guest.
    """
    guest = Guest(path)
    if not (sentry or apart) and sudo is not None:
        from hotdesk_guest.acts import SudoCalls

        guest.acts = SudoCalls(guest, sudo)
    guest.line.dial()
    if sentry:
        outlive_signals()
    if sentry and sudo is not None:
        from hotdesk_guest import wrong_calls

        wrong_calls.refuse()
    if sentry or apart:
        from hotdesk_guest import ports

        ports.attach(guest, path.rpartition("/")[0], sudo is not None, signals=sentry)
    guest.is_hidden = hide()
    guest.run()
