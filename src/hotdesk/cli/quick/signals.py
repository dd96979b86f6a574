"""Signals that end a command, as a descriptor to poll; importing `signal` would import enumerations."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import select

ENDING = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)
SIGPIPE: int = _signal.SIGPIPE


class Interrupted(Exception):  # noqa: N818 - no error: somebody pressed Ctrl-C
    """A signal that ends the command."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class EndingSignals:
    """Catches SIGINT, SIGTERM and SIGHUP until `close`, except those that the caller ignores, as after `nohup`."""

    def __init__(self) -> None:
        self.fd, self.writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.interrupts = False
        """Whether a signal raises at once; set around a blocking call, which Python would otherwise repeat."""
        _signal.set_wakeup_fd(self.writing, warn_on_full_buffer=False)
        self.before = {number: _signal.getsignal(number) for number in ENDING}
        for number, handler in self.before.items():
            if handler != _signal.SIG_IGN:
                _signal.signal(number, self.handle)

    def handle(self, number: int, frame: object) -> None:
        """Raise a signal that arrived during a blocking call; any other stays in the pipe."""
        if self.interrupts:
            self.interrupts = False
            self.raise_pending()

    def close(self) -> None:
        """Restore signal handling; raise a signal that arrived meanwhile."""
        _signal.set_wakeup_fd(-1)
        for number, handler in self.before.items():
            _signal.signal(number, _signal.SIG_DFL if handler is None else handler)
        try:
            self.raise_pending()
        finally:
            os.close(self.fd)
            os.close(self.writing)

    def wait(self, fd: int, seconds: float) -> bool:
        """Wait until `fd` is readable; return whether it was in time. Raise `Interrupted` on a signal."""
        watched = select.poll()
        watched.register(fd, select.POLLIN)
        watched.register(self.fd, select.POLLIN)
        ready = dict(watched.poll(seconds * 1000))
        if self.fd in ready:
            self.raise_pending()
        return fd in ready

    def raise_pending(self) -> None:
        try:
            numbers = os.read(self.fd, 64)
        except BlockingIOError:
            return
        for number in numbers:
            if number in ENDING:
                raise Interrupted(number)
