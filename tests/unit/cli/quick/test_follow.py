"""Tests of a quick command that follows a program: streams pass unchanged, and hostile data does no harm."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pytest

from hotdesk_guest import wire

FOLLOW = """
import _socket, sys
from hotdesk.cli.quick.arguments import QuickRun
from hotdesk.cli.quick.run_follow import follow_lease
from hotdesk.cli.quick.signals import EndingSignals
timeout = float(sys.argv[2]) if sys.argv[2:] else None
sys.exit(follow_lease(_socket.socket(fileno=int(sys.argv[1])), b"", EndingSignals(), QuickRun([], ["true"], timeout)))
"""
FOLLOW_EXEC = """
import _socket, sys
from hotdesk.cli.quick.arguments import QuickExec
from hotdesk.cli.quick.exec import follow
from hotdesk.cli.quick.follow import Follower
from hotdesk.cli.quick.signals import EndingSignals
order = QuickExec("", ["true"], timeout=float(sys.argv[2]))
sys.exit(follow(Follower(_socket.socket(fileno=int(sys.argv[1])), b"", EndingSignals()), order))
"""
HELLO = wire.encode_frame(wire.HELLO, 0, wire.encode({"version": wire.VERSION}))
STARTED = wire.encode_frame(wire.EVENT, 1, wire.encode({"pid": 7}))


def ended(code: int = 0, **more: object) -> bytes:
    return wire.encode_frame(wire.REPLY, 1, wire.encode({"code": code, **more}))


def said(stream: int, data: bytes) -> bytes:
    return wire.encode_frame(wire.DATA, 1, bytes([stream]) + data)


@dataclass(slots=True)
class Running:
    """A command that follows a program, and the guest's end of its link."""

    guest: socket.socket
    process: subprocess.Popen[bytes]
    reader: wire.FrameReader = field(default_factory=lambda: wire.FrameReader(wire.HOST_KINDS, wire.HOST_LIMIT))

    def frames(self, count: int) -> list[tuple[int, int, bytes]]:
        """Read a number of frames of the command."""
        found: list[tuple[int, int, bytes]] = []
        while len(found) < count:
            data = self.guest.recv(1 << 16)
            assert data, found
            found += self.reader.feed(data)
        return found

    def try_read(self, seconds: float) -> int | None:
        """Read the next data; return how much standard input was in it, or `None` if nothing arrives."""
        self.guest.settimeout(seconds)
        try:
            frames = self.reader.feed(self.guest.recv(1 << 16))
        except TimeoutError:
            return None
        return sum(len(payload) - 1 for kind, _, payload in frames if kind == wire.DATA)

    def end(self) -> tuple[int, bytes, bytes]:
        with self.guest:
            self.guest.shutdown(socket.SHUT_WR)
            out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


@contextmanager
def following(*arguments: str, stdin: bytes | None = b"", program: str = FOLLOW) -> Iterator[Running]:
    ours, theirs = socket.socketpair()
    ours.settimeout(20)
    argv = [sys.executable, "-c", program, str(theirs.fileno()), *arguments]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(argv, env=env, pass_fds=[theirs.fileno()], **pipes) as process:  # type: ignore[call-overload]
        theirs.close()
        try:
            if stdin is not None:
                assert process.stdin is not None
                process.stdin.write(stdin)
                process.stdin.close()
                process.stdin = None
            yield Running(ours, process)
        finally:
            process.kill()


def wait_until_full(pipe: int) -> None:
    """Wait until the writer of a pipe is blocked: its content no longer grows."""
    before, count = -1, 0
    while count != before or not count:
        time.sleep(0.05)
        before, count = count, int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_streams_and_the_exit_code_come_through_unmixed() -> None:
    every = bytes(range(256)) * 50
    with following() as running:
        running.guest.sendall(HELLO + STARTED + said(1, every) + said(2, b"oops\n") + said(1, b"\xff") + ended(3))
        assert running.end() == (3, every + b"\xff", b"oops\n")


