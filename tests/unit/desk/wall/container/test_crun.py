"""Tests of starting the runtime: from a read-only mount, in its desk's cgroup, and only on request."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

GUARDED = """
import errno, json, os, subprocess, sys
from pathlib import Path
from hotdesk.config import Config
from hotdesk.linux import syscalls as kernel
from hotdesk.desk.wall.container import crun as launch

kernel.unshare(kernel.CLONE_NEWNS)
kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
folder = Path(sys.argv[1])
(folder / "private").mkdir()
settings = Config(run=folder, lib=folder, images=folder)
runtime = launch.protect_runtime(settings)
try:
    os.open(runtime, os.O_WRONLY)
    refused = 0
except OSError as e:
    refused = e.errno
print(json.dumps({
    "refused": refused in (errno.EROFS, errno.ETXTBSY),  # the second while a desk starts beside this test
    "same": launch.protect_runtime(settings) == runtime,
    "readonly": bool(os.statvfs(runtime).f_flag & os.ST_RDONLY),
    "runs": subprocess.run([runtime, "--version"], capture_output=True).returncode,
}))
"""

STANDING_BY = """
import json, os, sys, time
from pathlib import Path
from hotdesk.config import Config
from hotdesk.desk.wall.container import crun as launch

class Leash:
    def list_joining_files(self):
        return [str(folder / "first"), str(folder / "second")]

class Room:
    desk, cgroup = "nobody", Leash()

folder = Path(sys.argv[1])
Room.folder = folder
settings = Config(run=folder, lib=folder, images=folder, runtime=str(folder / "runtime"))
passed = folder / "passed" if "passed" in sys.argv else None
stray = os.open("/dev/null", os.O_RDONLY)
first, second = launch.stand_by(settings, Room), launch.stand_by(settings, Room, passed)
first.dismiss()
idle = os.waitpid(first.pid, 0)[1]
time.sleep(0.1)
waits = "joins not" in sys.argv or os.waitpid(second.pid, os.WNOHANG) == (0, 0)
pid, console = second.run()
status = os.waitpid(pid, 0)[1] >> 8
print(json.dumps({"idle": idle, "waits": waits, "ran": status, "console": os.read(console, 4096).decode()}))
"""
RUNTIME = """#!/bin/sh
cat "$PWD/first" "$PWD/second"
ls -l /proc/$$/fd | sed -n 's/.* \\([0-9]*\\) -> \\([^:]*\\).*/\\1 \\2/p'
echo "$# $_LIBCONTAINER_STATEDIR"
exit 5
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runtime").write_text(RUNTIME.replace("$PWD", str(tmp_path)))
    (tmp_path / "runtime").chmod(0o755)
    return tmp_path


def run(script: str, folder: Path, *arguments: str) -> dict[str, object]:
    argv = [sys.executable, "-c", script, str(folder), *arguments]
    found: dict[str, object] = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    return found


def test_the_runtime_is_started_from_a_read_only_mount(tmp_path: Path) -> None:
    assert run(GUARDED, tmp_path) == {"refused": True, "same": True, "readonly": True, "runs": 0}


def test_a_process_that_stands_by_joins_and_becomes_the_runtime_on_command_and_not_before(folder: Path) -> None:
    found = run(STANDING_BY, folder)
    lines = str(found.pop("console")).splitlines()
    assert found == {"idle": 9, "waits": True, "ran": 5}
    assert lines[:2] == ["0", "0"], "it joined both hierarchies"
    assert [line.split()[0] for line in lines if line.endswith(" pipe")] == ["0", "1", "2"]
    assert lines[-1] == f"8 {folder}"


def test_the_runtime_gets_no_other_descriptor(folder: Path) -> None:
    lines = str(run(STANDING_BY, folder)["console"]).splitlines()
    assert {line.split()[0] for line in lines[2:-1]} == {"0", "1", "2", "10"}, "10 is the shell's own script"


def test_a_file_is_passed_as_descriptor_3_and_a_link_is_not_followed(folder: Path) -> None:
    (folder / "elsewhere").write_text("of the host")
    (folder / "passed").write_text("memory")
    found = run(STANDING_BY, folder, "passed")
    assert f"3 {folder}/passed" in str(found["console"])
    (folder / "passed").unlink()
    (folder / "passed").symlink_to(folder / "elsewhere")
    found = run(STANDING_BY, folder, "passed")
    assert (found["ran"], found["console"]) == (1, "")


def test_a_process_that_cannot_join_does_not_start_the_runtime(folder: Path) -> None:
    (folder / "second").mkdir()
    found = run(STANDING_BY, folder, "joins not")
    assert found["ran"] not in (0, 5)
    assert "directory" in str(found["console"]).lower()
