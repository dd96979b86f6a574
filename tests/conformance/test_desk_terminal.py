"""Tests of a program at a terminal at any desk: what it sees, what can be typed, how it ends."""

from __future__ import annotations

import re
import signal
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from hotdesk.desk.seam import Desk, Process, Size
from hotdesk.errors import BriefError

pytestmark = pytest.mark.timeout(60)

SIZE = "import os; print(*os.get_terminal_size(0), flush=True)"
SIZES = """
import os, signal
def tell(*_):
    os.write(1, b"%d %d\\n" % os.get_terminal_size(0))  # print() may not be interrupted by itself
signal.signal(signal.SIGWINCH, tell)
tell()
while True:
    signal.pause()
"""
STREAMS = """
import os, sys
names = {os.ttyname(fd) for fd in (0, 1, 2)}
assert len(names) == 1 and all(os.isatty(fd) for fd in (0, 1, 2))
assert os.getsid(0) == os.getpid() == os.tcgetpgrp(0), "it does not lead the session of its terminal"
with open("/dev/tty", "w") as controlling:
    controlling.write("to my terminal\\n")
"""
HANGUP = """
import os, signal, sys, time
if os.fork():
    time.sleep(0.5)
    sys.exit(3)
def note(number, _):
    with open(sys.argv[1], "w") as file:
        file.write(str(number))
    os._exit(0)
signal.signal(signal.SIGHUP, note)
print("ready", flush=True)
time.sleep(100)
"""
ASK = "import getpass; print('heard', getpass.getpass('word: '), flush=True)"


