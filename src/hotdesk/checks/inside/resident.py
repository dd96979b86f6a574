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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
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


CUT = b"\t"
"""Mark before a report that a limit cut off: JSON of these programs never starts with it."""
NOTHING = "the inspection ended early"
LATE = "the inspection took longer than {seconds:g} seconds"
LARGE = "the inspection report is larger than {most} bytes"


def _look_at_files(
    looks: Sequence[tuple[Callable[[], None], object]], seconds: float, most: int
) -> Iterator[tuple[bytes, bool]]:
    """Inspect one author's files in a process of their own; yield each report, and whether a limit cut it off.

    After an inspection that was cut off, the next files are inspected in another process.
    """
    done = 0
    while done < len(looks):
        reports, why = _look_in_fork(looks[done:], seconds, most)
        yield from ((report, False) for report in reports)
        done += len(reports)
        if done < len(looks):
            text = why.format(seconds=seconds, most=most)
            yield json.dumps({"unreadable": text}).encode(), why != NOTHING
            done += 1


def _look_in_fork(
    looks: Sequence[tuple[Callable[[], None], object]], seconds: float, most: int
) -> tuple[list[bytes], str]:
    """Inspect files in a fork until one fails; return their reports, and why the next has none."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.setsid()
            _write_reports(looks, seconds, writing)
        finally:
            os._exit(0)
    os.close(writing)
    lines, is_large = _read_lines(reading, len(looks), most)
    os.close(reading)
    if is_large:
        os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    with suppress(ProcessLookupError):  # it ended before it had a group
        os.killpg(child, signal.SIGKILL)  # programs that it started; its id is not free yet
    status = os.waitpid(child, 0)[1]
    is_late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
    return lines, LARGE if is_large else LATE if is_late else NOTHING


def _write_reports(looks: Sequence[tuple[Callable[[], None], object]], seconds: float, writing: int) -> None:
    sys.stdout = os.fdopen(writing, "w")
    for look, request in looks:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        sys.stdin = io.StringIO(json.dumps(request))
        look()
        sys.stdout.flush()


def _read_lines(reading: int, expected: int, most: int) -> tuple[list[bytes], bool]:
    """Read whole lines until their end or the first one that is too long; return them, and whether there was one."""
    lines: list[bytes] = []
    parts: list[bytes] = []
    size = 0
    while data := os.read(reading, 1 << 16):
        *ended, rest = data.split(b"\n")
        for each in ended:
            size += len(each)
            if size > most or len(lines) == expected:
                return lines, True
            lines.append(b"".join((*parts, each)))
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > most:
            return lines, True
    return lines, False


def main() -> None:
    """Inspect the files of many authors in order, print a line of JSON for each, and end."""
    request = json.load(sys.stdin)
    programs = {each["program"] for group in request["groups"] for each in group}
    mains = {name: import_module(name).main for name in sorted(programs)}
    for group in request["groups"]:
        looks = [(mains[each["program"]], each["request"]) for each in group]
        for line, is_cut in _look_at_files(looks, request["seconds"], request["most"]):
            sys.stdout.buffer.write((CUT if is_cut else b"") + line + b"\n")
        sys.stdout.buffer.flush()
    for path in request["remove"]:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main()
