"""A desk for tests with OpenSSH's real programs, which connect through this checkout's code."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hotdesk.config import Config
from hotdesk.ipc.child import SOURCE

HOTDESK = [sys.executable, "-c", "from hotdesk.cli import main; main()"]
ENTRY = """
Host *.desk
    User user
    ProxyCommand {command} ssh --stdio %h
    HostKeyAlias hotdesk
    UserKnownHostsFile {known}
    ConnectTimeout 20
"""
ECHO = """
import socket, threading
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
def answer(caller):
    while data := caller.recv(65536):
        caller.sendall(data)
    caller.sendall(b"[end]")
    caller.close()
while True:
    threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()
"""
"""Server program for a desk: echoes, and reports when its client has disconnected."""


@dataclass(slots=True)
class SshRoom:
    """An open desk, and an ssh configuration that reaches it."""

    folder: Path
    settings: Config
    desk: str = ""
    env: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.desk}.desk"

    def environment(self) -> dict[str, str]:
        places = {"HOTDESK_HOME": str(self.settings.run.parent), "HOTDESK_IMAGES": str(self.settings.images)}
        own = {"PATH": os.environ["PATH"], "HOME": "/root", "TMPDIR": tempfile.gettempdir(), "HOTDESK_LINGER": "0.5"}
        return {**own, **places, "PYTHONPATH": str(SOURCE), **self.env}

    def hotdesk(self, *argv: str) -> subprocess.CompletedProcess[bytes]:
        return self.call([*HOTDESK, *argv])

    def ssh(self, *argv: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run `ssh` with options and a command; the name of the desk is inserted before what follows `--`."""
        at = argv.index("--") if "--" in argv else len(argv)
        return self.call(["ssh", "-F", str(self.config), *argv[:at], self.name, *argv[at + 1 :]], stdin)

    def call(self, argv: list[str], stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        env = self.environment()
        return subprocess.run(argv, check=False, input=stdin, capture_output=True, timeout=60, env=env, cwd=self.folder)

    @contextmanager
    def running(self, argv: list[str]) -> Iterator[subprocess.Popen[bytes]]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, stderr=pipe, env=self.environment(), cwd=self.folder, bufsize=0
        )
        with process:
            try:
                yield process
            finally:
                end(process)

    @contextmanager
    def port(self) -> Iterator[int]:
        """Run an echo server in the desk; yield its port."""
        with self.running([*HOTDESK, "exec", self.desk, "--", "/usr/bin/python3", "-c", ECHO]) as inside:
            assert inside.stdout is not None
            yield int(inside.stdout.readline())

    @property
    def config(self) -> Path:
        """Return the ssh configuration that `hotdesk ssh --config` prints, with this checkout's program in it."""
        path = self.folder / "config"
        if not path.exists():
            command = f"{sys.executable} -c 'from hotdesk.cli import main; main()'"
            path.write_text(ENTRY.format(command=command, known=self.settings.run / "known_hosts"))
        return path


@contextmanager
def ssh_room(settings: Config, *options: str) -> Iterator[SshRoom]:
    with tempfile.TemporaryDirectory(prefix="hotdesk-ssh-") as folder:
        room = SshRoom(Path(folder), settings)
        opened = room.hotdesk("open", *options)
        assert opened.returncode == 0, opened.stderr
        room.desk = opened.stdout.decode().strip()
        try:
            yield room
        finally:
            room.hotdesk("burn", room.desk)


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a program; what it runs at the desk ends with it.

    OpenSSH 9.2 misses a signal that arrives after it checks `quit_pending` and before it waits for input, so an idle
    `ssh -N` would stay forever: the signal is repeated.
    """
    for _ in range(100):
        process.terminate()
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
        return
    process.kill()
    raise AssertionError(f"{process.args!r} ignored SIGTERM for 20 s")


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
