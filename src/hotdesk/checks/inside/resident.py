"""A resident Python process that has everything imported and inspects each file in a fork.

Runs inside a clean desk, where it stays or ends after a batch of files. Importing `uno` and a PDF reader takes longer
than most inspections. The forking process opens no file and does not connect to the office suite, so that a fork knows
nothing of earlier files.
"""

from __future__ import annotations

import _socket
import _thread
import io
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "resident")
"""Path of its socket."""
MAX_NAME_BYTES = 64
"""Maximum bytes of a program's name."""


def stay(answers: Mapping[str, Callable[[], None]]) -> None:
    """Leave a process behind that answers each later call in a fork. Call it before any file is opened."""
    if os.fork():
        return
    os.setsid()
    try:
        serve(answers)
    finally:
        os._exit(1)


def serve(answers: Mapping[str, Callable[[], None]]) -> None:
    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    own = f"{PLACE}.{os.getpid()}"
    line.bind(own)
    line.listen(8)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.rename(own, PLACE)
    while True:
        call = _socket.socket(fileno=line._accept()[0])  # type: ignore[attr-defined]
        if os.fork() == 0:
            take(call, answers)
        call.close()
        reap()


def take(call: _socket.socket, answers: Mapping[str, Callable[[], None]]) -> None:
    try:
        program, sent, _, _ = call.recvmsg(MAX_NAME_BYTES, 64)
        numbers = [int.from_bytes(sent[0][2][at : at + 4], sys.byteorder) for at in (0, 4, 8)]
        for number, descriptor in enumerate(numbers):
            os.dup2(descriptor, number)
            os.close(descriptor)
        _thread.start_new_thread(watch, (call,))
        answers[program.decode()]()
        sys.stdout.flush()
    finally:
        os._exit(0)


def watch(call: _socket.socket) -> None:
    """Exit when the caller exits: its result is no longer needed."""
    call.recv(1)
    os._exit(1)


def reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


NOTHING = b'{"unreadable": "the inspection ended early, or its report is too large"}'


def _look_in_fork(looks: Sequence[tuple[Callable[[], None], object]], seconds: float, most: int) -> list[bytes]:
    """Inspect one author's files in a process of its own; return the line that each inspection prints."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            sys.stdout = os.fdopen(writing, "w")
            for look, request in looks:
                sys.stdin = io.StringIO(json.dumps(request))
                look()
            sys.stdout.flush()
        finally:
            os._exit(0)
    os.close(writing)
    parts, size = [], 0
    while size <= most and (data := os.read(reading, 1 << 16)):
        parts.append(data)
        size += len(data)
    os.close(reading)
    if size > most:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    lines = b"".join(parts).split(b"\n")[:-1] if size <= most else []
    return lines if len(lines) == len(looks) else [NOTHING] * len(looks)


def main() -> None:
    """Inspect the files of many authors in order, print a line of JSON for each, and end."""
    request = json.load(sys.stdin)
    programs = {each["program"] for group in request["groups"] for each in group}
    mains = {name: import_module(name).main for name in sorted(programs)}
    for group in request["groups"]:
        looks = [(mains[each["program"]], each["request"]) for each in group]
        for line in _look_in_fork(looks, request["seconds"], request["most"]):
            sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()
    for path in request["remove"]:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main()
