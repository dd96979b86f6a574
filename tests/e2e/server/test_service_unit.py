"""Tests of `packaging/hotdesk.service` under a real systemd, the first process of separate namespaces and cgroups."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from hotdesk.api.keys import ApiKeys
from hotdesk.linux import uids
from tests.conftest import settings_in
from tests.e2e.conftest import PROGRAM
from tests.leftovers import cmdline

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(300)]

UNIT = Path(__file__).parents[3] / "packaging/hotdesk.service"
SYSTEMD = Path("/usr/lib/systemd/systemd")
HIERARCHIES = Path("/sys/fs/cgroup")
PATIENCE = 60.0
TARGETS = ("sysinit.target", "basic.target", "shutdown.target", "network-online.target", "multi-user.target")
TARGET = "[Unit]\nDescription=a target\nDefaultDependencies=no\n"
OWN = "[Service]\nEnvironment=HOTDESK_HOME={home} HOTDESK_IMAGES={images}\nStandardError=append:{log}\n"
BOOT = r"""
set -e
for group in "$@"; do echo $$ > "$group/cgroup.procs"; done
exec unshare --cgroup --mount --pid --net --ipc --uts --fork --kill-child --mount-proc bash -ec '
  for mounted in /sys/fs/cgroup/*/; do
    kind=$(findmnt --noheadings --output FSTYPE --mountpoint "$mounted") || continue
    options=$(findmnt --noheadings --output FS-OPTIONS --mountpoint "$mounted" | sed -e "s/^rw,\?//")
    umount "$mounted"
    mount -t "$kind" ${options:+-o "$options"} "$kind" "$mounted"
  done
  ip link set lo up
  mount --bind "$CLAIMS" "$OWN/claims"
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir -p "$CLAIMS" && mount --bind "$OWN/claims" "$CLAIMS"
  mount -t overlay -o "lowerdir=$OWN/bin:/usr/local/bin" overlay /usr/local/bin
  exec env -i container=test PATH=/usr/bin:/bin SYSTEMD_UNIT_PATH="$OWN/units" SYSTEMD_GENERATOR_PATH="$OWN/none" \
    "$SYSTEMD" --system --unit=multi-user.target --log-target=console --default-standard-output=null
'
"""
"""Joins cgroups created for it, so that they are the roots of those that systemd and desks create."""


@dataclass(frozen=True, slots=True)
class Booted:
    """A running systemd with our unit."""

    pid: int
    folder: Path
    key: str

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def inside(self, *argv: str) -> subprocess.CompletedProcess[str]:
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--net", "--ipc", "--uts"]
        return subprocess.run([*enter, *argv], capture_output=True, text=True, timeout=120, check=False)

    def show(self, name: str) -> str:
        return self.inside("systemctl", "show", "--property", name, "--value", "hotdesk").stdout.strip()

    def ask(self, path: str, *options: str) -> str:
        """Send a request to the server; return nothing if it does not answer."""
        url = f"http://127.0.0.1:3700{path}"
        return self.inside("curl", "--silent", "--max-time", "30", "-H", f"X-API-Key: {self.key}", *options, url).stdout

    def open_sandbox(self) -> str:
        """Open a sandbox; return its id."""
        told = self.ask("/sandboxes", "-H", "Content-Type: application/json", "-d", '{"templateID": "base"}')
        name: str = json.loads(told)["sandboxID"]
        return name

    def desks(self) -> set[str]:
        with suppress(FileNotFoundError):
            return set(os.listdir(self.home / "run/desks"))
        return set()

    def processes(self) -> list[str]:
        listed = self.inside("ps", "-e", "--no-headers", "-o", "pid,comm").stdout.splitlines()
        rows = [row.split(None, 1) for row in listed]
        return [name for pid, name in rows if pid != "1" and name not in ("ps", "(sd-pam)")]


@pytest.fixture(scope="module")
def booted(home: Path) -> Iterator[Booted]:
    if not SYSTEMD.exists() or shutil.which("systemctl") is None:
        pytest.fail("systemd is not installed: apt-get install systemd", pytrace=False)
    folder = home / f"unit-{time.monotonic_ns()}"
    key = prepare(folder, home)
    groups = [made_below(each) for each in HIERARCHIES.iterdir() if (each / "cgroup.procs").exists()]
    env = {"PATH": os.environ["PATH"], "OWN": str(folder), "CLAIMS": str(uids.CLAIMS), "SYSTEMD": str(SYSTEMD)}
    with (folder / "boot.log").open("wb") as log:
        argv = ["bash", "-c", BOOT, "boot", *map(str, groups)]
        process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        found = Booted(first_child(process), folder, key)
        until(lambda: found.inside("systemctl", "is-system-running").stdout.strip() == "running")
        yield found
        found.inside("systemctl", "stop", "hotdesk")
    finally:
        process.kill()
        process.wait()
        until(lambda: not [group for group in groups if not removed(group)])


def prepare(folder: Path, home: Path) -> str:
    """Create the units, the program and a state directory; return a key."""
    for name in ("units/hotdesk.service.d", "bin", "claims", "none", "home"):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)
    shutil.copy(UNIT, folder / "units/hotdesk.service")
    for target in TARGETS:
        (folder / "units" / target).write_text(TARGET)
    settings = settings_in(folder / "home")
    own = OWN.format(home=folder / "home", images=settings.images, log=folder / "serve.log")
    (folder / "units/hotdesk.service.d/test.conf").write_text(own)
    (folder / "bin/hotdesk").symlink_to(PROGRAM)
    uids.CLAIMS.mkdir(parents=True, exist_ok=True)
    return ApiKeys(settings.lib / "serve").make("test")


def made_below(hierarchy: Path) -> Path:
    group = hierarchy / f"unit-test-{os.getpid()}"
    group.mkdir()
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (hierarchy / name).exists():
            (group / name).write_text((hierarchy / name).read_text())
    return group


def removed(group: Path) -> bool:
    """Remove a cgroup and those below, as far as no process is in them; return whether it is gone."""
    for folder, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):
            (Path(folder) / "freezer.state").write_text("THAWED")  # a frozen process does not die
        with suppress(OSError):
            os.rmdir(folder)
    return not group.exists()


def first_child(process: subprocess.Popen[bytes]) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until(lambda: bool(children.read_text()) and str(SYSTEMD) in cmdline(int(children.read_text())))
    return int(children.read_text())


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture
def running(booted: Booted) -> Booted:
    """Start the unit and return its systemd; the server answers, because starting the unit waits for that."""
    done = booted.inside("systemctl", "start", "hotdesk")
    assert done.returncode == 0, done.stderr + booted.inside("systemctl", "status", "hotdesk").stdout
    assert booted.ask("/health") == '{"status":"ok"}'
    return booted


def test_systemd_finds_no_fault_in_the_unit(booted: Booted) -> None:
    done = booted.inside("systemd-analyze", "verify", "--man=no", str(booted.folder / "units/hotdesk.service"))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_systemd_waits_for_a_server_that_starts_slowly(booted: Booted) -> None:
    assert booted.show("TimeoutStartUSec") == "infinity"  # the default, 90 s, ends a server on an emulated machine


def test_the_unit_counts_as_started_once_the_server_answers(running: Booted) -> None:
    assert (running.show("ActiveState"), running.show("Type")) == ("active", "notify")
    assert running.ask("/health") == '{"status":"ok"}'


def test_stopping_the_unit_leaves_no_desk_and_no_process(running: Booted) -> None:
    sandbox = running.open_sandbox()
    assert sandbox in running.desks()
    assert running.inside("systemctl", "stop", "hotdesk").returncode == 0
    assert (running.show("Result"), running.show("ExecMainStatus")) == ("success", "0")
    assert running.desks() == set()
    assert running.processes() == []
    assert running.ask("/health") == ""


def test_reloading_the_unit_applies_new_settings_and_leaves_its_desks(running: Booted) -> None:
    sandbox, before = running.open_sandbox(), running.show("MainPID")
    config = running.home / "etc/config.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text("[serve.quota]\ndesks = 1\n")
    try:
        done = running.inside("systemctl", "reload", "hotdesk")
        assert (done.returncode, done.stderr) == (0, "")
        until(lambda: "reloaded certificate and settings" in (running.folder / "serve.log").read_text())
        assert (running.show("MainPID"), running.show("ActiveState")) == (before, "active")
        assert sandbox in running.desks()
        refused = running.ask("/sandboxes", "-H", "Content-Type: application/json", "-d", '{"templateID": "base"}')
        assert json.loads(refused)["code"] == 429
    finally:
        config.unlink()
        running.inside("systemctl", "stop", "hotdesk")


def test_a_killed_server_is_restarted_and_its_leftovers_are_removed(running: Booted) -> None:
    sandbox, before = running.open_sandbox(), running.show("MainPID")
    assert running.inside("kill", "-KILL", before).returncode == 0
    until(lambda: running.show("NRestarts") == "1" and running.show("ActiveState") == "active")
    assert running.show("MainPID") != before
    until(lambda: sandbox not in running.desks())
    assert running.open_sandbox() != sandbox


def test_a_second_stop_ends_the_server_at_once_and_leaves_nothing(running: Booted) -> None:
    running.open_sandbox()
    for _ in range(2):
        running.inside("systemctl", "kill", "--kill-whom=main", f"--signal={signal.SIGTERM.name}", "hotdesk")
    until(lambda: running.show("ActiveState") == "inactive")
    assert running.show("Result") == "success"
    until(lambda: running.desks() == set())
