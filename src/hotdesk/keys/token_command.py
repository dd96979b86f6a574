"""A child that runs token commands: started before the keys process confines itself, reached over a socket."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
from collections.abc import Callable, Sequence

from hotdesk.errors import HostError
from hotdesk.linux import syscalls

COMMAND_TIMEOUT_S = 20.0
_MAX_TOKEN_BYTES = 64 << 10
MESSAGE = 128 << 10
MAX_WAITING = 32
"""Maximum number of waiting commands: a blocking send to a slow child would stop the whole process."""


class TokenCommands:
    """Requests to the child, numbered, with a callback for each reply."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.number = 0
        self.waiting: dict[int, Callable[[dict[str, str]], None]] = {}

    def ask(self, argv: Sequence[str], callback: Callable[[dict[str, str]], None]) -> None:
        if len(self.waiting) >= MAX_WAITING:
            raise HostError(
                f"no further token can be requested: {MAX_WAITING} commands that print tokens are already running or "
                "waiting, which is the limit; try again later"
            )
        self.number += 1
        self.waiting[self.number] = callback
        self.sock.send(json.dumps({"n": self.number, "argv": argv}).encode())

    def hear(self) -> bool:
        """Pass one reply to its callback; return False if the child is gone."""
        reply = json.loads(self.sock.recv(MESSAGE) or b"{}")
        callback = self.waiting.pop(reply.get("n"), None)
        if callback is None:
            return False
        callback(reply)
        return True


def start(uid: int) -> socket.socket:
    """Start the child, which takes the user id that keys will have; return the socket to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        try:
            ours.close()
            os.close(3)
            serve(theirs, uid)
        finally:
            os._exit(0)
    theirs.close()
    return ours


def serve(sock: socket.socket, uid: int) -> None:
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    os.chdir("/")
    while data := sock.recv(MESSAGE):
        request = json.loads(data)
        sock.send(json.dumps({"n": request["n"], **run(request["argv"])}).encode())


def run(argv: list[str]) -> dict[str, str]:
    """Run one program; return the line it prints as `value`, or the reason of a failure as `error`."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath, "HOME": "/"},
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except OSError as e:
        return {"error": f"the token command {argv[0]} could not be run: {e.strerror or type(e).__name__}"}
    except subprocess.TimeoutExpired:
        return {"error": f"the token command {argv[0]} did not end within {COMMAND_TIMEOUT_S:g} s"}
    if done.returncode != 0:
        return {"error": f"the token command {argv[0]} failed with exit code {done.returncode}"}
    token = done.stdout[: _MAX_TOKEN_BYTES + 1].strip()
    if not 8 <= len(token) <= _MAX_TOKEN_BYTES or not token.isascii() or not token.decode().isprintable():
        return {
            "error": f"the token command {argv[0]} printed no valid token; it must print one line of 8 to "
            f"{_MAX_TOKEN_BYTES} printable ASCII characters"
        }
    return {"value": token.decode()}
