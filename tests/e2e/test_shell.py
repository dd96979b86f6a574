"""Tests of `hotdesk shell`: the real program at a real terminal, with typed input."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator

import pytest

from hotdesk.config import Config
from tests.e2e.conftest import PROGRAM, Hotdesk, environment

pytestmark = pytest.mark.container

PROMPT = rb"\$ (\x1b\[[0-9;?]*[a-zA-Z])*$"
PATIENCE = 20.0


class Person:
    """A person at a terminal in which `hotdesk shell` runs."""

    def __init__(self, settings: Config, *argv: str) -> None:
        self.ours, self.theirs = pty.openpty()
        self.seen = b""
        self.resize(30, 100)
        self.before = termios.tcgetattr(self.theirs)
        self.process = subprocess.Popen(
            [PROGRAM, "shell", *argv],
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            env={**environment(settings), "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            start_new_session=True,
        )

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def until(self, pattern: bytes) -> bytes:
        """Read until a pattern appears; return everything up to it."""
        end = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < end, f"{pattern!r} did not come: {self.seen[-2000:]!r}"
            if select.select([self.ours], [], [], 0.2)[0]:
                self.seen += os.read(self.ours, 65536)
        text, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return text

    def answer(self, command: str) -> str:
        """Type a command; return the first line of its output."""
        self.type(f"{command}; echo do''ne\n")
        text = self.until(rb"\r\ndone\r\n|\ndone\r\n").decode()
        self.until(PROMPT)
        return text.replace("\x1b[?2004l", "").rsplit("\r\ndone", 1)[0].rpartition("\n")[2].strip("\r\n")

    def leave(self) -> int:
        """Wait for the program; return its exit code."""
        while self.process.poll() is None:
            if select.select([self.ours], [], [], 0.1)[0]:
                self.seen += os.read(self.ours, 65536)
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.leave()
        os.close(self.ours)
        os.close(self.theirs)


Sit = Callable[..., Person]


@pytest.fixture
def sit(settings: Config) -> Iterator[Sit]:
    people: list[Person] = []

    def seat(*argv: str) -> Person:
        people.append(Person(settings, *argv))
        return people[-1]

    yield seat
    for person in people:
        person.close()


def test_a_shell_is_a_terminal_with_colours_and_its_size(sit: Sit) -> None:
    person = sit()
    person.until(PROMPT)
    assert person.answer("tty").startswith("/dev/pts/")
    assert person.answer("stty size") == "30 100"
    assert person.answer("tput colors") == "256"
    assert person.answer("echo $COLORTERM") == "truecolor"
    assert person.answer("id -un") == "user"
    person.resize(50, 132)
    person.process.send_signal(signal.SIGWINCH)
    time.sleep(0.3)
    assert person.answer("stty size") == "50 132"
    person.type("exit 3\n")
    assert person.leave() == 3


def test_interrupts_and_job_control_work(sit: Sit) -> None:
    person = sit()
    person.until(PROMPT)
    person.type("sleep 1000\n")
    time.sleep(0.5)
    person.type("\x03")
    person.until(PROMPT)
    assert person.answer("echo $?") == "130"
    person.type("sleep 1001\n")
    time.sleep(0.5)
    person.type("\x1a")
    person.until(rb"Stopped")
    person.until(PROMPT)
    person.type("fg\n")
    person.until(rb"sleep 1001\r\n")
    person.type("\x03")
    person.until(PROMPT)
    person.type("exit\n")
    assert person.leave() in (0, 130)


def test_the_terminal_is_restored_whatever_the_desk_did(sit: Sit) -> None:
    person = sit("--", "printf", r"\033[?1003h\033[?1049h")
    assert person.leave() == 0
    assert termios.tcgetattr(person.theirs) == person.before
    assert person.seen.endswith(b"\x1b[?1000;1002;1003;1006;1004;2004;1049l\x1b[?25h\x1b[!p")


def test_a_desk_that_does_not_answer_can_be_left(sit: Sit, hotdesk: Hotdesk) -> None:
    desk = hotdesk("open").stdout.decode().strip()
    person = sit(desk)
    person.until(PROMPT)
    assert hotdesk("pause", desk).returncode == 0
    person.type("\x1d\x1d\x1d")
    start = time.monotonic()
    assert person.leave() == 128 + signal.SIGHUP
    assert time.monotonic() - start < 15
    assert hotdesk("burn", desk).returncode == 0


def test_a_shell_at_an_open_desk_leaves_it_open_and_root_is_root(sit: Sit, hotdesk: Hotdesk) -> None:
    desk = hotdesk("open", "--root").stdout.decode().strip()
    person = sit(desk, "--user", "root")
    person.until(rb"# (\x1b\[[0-9;?]*[a-zA-Z])*$")
    person.type("id -un > /home/user/who; exit\n")
    assert person.leave() == 0
    done = hotdesk("exec", desk, "--", "cat", "who")
    assert done.stdout == b"root\n"
    person = sit(desk)
    person.until(PROMPT)
    assert person.answer("sudo id -u") == "0"
    person.type("exit\n")
    assert person.leave() == 0
    hotdesk("burn", desk)


def test_a_new_desk_has_the_egress_it_was_given(sit: Sit) -> None:
    person = sit("--allow", "example.test")
    person.until(PROMPT)
    refused = "curl -s -o /dev/null -w '%{http_code}\\n' http://other.test/"
    assert person.answer(refused) == "403"
    person.type("exit\n")
    assert person.leave() == 0


def test_without_a_terminal_a_shell_names_the_alternative(hotdesk: Hotdesk) -> None:
    done = hotdesk("shell")
    assert done.returncode == 125
    assert b"hotdesk exec" in done.stderr


def test_a_lost_terminal_burns_the_desk(sit: Sit, hotdesk: Hotdesk) -> None:
    person = sit()
    person.until(PROMPT)
    person.process.send_signal(signal.SIGHUP)
    assert person.leave() == 128 + signal.SIGHUP
    assert hotdesk("ps").stdout.count(b"\n") == 1


def test_a_shell_without_egress_prints_that(sit: Sit) -> None:
    person = sit()
    assert b"This desk has no network access. To reach a host, open a new desk with --allow HOST.\r\n" in person.until(
        PROMPT
    )
    person.type("exit\n")
    assert person.leave() == 0
