"""Save a running machine with its memory when the keeper's wall calls, and let it continue once its files are saved.

Programs are stopped inside before the machine is: in a copy they continue only after the machine has randomness, time
and names of its own. Nothing is on its way between machine and supervisor while it is saved, except to the console.
"""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from hotdesk_vmm.qemu import EmulatorError
from hotdesk_vmm.task import FAILED, FULL, MEMORY_SOCKET, RESTLESS, SAVED

if TYPE_CHECKING:
    from hotdesk_vmm.supervisor import MachineSupervisor

FREEZE_TIMEOUT_S = 60.0
CONTINUE_TIMEOUT_S = 60.0
_CALL_TIMEOUT_S = 5.0
_NO_SPACE = ("No space left", "quota exceeded")
"""Texts in an emulator's reason that mean a full disk."""


class MachineSaves:
    """The calls of the keeper's wall, one at a time."""

    def __init__(self, supervisor: MachineSupervisor) -> None:
        self.supervisor = supervisor
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.call: socket.socket | None = None
        """The call for which the machine stands still."""

    def listen(self, at: str = MEMORY_SOCKET) -> None:
        self.listener.bind(at)
        self.listener.listen(1)
        self.listener.setblocking(False)
        self.supervisor.poll.register(self.listener, select.EPOLLIN)

    def is_busy(self) -> bool:
        return self.call is not None

    def handle_event(self, fd: int) -> bool:
        """Handle an event of a descriptor; return False if it is another's."""
        if fd == self.listener.fileno():
            self.take()
        elif self.call is not None and fd == self.call.fileno():
            self.finish()
        else:
            return False
        return True

    def take(self) -> None:
        """Save the machine to the file that the call passes. After a failure it continues before the answer."""
        try:
            self.call, _ = self.listener.accept()
        except OSError:  # the event was for a caller that is gone
            return
        self.supervisor.poll.unregister(self.listener)
        self.call.settimeout(_CALL_TIMEOUT_S)
        try:
            _, files, _, _ = socket.recv_fds(self.call, 1, 1)
        except OSError:
            files = []
        if not files:
            self.hang_up()
            return
        try:
            answer = self.save(files[0])
            if answer != SAVED:
                _free_space(files[0])
        finally:
            os.close(files[0])
        if answer != SAVED:
            self.go_on()
            self.answer(answer)
            self.hang_up()
            return
        self.supervisor.poll.register(self.call, select.EPOLLIN)
        if not self.answer(answer):
            self.finish()

    def save(self, file: int) -> bytes:
        supervisor = self.supervisor
        assert supervisor.emulator is not None
        assert supervisor.mux is not None
        supervisor.words -= {"still", "restless"}
        supervisor.tell({"freeze": True})
        supervisor.mux.hold()
        if supervisor.wait_for_any(("still", "restless"), FREEZE_TIMEOUT_S) != "still":
            return RESTLESS
        try:
            supervisor.emulator.save_memory(file)
        except EmulatorError as e:
            return FULL if any(text in str(e) for text in _NO_SPACE) else FAILED
        return SAVED

    def finish(self) -> None:
        """Let programs continue: the files are saved as well, or the caller is gone."""
        assert self.call is not None
        self.supervisor.poll.unregister(self.call)
        self.go_on()
        self.answer(SAVED)
        self.hang_up()

    def go_on(self) -> None:
        supervisor = self.supervisor
        assert supervisor.emulator is not None
        assert supervisor.mux is not None
        supervisor.emulator.ask("cont")
        supervisor.mux.go_on()
        supervisor.words.discard("up")
        supervisor.tell({"thaw": time.time_ns() // 1000})
        supervisor.wait_for("up", CONTINUE_TIMEOUT_S)

    def answer(self, data: bytes) -> bool:
        assert self.call is not None
        try:
            return self.call.send(data) == len(data)
        except OSError:
            return False

    def hang_up(self) -> None:
        assert self.call is not None
        self.call.close()
        self.call = None
        self.supervisor.poll.register(self.listener, select.EPOLLIN)


def _free_space(file: int) -> None:
    """Empty a file with part of a machine: the machine's own disk needs the space when it continues."""
    with suppress(OSError):
        os.ftruncate(file, 0)