def test_standard_input_goes_in_whole_and_within_the_guests_room() -> None:
    given = os.urandom(wire.WINDOW + 70_000)
    with following(stdin=None) as running:
        assert running.process.stdin is not None
        os.set_blocking(running.process.stdin.fileno(), False)
        running.guest.sendall(HELLO + STARTED)
        rest, got, over = given, b"", False
        while not over:
            if rest and running.process.stdin is not None:
                rest = rest[os.write(running.process.stdin.fileno(), rest[:60_000]) :]
                if not rest:
                    running.process.stdin.close()
                    running.process.stdin = None
            for kind, _, payload in running.reader.feed(running.guest.recv(1 << 16)):
                if kind == wire.DATA:
                    got += payload[1:]
                    running.guest.sendall(wire.encode_frame(wire.CREDIT, 1, (len(payload) - 1).to_bytes(4, "big")))
                over = over or kind == wire.END
        running.guest.sendall(ended())
        assert running.end() == (0, b"", b"")
    assert got == given


@pytest.mark.slow
def test_a_guest_that_reads_nothing_gets_no_more_than_its_window() -> None:
    with following(stdin=None) as running:
        assert running.process.stdin is not None
        os.set_blocking(running.process.stdin.fileno(), False)
        running.guest.sendall(HELLO + STARTED)
        os.write(running.process.stdin.fileno(), bytes(60_000))
        sent = 0
        while (count := running.try_read(0.5)) is not None:
            sent += count
            with suppress(BlockingIOError):
                os.write(running.process.stdin.fileno(), bytes(60_000))
        assert sent == wire.WINDOW
        running.guest.sendall(ended())
        assert running.end()[0] == 0


def test_credit_is_given_back_as_output_is_written() -> None:
    with following() as running:
        running.guest.sendall(HELLO + STARTED)
        frames = running.frames(2)  # the request, and the end of its input
        for _ in range(2):
            running.guest.sendall(said(1, bytes(wire.CHUNK)))
        [(kind, number, payload)] = running.frames(1)
        assert (kind, number, int.from_bytes(payload, "big")) == (
            wire.CREDIT,
            1,
            2 * wire.STEP + wire.compute_cost(STARTED[wire.HEADER :]),
        )
        running.guest.sendall(ended())
        assert running.end() == (0, bytes(2 * wire.CHUNK), b"")
    assert [kind for kind, _, _ in frames] == [wire.OPEN, wire.END]


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        pytest.param(b"", b"ended, so the desk was burnt", id="silence"),
        pytest.param(HELLO + STARTED, b"ended, so the desk was burnt", id="no end"),
        pytest.param(HELLO + HELLO, b"another protocol version", id="two greetings"),
        pytest.param(
            wire.encode_frame(wire.HELLO, 0, wire.encode({"version": 9})),
            b"another protocol version",
            id="another version",
        ),
        pytest.param(wire.encode_frame(wire.HELLO, 0, b"x"), b"broke the protocol", id="no value"),
        pytest.param(b"\xff" * 9, b"broke the protocol", id="a huge frame"),
        pytest.param(wire.encode_frame(wire.OPEN, 1), b"broke the protocol", id="a host's frame"),
        pytest.param(HELLO + wire.encode_frame(wire.DATA, 2, b"\1x"), b"broke the protocol", id="another channel"),
        pytest.param(HELLO + said(1, b"early"), b"before the program started", id="output before the start"),
        pytest.param(HELLO + STARTED + said(3, b"x"), b"unknown stream", id="another stream"),
        pytest.param(
            HELLO + STARTED + wire.encode_frame(wire.DATA, 1, b"\1"), b"broke the protocol", id="an empty frame"
        ),
        pytest.param(HELLO + STARTED + STARTED, b"unexpected frame", id="two starts"),
        pytest.param(
            HELLO + wire.encode_frame(wire.EVENT, 1, wire.encode([])), b"unexpected frame", id="a strange start"
        ),
        pytest.param(HELLO + STARTED + ended(256), b"malformed exit", id="a strange code"),
        pytest.param(
            HELLO + STARTED + wire.encode_frame(wire.REPLY, 1, wire.encode({})), b"malformed exit", id="no code"
        ),
        pytest.param(
            HELLO + STARTED + wire.encode_frame(wire.REPLY, 1, wire.encode(1)), b"broke the protocol", id="no table"
        ),
        pytest.param(
            HELLO + wire.encode_frame(wire.CREDIT, 1, b"\0\0\0\1"), b"broke the protocol", id="too much credit"
        ),
        pytest.param(HELLO + wire.encode_frame(wire.CREDIT, 1, b"\1"), b"broke the protocol", id="credit cut short"),
        pytest.param(
            HELLO + wire.encode_frame(wire.REPLY, 0, wire.encode({"text": "desk gone\x1b[2J"})),
            rb"desk gone\x1b[2J",
            id="why",
        ),
        pytest.param(HELLO + wire.encode_frame(wire.REPLY, 0, b"n"), b"malformed end message", id="no reason"),
    ],
)
def test_a_guest_that_breaks_the_rules_is_hotdesks_failure_in_one_line(sent: bytes, words: bytes) -> None:
    with following() as running:
        running.guest.sendall(sent)
        code, out, err = running.end()
    assert (code, out, err.count(b"\n")) == (125, b"", 1)
    assert err.startswith(b"hotdesk: ")
    assert words in err