class Screen:
    """The output and the input of a terminal."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.output = process.output()
        self.seen = b""
        self.streams: set[str] = set()

    async def until(self, *patterns: str, seconds: float = 15) -> bytes:
        """Read until every pattern has come, in this order; return the output up to there, and drop it."""
        wanted = re.compile(b".*?".join(pattern.encode() for pattern in patterns), re.DOTALL)
        with anyio.move_on_after(seconds):
            while not (found := wanted.search(self.seen)):
                stream, data = await anext(self.output)
                self.streams.add(stream)
                self.seen += data
            shown, self.seen = self.seen[: found.end()], self.seen[found.end() :]
            return shown
        pytest.fail(f"{patterns} did not come, only {self.seen[-2000:]!r}")

    async def rest(self) -> bytes:
        with anyio.fail_after(20):
            async for stream, data in self.output:
                self.streams.add(stream)
                self.seen += data
        return self.seen


@asynccontextmanager
async def terminal(
    desk: Desk, *argv: str, size: Size | None = None, timeout: float | None = 40, env: dict[str, str] | None = None
) -> AsyncIterator[Screen]:
    """Start a program at a terminal; kill it at the end of the block."""
    process = await desk.start(list(argv), pty=size or Size(), timeout=timeout, env=env)
    try:
        yield Screen(process)
    finally:
        await process.kill()


async def eventually(desk: Desk, script: str) -> None:
    """Wait until a shell script succeeds."""
    done = await desk.run(["sh", "-c", f"until {{ {script}; }} >&2; do sleep 0.05; done"], timeout=10)
    assert done.ok, f"{script} never held"


BASH = ("bash", "--norc", "--noprofile", "-i")
PLAIN = {"PS1": "$ ", "TERM": "dumb", "HISTFILE": ""}


# -- what the program sees -----------------------------------------------------------------------------------------


async def test_all_three_streams_are_one_controlling_terminal(desk: Desk) -> None:
    async with terminal(desk, "python3", "-c", STREAMS) as screen:
        assert await screen.rest() == b"to my terminal\r\n"
        assert (await screen.process.wait()).exit_code == 0


async def test_a_program_started_without_a_terminal_has_none(desk: Desk) -> None:
    done = await desk.run(["sh", "-c", "tty; test -t 1 || echo none; (: </dev/tty) 2>&- || echo no ctty"])
    assert done.text.splitlines() == ["not a tty", "none", "no ctty"]


async def test_stdout_and_stderr_of_a_terminal_are_one_stream(desk: Desk) -> None:
    async with terminal(desk, "sh", "-c", "echo out; echo err >&2; echo out again") as screen:
        assert await screen.rest() == b"out\r\nerr\r\nout again\r\n"
        assert screen.streams == {"stdout"}


async def test_a_terminal_has_the_requested_size(desk: Desk) -> None:
    for size in (Size(), Size(50, 132), Size(1, 1), Size(32767, 32767)):
        async with terminal(desk, "python3", "-c", SIZE, size=size) as screen:
            assert (await screen.rest()).split() == [str(size.columns).encode(), str(size.rows).encode()]


async def test_a_program_is_notified_of_a_new_size(desk: Desk) -> None:
    async with terminal(desk, "python3", "-c", SIZES, size=Size(24, 80)) as screen:
        await screen.until("80 24\r\n")
        await screen.process.resize(Size(40, 120))
        await screen.until("120 40\r\n")
        await screen.process.resize(Size(10, 20))
        await screen.until("20 10\r\n")


async def test_a_program_without_a_terminal_takes_no_notice_of_a_size(desk: Desk) -> None:
    process = await desk.start(["cat"])
    await process.resize(Size(10, 10))
    await process.send(b"still here")
    await process.close_stdin()
    assert [data async for _, data in process.output()] == [b"still here"]
    await process.resize(Size(11, 11))


@pytest.mark.parametrize(("rows", "columns"), [(0, 80), (24, 0), (-1, 80), (24, 1 << 15), (1 << 20, 80)])
def test_a_size_that_no_terminal_has_is_refused(rows: int, columns: int) -> None:
    with pytest.raises(BriefError):
        Size(rows, columns)


async def test_the_kind_of_terminal_is_passed_and_colours_come_through(desk: Desk) -> None:
    script = "echo $TERM; ls --color=auto -d /; printf '\\033[31mred\\033[0m \\303\\251'"
    async with terminal(desk, "sh", "-c", script, env={"TERM": "xterm-256color"}) as screen:
        said = await screen.rest()
    assert said.startswith(b"xterm-256color\r\n")
    assert b"\x1b[01;34m/" in said
    assert said.endswith(b"\x1b[31mred\x1b[0m \xc3\xa9")


# -- input ---------------------------------------------------------------------------------------------------------


async def test_typed_input_is_echoed_and_read(desk: Desk) -> None:
    async with terminal(desk, "sh", "-c", "read word; echo heard $word") as screen:
        await screen.process.send(b"hello\r")
        assert await screen.rest() == b"hello\r\nheard hello\r\n"


async def test_echo_can_be_switched_off(desk: Desk) -> None:
    async with terminal(desk, "python3", "-c", ASK) as screen:
        await screen.until("word: ")
        await screen.process.send(b"secret\r")
        said = await screen.rest()
    assert said.count(b"secret") == 1
    assert said.endswith(b"heard secret\r\n")


async def test_ctrl_c_interrupts(desk: Desk) -> None:
    async with terminal(desk, "sh", "-c", "echo ready; exec sleep 100") as screen:
        await screen.until("ready")
        await screen.process.send(b"\x03")
        done = await screen.process.wait()
    assert (done.exit_code, done.signal) == (130, signal.SIGINT)


async def test_ctrl_backslash_quits_all_in_the_foreground(desk: Desk) -> None:
    async with terminal(desk, *BASH, env=PLAIN) as screen:
        await screen.until(r"\$ ")
        await screen.process.send(b"echo re''ady; cat | cat | sleep 100\r")
        await screen.until("ready")
        await anyio.sleep(0.2)
        await screen.process.send(b"\x1c")
        await screen.until(r"\$ ")
        await screen.process.send(b"echo left: $(jobs); exit 4\r")
        await screen.until("left:\r\n")
        assert (await screen.process.wait()).exit_code == 4


async def test_jobs_are_stopped_and_brought_back(desk: Desk) -> None:
    async with terminal(desk, *BASH, env=PLAIN) as screen:
        await screen.until(r"\$ ")
        await screen.process.send(b"echo read$((6*7)); cat\r")
        await screen.until("read42\r\n")  # until then bash edits the line itself, and Return is not a newline
        await screen.process.send(b"one\r")
        await screen.until("one\r\n", "one\r\n")
        await screen.process.send(b"\x1a")
        await screen.until("Stopped", r"\$ ")
        await screen.process.send(b"jobs\r")
        await screen.until(r"\[1\]\+ +Stopped +cat", r"\$ ")
        await screen.process.send(b"fg\r")
        await screen.until("cat\r\n")
        await screen.process.send(b"two\r")
        await screen.until("two\r\n", "two\r\n")
        await screen.process.send(b"\x03")
        await screen.until(r"\$ ")
        await screen.process.send(b"exit 7\r")
        assert (await screen.process.wait()).exit_code == 7


async def test_closing_the_input_ends_a_file(desk: Desk) -> None:
    async with terminal(desk, "sh", "-c", "cat; echo after") as screen:
        await screen.process.send(b"line\r")
        await screen.until("line\r\n", "line\r\n")
        await screen.process.close_stdin()
        await screen.process.close_stdin()
        assert (await screen.rest()).endswith(b"after\r\n")


async def test_closing_the_input_during_a_line_ends_a_file_too(desk: Desk) -> None:
    async with terminal(desk, "sh", "-c", "cat >got; echo after; cat got", timeout=10) as screen:
        await screen.process.send(b"no end of line")
        await screen.process.close_stdin()
        assert (await screen.rest()).endswith(b"after\r\nno end of line")


async def test_much_typed_before_the_end_arrives_before_it(desk: Desk) -> None:
    lines = b"".join(b"%04d %s\r" % (number, b"x" * 90) for number in range(2000))
    script = "stty -echo; echo ready; sleep 0.5; cat >typed; wc -l <typed; tail -n 1 typed | cut -c1-4"
    async with terminal(desk, "sh", "-c", script) as screen:
        await screen.until("ready")
        await screen.process.send(lines)
        await screen.process.close_stdin()
        assert (await screen.rest()).split() == [b"2000", b"1999"]


# -- amounts and followers -----------------------------------------------------------------------------------------


async def test_much_output_comes_without_loss(desk: Desk) -> None:
    async with terminal(desk, "seq", "1", "200000") as screen:
        said = await screen.rest()
    assert said == b"".join(b"%d\r\n" % number for number in range(1, 200001))


async def test_a_reader_that_is_late_loses_nothing(desk: Desk) -> None:
    async with terminal(desk, "sh", "-c", "seq 1 100000; echo end") as screen:
        await anyio.sleep(1)
        said = await screen.rest()
    assert said.endswith(b"100000\r\nend\r\n")
    assert said.count(b"\n") == 100001


async def test_a_terminal_is_left_and_taken_up_again(desk: Desk) -> None:
    process = await desk.start([*BASH], pty=Size(), env=PLAIN, timeout=40)
    screen = Screen(process)
    await screen.until(r"\$ ")
    await process.send(b"word=kept; echo bef''ore\r")
    await screen.until("before")
    await process.detach()
    again = Screen(await desk.attach(process.pid))
    await again.until("before")
    await again.process.resize(Size(12, 34))
    await again.process.send(b"echo $word; stty size; exit 6\r")
    await again.until("kept\r\n", "12 34\r\n")
    assert (await again.process.wait()).exit_code == 6


async def test_two_followers_of_one_terminal_see_the_same(desk: Desk) -> None:
    async with terminal(desk, "cat") as one:
        two = Screen(await desk.attach(one.process.pid))
        await two.process.send(b"typed by the second\r")
        for screen in (one, two):
            await screen.until("typed by the second", "typed by the second")


async def test_two_terminals_are_apart(desk: Desk) -> None:
    async with terminal(desk, "sh", "-c", "tty; cat") as one, terminal(desk, "sh", "-c", "tty; cat") as two:
        names = [await screen.until(r"/dev/pts/\d+\r\n") for screen in (one, two)]
        assert names[0] != names[1]
        await one.process.send(b"first\r")
        await two.process.send(b"second\r")
        assert b"second" not in await one.until("first", "first")
        assert b"first" not in await two.until("second", "second")
        await one.process.send(b"\x03")
        assert (await one.process.wait()).signal == signal.SIGINT
        await two.process.send(b"still\r")
        await two.until("still", "still")


async def test_thirty_terminals_at_once(desk: Desk) -> None:
    ended: list[int] = []

    async def one(number: int) -> None:
        async with terminal(desk, "sh", "-c", f"read word; exit {number}") as screen:
            await screen.process.send(b"go\r")
            ended.append((await screen.process.wait()).exit_code)

    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(one, number)
    assert sorted(ended) == list(range(30))


# -- how the program ends ------------------------------------------------------------------------------------------


async def test_the_exit_code_is_the_programs(desk: Desk) -> None:
    for code in (0, 1, 42, 255):
        async with terminal(desk, "sh", "-c", f"exit {code}") as screen:
            assert (await screen.process.wait()).exit_code == code


async def test_a_program_that_cannot_start_at_a_terminal_is_a_result(desk: Desk) -> None:
    for argv, code in ((["no-such-program"], 127), (["/etc/passwd"], 126)):
        process = await desk.start(argv, pty=Size())
        done = await process.wait()
        assert (process.pid, done.exit_code) == (0, code)
        assert argv[0] in done.reason
    missing = await desk.start(["true"], pty=Size(), cwd="no/such/folder")
    assert "working folder" in (await missing.wait()).reason


async def test_programs_left_at_a_terminal_are_hung_up(desk: Desk) -> None:
    async with terminal(desk, "python3", "-c", textwrap.dedent(HANGUP), f"{desk.home}/hung-up") as screen:
        await screen.until("ready")
        assert (await screen.process.wait()).exit_code == 3
    await eventually(desk, f'test "$(cat hung-up)" = {int(signal.SIGHUP)}')


async def test_killing_ends_every_program_at_a_terminal(desk: Desk) -> None:
    async with terminal(desk, "bash", "-c", "trap '' HUP INT TERM; sleep 4321 & echo ready; wait") as screen:
        await screen.until("ready")
        await screen.process.kill()
    await eventually(desk, "! pgrep -f '^sleep 4321'")


async def test_a_timeout_ends_a_terminal(desk: Desk) -> None:
    async with terminal(desk, "bash", "-c", "trap '' HUP INT TERM; echo ready; sleep 4322", timeout=0.5) as screen:
        done = await screen.process.wait()
    assert (done.timed_out, done.signal) == (True, signal.SIGKILL)
    assert not (await desk.run(["pgrep", "-f", "^sleep 4322"])).ok


async def test_a_signal_reaches_the_leader_alone(desk: Desk) -> None:
    async with terminal(
        desk, "bash", "-c", "trap 'echo caught; exit 9' USR1; echo ready; while :; do sleep 0.1; done"
    ) as screen:
        await screen.until("ready")
        await screen.process.signal(signal.SIGUSR1)
        await screen.until("caught")
        assert (await screen.process.wait()).exit_code == 9


async def test_ended_terminals_are_released(desk: Desk) -> None:
    for _ in range(80):
        async with terminal(desk, "true") as screen:
            assert (await screen.process.wait()).exit_code == 0
    assert (await desk.run(["sh", "-c", "ls /dev/pts | grep -c '^[0-9]' "])).text.strip().isdigit()
    async with terminal(desk, "tty") as screen:
        assert (await screen.rest()).startswith(b"/dev/pts/")
