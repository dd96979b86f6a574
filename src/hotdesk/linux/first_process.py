"""The first process of a container: it stays while other processes of the program end by themselves.

If the first process of a container ends, the kernel kills all others at once. A keeper then burns no desk, and on
cgroup v1 a frozen desk does not even die, so that the container can neither end nor be started again.
"""

from __future__ import annotations

import os
import signal
import time
from typing import NoReturn

END_SECONDS = 30.0
"""Seconds that other processes get once the program has ended."""
_POLL_S = 0.05
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def fork_from_first_process() -> None:
    """As the first process of a process namespace, continue in a child, and never return in this process.

    The child gets a process group of its own, so that a key on a terminal does not signal it twice. It cannot read
    from that terminal.
    """
    if os.getpid() != 1:
        return
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, _FORWARDED
    )  # the kernel drops what a first process does not handle
    child = os.fork()
    if child:
        attend(child, before)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.setpgid(0, 0)


def attend(child: int, mask: set[int | signal.Signals]) -> NoReturn:
    """Pass signals to a child; once it and all other processes have ended, exit with its code.

    `mask` is the signal mask to restore when signals can be passed on.
    """
    for number in _FORWARDED:
        signal.signal(number, lambda received, _frame: _pass_on(child, received))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    code, end = -1, float("inf")
    while time.monotonic() < end:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG if code >= 0 else 0)
        except ChildProcessError:
            break
        if pid == child:
            ended = os.waitstatus_to_exitcode(status)
            code, end = ended if ended >= 0 else 128 - ended, time.monotonic() + END_SECONDS
        elif pid == 0:
            time.sleep(_POLL_S)
    os._exit(max(code, 0))


def _pass_on(child: int, number: int) -> None:
    try:
        os.kill(child, number)
    except ProcessLookupError:
        pass
