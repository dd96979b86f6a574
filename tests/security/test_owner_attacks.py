"""A command whose owner process was turned by a desk: what it gave up, tried from inside such a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk.config import Config
from tests.security.conftest import HOTDESK, environment

ATTACK = """
import ctypes, json, os, signal, socket, sys
from pathlib import Path
from hotdesk.desk.confine import confine
listener = socket.create_server(("127.0.0.1", 0))
victim = int(sys.argv[2])
confine([Path(sys.argv[1])])
libc = ctypes.CDLL(None, use_errno=True)
def attempt(work):
    try:
        work()
        return "done"
    except OSError as e:
        return type(e).__name__
def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "call")
told = {
    "write elsewhere": attempt(lambda: open("/etc/hotdesk-attack", "w")),
    "write over": attempt(lambda: open("/etc/hostname", "r+")),
    "truncate": attempt(lambda: os.truncate("/etc/hostname", 0)),
    "remove": attempt(lambda: os.unlink("/etc/hostname")),
    "link in": attempt(lambda: os.link("/etc/shadow", sys.argv[1] + "/shadow")),
    "write below": attempt(lambda: open(sys.argv[1] + "/kept", "w").close()),
    "connect": attempt(lambda: socket.create_connection(listener.getsockname(), 1)),
    "bind": attempt(lambda: socket.create_server(("127.0.0.1", 0))),
    "mount": attempt(lambda: call(libc.mount(b"x", b"/mnt", b"tmpfs", 0, None))),
    "ptrace": attempt(lambda: call(libc.ptrace(16, victim, 0, 0))),
    "signal": attempt(lambda: os.kill(victim, signal.SIGTERM)),
    "setuid": attempt(lambda: os.setuid(12345)),
}
status = os.popen("cat /proc/self/status").read()
told["child"] = [line.split()[1] for line in status.splitlines() if line.startswith(("CapEff", "CapBnd", "NoNewPrivs"))]
print(json.dumps(told))
"""
CONFINED = {
    "write elsewhere": "PermissionError",
    "write over": "PermissionError",
    "truncate": "PermissionError",
    "remove": "PermissionError",
    "link in": "PermissionError",
    "write below": "done",
    "connect": "PermissionError",
    "bind": "PermissionError",
    "mount": "PermissionError",
    "ptrace": "PermissionError",
    "signal": "PermissionError",
    "setuid": "PermissionError",
    "child": ["0" * 16, "0" * 16, "1"],
}


def test_a_turned_command_can_write_only_where_results_go_and_reach_nobody(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as victim:
        try:
            argv = [sys.executable, "-c", ATTACK, str(tmp_path), str(victim.pid)]
            done = subprocess.run(argv, check=False, capture_output=True, timeout=30)
            assert done.returncode == 0, done.stderr
            told = json.loads(done.stdout)
            assert victim.poll() is None
        finally:
            victim.kill()
    if told["link in"] == "OSError":  # another file system: refused for that reason first
        told["link in"] = "PermissionError"
    assert told == CONFINED


@pytest.mark.container
@pytest.mark.parametrize("extra", [[], ["--out", "x:./nowhere"]])
def test_a_running_command_has_given_up_its_privileges(settings: Config, tmp_path: Path, extra: list[str]) -> None:
    argv = [*HOTDESK, "run", *extra, "--", "sh", "-c", "echo up; sleep 60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment(settings), cwd=tmp_path) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == b"up\n"
            text = Path(f"/proc/{running.pid}/status").read_text()
            status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        finally:
            running.terminate()
    override = f"{1 << 1:016x}"
    assert status["CapEff"] == status["CapBnd"] == (override if extra else "0" * 16)
    assert status["NoNewPrivs"] == "1"
