"""Tests of how a command handles signals."""

from __future__ import annotations

import signal
import subprocess
import sys

WORK = """
import sys

import anyio

from hotdesk.cli.terminal import run_interruptible


async def work() -> int:
    await anyio.to_thread.run_sync(int)
    try:
        print("open", flush=True)
        await anyio.sleep(60)
    finally:
        with anyio.move_on_after(30, shield=True):
            print("burning", flush=True)
            await anyio.to_thread.run_sync(sys.stdin.readline)
            print("burnt", flush=True)
    return 0


sys.exit(run_interruptible(work))
"""


def test_signals_do_not_interrupt_a_burn() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "open\n"
        running.send_signal(signal.SIGINT)
        assert running.stdout.readline() == "burning\n"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            running.send_signal(number)
        said, _ = running.communicate("\n", timeout=30)
    assert (said, running.returncode) == ("burnt\n", 130)


IGNORED = """
import os, signal, sys

import anyio

from hotdesk.cli.quick.signals import EndingSignals, Interrupted
from hotdesk.cli.terminal import run_interruptible

signal.signal(signal.SIGHUP, signal.SIG_IGN)
reloads = []


async def work() -> int:
    os.kill(os.getpid(), signal.SIGHUP)
    await anyio.sleep(0.2)
    return len(reloads)


print(run_interruptible(work), run_interruptible(work, reload=lambda: reloads.append(1)))
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signals = EndingSignals()
os.kill(os.getpid(), signal.SIGHUP)
signals.close()
print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, signal.getsignal(signal.SIGINT) == signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signals = EndingSignals()
os.kill(os.getpid(), signal.SIGHUP)
try:
    signals.close()
except Interrupted as e:
    print(e.number, signal.getsignal(signal.SIGHUP) == signal.SIG_DFL)
"""


def test_a_signal_that_the_caller_ignores_ends_no_command() -> None:
    done = subprocess.run([sys.executable, "-c", IGNORED], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.splitlines(), done.stderr) == (["0 1", "True True", "1 True"], "")
