"""Run commands as root for programs of the desk: `sudo` connects here, and the host decides each request.

Only the second guest, which is root, has this. A command gets the caller's own streams, so no output passes through
here.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs a desk 5 ms
if TYPE_CHECKING:
    from typing import Any

    from hotdesk_guest.agent import Guest, GuestChannel

import _socket
import os
import select

from hotdesk_guest.process import HOME, MARK, MARKS, kill_tree, offer, spawn
from hotdesk_guest.wire import EVENT, STEP, WireError, decode, encode

MAX_CALLERS = 64
"""Maximum callers at a time; others wait in the listener's queue."""
MAX_SIGNALS = 64
REQUEST_LIMIT = 24576
"""Maximum bytes of one request, which must fit into one event for the host."""
MAX_WORDS = 4000
"""Maximum words of one command: the host decodes no value of more than about 4000 parts."""
NAMES = ("HOME", "USER", "LOGNAME", "PATH")


class SudoCaller:
    """A `sudo` process, from its connection to the exit of its program."""

    def __init__(self, sock: _socket.socket) -> None:
        self.sock = sock
        self.buffer = bytearray()
        self.streams: list[int] = []
        self.number = 0
        self.ask: dict[str, Any] = {}
        self.proposed = False
        self.pid = 0
        self.signals = b""
        """Signals received before the program started."""

    def close(self) -> None:
        for fd in self.streams:
            os.close(fd)
        self.streams = []
        self.sock.close()