def test_messages_of_a_guest_are_escaped() -> None:
    with following() as running:
        running.guest.sendall(HELLO + ended(127, text="\x1b[31mno\u202e"))
        assert running.end() == (127, b"", b"hotdesk: \\x1b[31mno\\u202e\n")


@pytest.mark.slow
def test_a_guest_that_lets_the_time_pass_is_not_waited_for() -> None:
    with following("0.1") as running:
        running.guest.sendall(HELLO + STARTED)
        frames = running.frames(4)
        assert running.end() == (124, b"", b"hotdesk: the command did not end within 0.1 s and was killed\n")
    assert [kind for kind, _, _ in frames] == [wire.OPEN, wire.END, wire.SIGNAL, wire.DROP]
    assert wire.decode(frames[0][2]) == {"op": "exec", "argv": ["true"], "stdin": True, "tell": True, "timeout": 100}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_further_ones_do_not_interrupt_the_burn(number: int) -> None:
    with following() as running:
        running.guest.sendall(HELLO + STARTED)
        running.frames(2)
        running.process.send_signal(number)
        while running.guest.recv(1 << 16):
            pass  # the command reports the end of its input
        for other in (signal.SIGINT, signal.SIGTERM, number):
            running.process.send_signal(other)
        with pytest.raises(subprocess.TimeoutExpired):
            running.process.wait(0.3)  # the desk is not burnt yet
        assert running.end() == (128 + number, b"", b"")


def test_it_ends_when_its_output_is_closed() -> None:
    with following() as running:
        assert running.process.stdout is not None
        running.process.stdout.close()
        running.process.stdout = None
        running.guest.sendall(HELLO + STARTED + said(1, b"x"))
        assert running.end()[0] == 128 + signal.SIGPIPE


def test_a_signal_ends_it_while_its_output_is_blocked() -> None:
    with following() as running:
        running.guest.sendall(HELLO + STARTED)
        running.frames(2)
        running.guest.sendall(said(1, bytes(wire.CHUNK)) * 3)  # more than a pipe holds: the command waits in a write
        assert running.process.stdout is not None
        wait_until_full(running.process.stdout.fileno())
        running.process.send_signal(signal.SIGTERM)
        while running.guest.recv(1 << 16):
            pass  # it returns credit, then reports the end of its input
        assert running.end()[0] == 128 + signal.SIGTERM


@pytest.mark.slow
def test_after_a_kill_request_it_reads_until_the_owner_disconnects() -> None:
    """An owner that writes to a closed socket would stop reading, and the request to kill would be lost."""
    with following("0.1", program=FOLLOW_EXEC) as running:
        running.guest.sendall(HELLO + STARTED)
        running.frames(4)  # the last two: kill, forget
        assert running.guest.recv(1) == b""
        running.guest.sendall(said(1, bytes(wire.CHUNK)) * 8)  # more than the socket's buffer
        with pytest.raises(subprocess.TimeoutExpired):
            running.process.wait(0.3)
        assert running.end()[0] == 124


def test_a_command_that_follows_has_given_up_its_privileges() -> None:
    with following() as running:
        running.guest.sendall(HELLO + STARTED)
        running.frames(2)
        with open(f"/proc/{running.process.pid}/status") as file:
            status = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
        running.guest.sendall(ended())
        assert running.end()[0] == 0
    assert (int(status["CapEff"], 16), status["NoNewPrivs"]) == (0, "1")
