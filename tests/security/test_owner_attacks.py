"""Attacks by a command whose owner process was compromised by a desk, tried from inside such a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk.config import Config
from tests.security.conftest import HOTDESK, environment
from tests.security.guards import Removal, falls_without, no_guard

ATTACK = """
import ctypes, json, os, signal, socket, sys
from pathlib import Path
from hotdesk.linux.landlock import confine
listener = socket.create_server(("127.0.0.1", 0))
victim = int(sys.argv[2])
elsewhere = sys.argv[3]
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
    "write elsewhere": attempt(lambda: open(elsewhere + "/new", "w").close()),
    "write over": attempt(lambda: open(elsewhere + "/precious", "r+").close()),
    "truncate": attempt(lambda: os.truncate(elsewhere + "/precious", 0)),
    "rename": attempt(lambda: os.rename(elsewhere + "/precious", sys.argv[1] + "/mine")),
    "link in": attempt(lambda: os.link(elsewhere + "/precious", sys.argv[1] + "/link")),
    "write below": attempt(lambda: open(sys.argv[1] + "/kept", "w").close()),
    "connect": attempt(lambda: socket.create_connection(listener.getsockname(), 1)),
    "bind": attempt(lambda: socket.create_server(("127.0.0.1", 0))),
    "mount namespace": attempt(lambda: call(libc.unshare(0x20000))),
    "ptrace": attempt(lambda: call(libc.ptrace(16, victim, 0, 0))),
    "signal": attempt(lambda: os.kill(victim, signal.SIGTERM)),
}
status = os.popen("cat /proc/self/status").read()
told["child"] = [line.split()[1] for line in status.splitlines() if line.startswith(("CapEff", "CapBnd", "NoNewPrivs"))]
told["setuid"] = attempt(lambda: os.setuid(12345))
print(json.dumps(told))
"""
CONFINED = {
    "write elsewhere": "PermissionError",
    "write over": "PermissionError",
    "truncate": "PermissionError",
    "rename": "PermissionError",
    "link in": "OSError",  # Landlock answers EXDEV
    "write below": "done",
    "connect": "PermissionError",
    "bind": "PermissionError",
    "mount namespace": "PermissionError",
    "ptrace": "PermissionError",
    "signal": "PermissionError",
    "setuid": "PermissionError",
    "child": ["0" * 16, "0" * 16, "1"],
}


@pytest.fixture
def told(tmp_path: Path) -> dict[str, object]:
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/precious").write_text("precious")
    with subprocess.Popen(["sleep", "60"]) as victim:
        try:
            argv = [sys.executable, "-c", ATTACK, str(tmp_path / "out"), str(victim.pid), str(tmp_path / "elsewhere")]
            done = subprocess.run(argv, check=False, capture_output=True, timeout=30)
            assert done.returncode == 0, done.stderr
            answers: dict[str, object] = json.loads(done.stdout)
            return answers | {"victim": victim.poll()}
        finally:
            victim.kill()


NO_LANDLOCK = Removal(
    "linux/landlock.py",
    "    restrict([find_existing(path) for path in writable], tcp=BIND if dials else TCP, ports=ports)\n",
    "",
)


@falls_without(
    "Landlock for commands",
    NO_LANDLOCK,
    cases="write elsewhere | write over | truncate | rename | link in | connect | bind | signal",
)
@falls_without(
    "Landlock and no capability for commands",
    NO_LANDLOCK,
    Removal("linux/landlock.py", "drop_capabilities({CAP_DAC_OVERRIDE} if any_owner else ", "({1} if any_owner else "),
    cases="mount namespace | ptrace | setuid | child",
)
@no_guard("it must pass: that the rules are not wider than they need be", cases="write below")
@pytest.mark.parametrize("what", CONFINED)
def test_a_compromised_command_can_only_write_results_and_reach_no_one(
    told: dict[str, object], tmp_path: Path, what: str
) -> None:
    assert told[what] == CONFINED[what]
    assert told["victim"] is None or what != "signal"
    assert (tmp_path / "elsewhere/precious").exists() or what != "rename"


@falls_without(
    "a command that confines itself",
    Removal("desks/run.py", "        confine_to([control_path(settings, 0).parent] if can_ask(scope) else [])\n", ""),
)
@pytest.mark.container
@pytest.mark.parametrize(
    "extra", [["--pids", "1000"], ["--out", "x:./nowhere"]]
)  # without resources it is a quick command
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
    assert status["CapEff"] == status["CapBnd"] == (override if "--out" in extra else "0" * 16)
    assert status["NoNewPrivs"] == "1"