class SudoCalls:
    """The callers, the host's decisions, and the running programs."""

    def __init__(self, guest: Guest, listener: int) -> None:
        self.guest = guest
        os.set_inheritable(listener, False)
        self.listener = _socket.socket(fileno=listener)
        self.listener.setblocking(False)
        self.callers: dict[int, SudoCaller] = {}
        self.count = 0
        self.channel: GuestChannel | None = None
        """The host's channel for acts; without it no act begins."""
        self.listen()

    def attend(self, channel: GuestChannel) -> None:
        self.channel = channel
        for caller in self.callers.values():
            caller.proposed = bool(caller.pid)
        self.propose()

    def leave(self) -> None:
        """Forget the host's channel: running programs continue, and no new ones start."""
        self.channel = None

    def listen(self) -> None:
        if len(self.callers) < MAX_CALLERS:
            self.guest.poll.register(self.listener.fileno(), select.EPOLLIN)

    def handle_event(self, fd: int) -> None:
        if fd == self.listener.fileno():
            self.accept()
        elif fd in self.callers:
            caller = self.callers[fd]
            if caller.number:
                self.relay(caller)
            else:
                self.read(caller)

    def accept(self) -> None:
        try:
            fd, _ = self.listener._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        sock = _socket.socket(fileno=fd)
        sock.setblocking(False)
        self.callers[fd] = SudoCaller(sock)
        self.guest.poll.register(fd, select.EPOLLIN)
        if len(self.callers) >= MAX_CALLERS:
            self.guest.poll.unregister(self.listener.fileno())

    def read(self, caller: SudoCaller) -> None:
        """Read a request: a length, a value of that length, and three file descriptors with its first byte."""
        try:
            data, ancillary, _, _ = caller.sock.recvmsg(REQUEST_LIMIT, _socket.CMSG_SPACE(12), _socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        for level, kind, rights in ancillary:
            if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                caller.streams += memoryview(rights[: len(rights) // 4 * 4]).cast("i").tolist()
        caller.buffer += data
        if not data or len(caller.buffer) > REQUEST_LIMIT or len(caller.streams) > 3:
            self.drop(caller)
        elif len(caller.buffer) >= 4 and len(caller.buffer) >= (end := 4 + int.from_bytes(caller.buffer[:4], "big")):
            caller.signals = bytes(caller.buffer[end:])
            self.take(caller, bytes(caller.buffer[4:end]))

    def take(self, caller: SudoCaller, data: bytes) -> None:
        try:
            ask = decode(data)
        except WireError:
            ask = None
        if not is_request(ask) or len(caller.streams) != 3:
            self.drop(caller)
            return
        self.count += 1
        caller.number, caller.ask = self.count, ask  # type: ignore[assignment]
        self.propose()

    def propose(self) -> None:
        """Send the waiting requests to the host, which decides. Callers wait while the host reads too slowly."""
        for caller in self.callers.values():
            if self.channel is None or self.channel.credit < STEP:
                return
            if caller.number and not caller.proposed:
                caller.proposed = True
                proposal = {"act": caller.number, "argv": caller.ask["argv"], "cwd": caller.ask["cwd"]}
                self.guest.tell(self.channel, EVENT, encode(proposal))

    def decide(self, number: int, allow: bool) -> None:
        caller = next((one for one in self.callers.values() if one.number == number and one.streams), None)
        if caller is None:
            return
        if not allow:
            self.answer(caller, {"code": 1, "text": "sudo: the host refused to run this command as root"})
            return
        try:
            self.run(caller)
        except OSError as e:
            self.answer(caller, {"code": 127 if e.errno == 2 else 126, "text": "sudo: %s" % e.strerror})

    def run(self, caller: SudoCaller) -> None:
        """Start a command with its caller's streams and variables, except for root's own home and path."""
        environment = dict(caller.ask["env"])
        environment.update({name: os.environ[name] for name in NAMES if name in os.environ})
        environment[MARK] = mark(caller.number)
        os.chdir(caller.ask["cwd"] or HOME)
        places = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(caller.streams)]
        caller.pid = spawn(caller.ask["argv"], environment, places)
        offer(caller.pid)
        for fd in caller.streams:
            os.close(fd)
        caller.streams = []
        self.guest.programs.awaited[caller.pid] = lambda status: self.report_exit(caller, status)
        self.signal(caller, caller.signals)

    def relay(self, caller: SudoCaller) -> None:
        """Forward signals, a byte each; a caller that disconnects ends its command."""
        try:
            data = caller.sock.recv(64)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.drop(caller)
        elif caller.pid:
            self.signal(caller, data)
        else:
            caller.signals = (caller.signals + data)[-MAX_SIGNALS:]

    def signal(self, caller: SudoCaller, numbers: bytes) -> None:
        for number in numbers:
            if 0 < number < 65:
                try:
                    os.killpg(caller.pid, number)
                except OSError:
                    pass  # it has just ended

    def report_exit(self, caller: SudoCaller, status: int) -> None:
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        if self.channel is not None and self.channel.credit >= STEP:
            self.guest.tell(self.channel, EVENT, encode({"act": caller.number, "code": code}))
        caller.pid = 0
        if caller.sock.fileno() >= 0:
            self.answer(caller, {"code": code})

    def answer(self, caller: SudoCaller, body: dict[str, object]) -> None:
        try:
            caller.sock.send(encode(body))
        except OSError:
            pass  # the caller is gone
        self.drop(caller)

    def drop(self, caller: SudoCaller) -> None:
        full = len(self.callers) >= MAX_CALLERS
        del self.callers[caller.sock.fileno()]
        caller.close()
        if caller.pid:
            kill_tree(caller.pid, mark(caller.number), alive=True)
        if full:
            self.listen()


def mark(number: int) -> str:
    """Return the mark that descendants of a command inherit."""
    return "%s-root-%d" % (MARKS, number)


def is_request(ask: object) -> bool:
    """Return whether a value has the shape of a request from `sudo`."""
    if not isinstance(ask, dict) or set(ask) != {"argv", "cwd", "env"}:
        return False
    argv, cwd, env = ask["argv"], ask["cwd"], ask["env"]
    texts = [*argv, cwd] if isinstance(argv, list) and 0 < len(argv) <= MAX_WORDS else [None]
    texts += [*env.keys(), *env.values()] if isinstance(env, dict) else [None]
    return all(isinstance(text, str) and "\0" not in text for text in texts)
