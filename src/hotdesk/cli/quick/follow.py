"""Follows one program of a desk over a link: streams, signals, and an exit code as a shell returns it.

It does what `cli/terminal.py` and `desk/link/process.py` do for all other commands, in one loop without asyncio. Every
frame comes from a desk and is treated as hostile: bounded by the reader, checked, and waited for with a timeout.
"""

from __future__ import annotations

import _socket
import os
import select
import sys
import time

from hotdesk.cli.quick.link_socket import CHUNK, read_some, send_some
from hotdesk.cli.quick.signals import EndingSignals, Interrupted
from hotdesk.errors import DeskGone, HotdeskError, KeeperError, LinkError, make_printable
from hotdesk.linux.pace import scale_seconds
from hotdesk_guest import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

HELLO_SECONDS = 10.0
SILENCE_SECONDS = 60.0
"""Seconds a guest may take to report that a program was started."""
START_SECONDS, EXIT_GRACE_S = 5.0, 2.0
"""Minimum seconds for a program's start, and seconds after its time limit for the guest to report it."""
KILL_SECONDS = 10.0
HANG_UP_SECONDS = 2.0
"""Seconds the desk's owner may take to pass on a kill request and close the connection."""
TIMED_OUT = 124
CHANNEL = 1
_TEXT_LIMIT = 500
PULSE_INTERVAL_S = 1.0


def explain_end() -> HotdeskError:
    return DeskGone("the desk closed the connection: it was burnt, or its first process ended; open another desk")


class Deaf(Exception):  # noqa: N818 - no error: `| head` has read enough
    """The program's output has no reader."""


