"""Tests of the first process of a container, in process namespaces of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.container
PROGRAM = """
import os, signal, subprocess, sys, time
from hotdesk.linux import first_process
if CHANGED:
    first_process.END_SECONDS = CHANGED
first_process.fork_from_first_process()
def stop(number, frame):
    print("asked", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, stop)
KEEPER
print(os.getpid(), flush=True)
time.sleep(60)
"""
KEEPER = """
if os.fork() == 0:  # like a keeper: it sees the end of its owner, and then works for a moment
    read, write = os.pipe()
    while os.getppid() != 1:
        time.sleep(0.01)
    time.sleep(0.5)
    open(sys.argv[1], "w").write("burnt")
    time.sleep(STAYS)
    os._exit(0)
"""
SENDERS = """
import signal
from hotdesk.linux import first_process
first_process.fork_from_first_process()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
print("ready", flush=True)
while (received := signal.sigtimedwait([signal.SIGINT], 2)) is not None:
    print("from", received.si_pid, flush=True)
"""


def start(tmp_path: Path, *, changed: float = 0, stays: float = 0, keeper: bool = True) -> subprocess.Popen[str]:
    text = PROGRAM.replace("CHANGED", str(changed)).replace("KEEPER", KEEPER if keeper else "")
    argv = ["unshare", "-p", "-f", "--mount-proc", sys.executable, "-c", text.replace("STAYS", str(stays))]
    return subprocess.Popen([*argv, str(tmp_path / "done")], stdout=subprocess.PIPE, text=True)


def find_program(process: subprocess.Popen[str]) -> int:
    """Return the id of the program, the child of the namespace's first process, once it runs."""
    assert process.stdout is not None
    assert process.stdout.readline() == "2\n"
    first = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
    return int(Path(f"/proc/{first}/task/{first}/children").read_text().split()[0])


def test_a_killed_program_leaves_time_to_its_other_processes(tmp_path: Path) -> None:
    with start(tmp_path) as process:
        os.kill(find_program(process), signal.SIGKILL)
        assert process.wait(20) == 137
    assert (tmp_path / "done").read_text() == "burnt"


def test_a_process_that_does_not_end_is_not_waited_for_without_end(tmp_path: Path) -> None:
    with start(tmp_path, changed=1.5, stays=60) as process:
        os.kill(find_program(process), signal.SIGKILL)
        begun = time.monotonic()
        assert process.wait(20) == 137
        assert time.monotonic() - begun < 15
    assert (tmp_path / "done").read_text() == "burnt"


def test_a_stop_signal_reaches_the_program_and_its_code_is_the_containers(tmp_path: Path) -> None:
    with start(tmp_path, keeper=False) as process:
        program = find_program(process)
        os.kill(int(Path(f"/proc/{program}/stat").read_text().split()[3]), signal.SIGTERM)
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        assert process.wait(20) == 7


def test_a_key_on_the_containers_terminal_stops_the_program_once() -> None:
    """A terminal signals every process of its foreground group, and the first one passes the signal on."""
    text = "import pty, sys; pty.spawn(['unshare', '-p', '-f', '--mount-proc', *sys.argv[1:]])"
    argv = [sys.executable, "-c", text, sys.executable, "-c", SENDERS]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("\x03")
        process.stdin.flush()
        assert process.stdout.readline() == "^Cfrom 1\n"
        assert process.stdout.readline() == ""


def test_another_process_than_the_first_goes_on_itself() -> None:
    program = "from hotdesk.linux.first_process import fork_from_first_process as f; import os; p = os.getpid(); f(); "
    done = subprocess.run([sys.executable, "-c", f"{program}assert os.getpid() == p"], check=False)
    assert done.returncode == 0