class Follower:
    """Follows one program from its start to its end."""

    def __init__(
        self,
        sock: _socket.socket,
        rest: bytes,
        signals: EndingSignals,
        explain: Callable[[], HotdeskError] = explain_end,
        pulse: Callable[[], None] | None = None,
    ) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.signals = signals
        self.explain = explain
        """Returns the error for a connection that the other end closed."""
        self.pulse = pulse
        """Called at least every `PULSE_INTERVAL_S`."""
        self.reader = wire.FrameReader(wire.GUEST_KINDS, wire.GUEST_LIMIT)
        self.reader.buffer += rest
        self.out = bytearray()
        self.greeted = self.started = False
        self.stdin_open = True
        self.credit = wire.WINDOW
        """Bytes of input that may still be sent."""
        self.eaten = 0
        """Bytes of output that were written but not yet returned as credit."""
        self.reply: dict[str, object] | None = None
        self.due: float | None = time.monotonic() + scale_seconds(HELLO_SECONDS)
        """Time by which the awaited message must arrive."""

    def run(self, ask: dict[str, object], timeout: float | None) -> int:
        """Start a program and follow it; return its exit code."""
        while not self.greeted:
            self.turn("hotdesk's process in the desk did not start in time; open another desk")
        self.put(wire.OPEN, wire.encode(ask))
        start = 0.0 if timeout is None else max(timeout, scale_seconds(START_SECONDS)) + scale_seconds(EXIT_GRACE_S)
        silence = scale_seconds(SILENCE_SECONDS) if timeout is None else min(scale_seconds(SILENCE_SECONDS), start)
        self.due = time.monotonic() + silence
        while not self.started and self.reply is None:
            self.turn(f"hotdesk's process in the desk sent nothing for {silence:.0f} s; burn the desk, open another")
        self.due = None if timeout is None else time.monotonic() + timeout + scale_seconds(EXIT_GRACE_S)
        try:
            while self.reply is None:
                self.turn("")
        except TimeoutError:
            self.kill()
            return _tell_timeout(timeout)
        return self.tell_end(timeout)

    def tell_end(self, timeout: float | None) -> int:
        body = self.reply or {}
        if "error" in body:
            what = "the program failed" if self.started else "the program did not start"
            raise HotdeskError(f"{what}: {str(body.get('text'))[:_TEXT_LIMIT]}")
        code, text = body.get("code"), body.get("text", "")
        if type(code) is not int or not 0 <= code <= 255 or not isinstance(text, str):
            raise LinkError(
                f"hotdesk's process in the desk sent a malformed exit status ({str(body)[:_TEXT_LIMIT]}); "
                "burn the desk and open another"
            )
        if text:
            print(f"hotdesk: {make_printable(text[:_TEXT_LIMIT])}", file=sys.stderr)
        return _tell_timeout(timeout) if body.get("timed_out") is True else code

    # -- one turn ---------------------------------------------------------------------------------------------

    def turn(self, late: str) -> None:
        """Wait for the next event and handle it; `late` is the error text if nothing arrives in time."""
        if self.reader.buffer and self.take_frames():
            return
        watched = select.poll()
        watched.register(self.sock.fileno(), select.POLLIN | (select.POLLOUT if self.out else 0))
        watched.register(self.signals.fd, select.POLLIN)
        if self.stdin_open and self.started and self.credit > 0 and len(self.out) < wire.WINDOW:
            watched.register(0, select.POLLIN)
        wait = None if self.due is None else max(0.0, self.due - time.monotonic())
        if self.pulse is not None:
            wait = min(PULSE_INTERVAL_S, PULSE_INTERVAL_S if wait is None else wait)
        ready = dict(watched.poll(None if wait is None else wait * 1000 + 1))
        if self.pulse is not None:
            self.pulse()
        if self.signals.fd in ready:
            self.signals.raise_pending()
        if 0 in ready:
            self.read_stdin()
        if self.out:
            self.flush()
        if ready.get(self.sock.fileno(), 0) & (select.POLLIN | select.POLLHUP | select.POLLERR):
            self.receive()
        elif wait is not None and self.due is not None and time.monotonic() >= self.due:
            if not late:
                raise TimeoutError
            raise LinkError(late)

    def read_stdin(self) -> None:
        try:
            data = os.read(0, min(CHUNK, self.credit))
        except BlockingIOError:
            return
        if not data:
            self.stdin_open = False
            self.put(wire.END)
            return
        self.credit -= len(data)
        for at in range(0, len(data), wire.CHUNK):
            self.put(wire.DATA, b"\0" + data[at : at + wire.CHUNK])

    def put(self, kind: int, payload: bytes = b"") -> None:
        self.out += wire.encode_frame(kind, CHANNEL, payload)
        self.flush()

    def flush(self) -> None:
        send_some(self.sock, self.out)

    def receive(self) -> None:
        """Read once, and handle the complete frames."""
        data = read_some(self.sock)
        if data is None:
            return
        if not data:
            raise self.explain()
        self.reader.buffer += data
        self.take_frames()

    def take_frames(self) -> bool:
        """Handle the complete frames; return whether there were any."""
        progressed = False
        try:
            while self.reply is None and (frame := self.reader.read_next()) is not None:
                progressed = True
                self.take(*frame)
        except wire.WireError as e:
            raise LinkError(
                f"hotdesk's process in the desk broke the protocol: {e}; burn the desk and open another"
            ) from None
        return progressed

    def take(self, kind: int, number: int, payload: bytes) -> None:
        if kind == wire.HELLO:
            body = wire.decode(payload, wire.MAX_PARTS)
            if self.greeted or not isinstance(body, dict) or body.get("version") != wire.VERSION:
                raise LinkError(
                    "hotdesk's process in the desk uses another protocol version; burn the desk and open another"
                )
            self.greeted = True
        elif kind == wire.REPLY and number == 0:
            raise _end_of_desk(wire.decode(payload, wire.MAX_PARTS))
        elif number == CHANNEL:
            self.take_own(kind, payload)
        elif kind != wire.PONG:
            raise wire.WireError("a frame for a channel that is not open")

    def take_own(self, kind: int, payload: bytes) -> None:
        if kind == wire.DATA:
            if len(payload) < 2:
                raise wire.WireError("unexpected empty frame")
            if payload[0] not in (wire.STDOUT, wire.STDERR) or not self.started:
                where = f"on the unknown stream {payload[0]}" if self.started else "before the program started"
                raise LinkError(f"hotdesk's process in the desk sent output {where}; burn the desk and open another")
            write_all(payload[0], payload[1:], self.signals)
            self.give_back(wire.compute_cost(payload))
        elif kind == wire.EVENT:
            body = wire.decode(payload, wire.MAX_PARTS)
            if self.started or not isinstance(body, dict) or type(body.get("pid")) is not int:
                raise LinkError(
                    "hotdesk's process in the desk sent an unexpected frame; burn the desk and open another"
                )
            self.started = True
            self.give_back(wire.compute_cost(payload))
        elif kind == wire.CREDIT:
            self.credit += int.from_bytes(payload, "big")
            if len(payload) != 4 or self.credit > wire.WINDOW:
                raise wire.WireError("more flow-control credit than allowed")
        elif kind == wire.REPLY:
            reply = wire.decode(payload, wire.MAX_PARTS)
            if not isinstance(reply, dict):
                raise wire.WireError("its reply is not an object")
            self.reply = reply

    def give_back(self, cost: int) -> None:
        """Return credit for output that was written; until then the desk cannot send more."""
        self.eaten += cost
        if self.eaten >= wire.WINDOW // 4:
            granted, self.eaten = self.eaten, 0
            self.put(wire.CREDIT, granted.to_bytes(4, "big"))

    # -- end --------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        self.put(wire.SIGNAL, wire.encode({"signal": 9, "tree": True}))
        self.put(wire.DROP)
        end = time.monotonic() + KILL_SECONDS
        while self.out and (remaining := end - time.monotonic()) > 0:
            waiting = select.poll()
            waiting.register(self.sock.fileno(), select.POLLOUT)
            waiting.poll(remaining * 1000)
            self.flush()
        self.hang_up()

    def hang_up(self) -> None:
        """Shut down the sending side, and discard output until the owner closes the connection too.

        Closing a socket with unread output would reset it, and the owner might then not read the kill request.
        """
        end = time.monotonic() + HANG_UP_SECONDS
        try:
            self.sock.shutdown(_socket.SHUT_WR)
            while (remaining := end - time.monotonic()) > 0 and self.signals.wait(self.sock.fileno(), remaining):
                if read_some(self.sock) == b"":
                    return
        except (OSError, Interrupted):
            return  # the owner is gone, or the caller does not wait


def _end_of_desk(body: object) -> HotdeskError:
    if not isinstance(body, dict) or not isinstance(text := body.get("text"), str):
        return KeeperError(f"malformed end message from the process that opened the desk: {str(body)[:_TEXT_LIMIT]}")
    return DeskGone(text)


def _tell_timeout(timeout: float | None) -> int:
    print(f"hotdesk: the command did not end within {timeout} s and was killed", file=sys.stderr)
    return TIMED_OUT


def write_all(fd: int, data: bytes, signals: EndingSignals) -> None:
    """Write to this process's own terminal or pipe; a signal ends the wait for a reader that does not read."""
    try:
        while data:
            try:
                signals.interrupts = True
                data = data[os.write(fd, data) :]
            except BlockingIOError:
                signals.interrupts = False
                waiting = select.poll()
                waiting.register(fd, select.POLLOUT)
                waiting.register(signals.fd, select.POLLIN)
                waiting.poll()
                signals.raise_pending()
    except BrokenPipeError:
        raise Deaf from None
    finally:
        signals.interrupts = False
