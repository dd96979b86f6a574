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
    def join(self):
        (folder / "joined").write_text(str(os.getpid()))

class Room:
    desk, cgroup = "nobody", Leash()

folder = Path(sys.argv[1])
Room.folder = folder
settings = Config(run=folder, lib=folder, images=folder, runtime="false")
first, second = launch.stand_by(settings, Room), launch.stand_by(settings, Room)
first.dismiss()
idle = os.waitpid(first.pid, 0)[1]
time.sleep(0.05)
waits = os.waitpid(second.pid, os.WNOHANG) == (0, 0)
joined = (folder / "joined").exists()
pid, console = second.run()
print(json.dumps({"idle": idle, "waits": waits, "joined": joined, "ran": os.waitpid(pid, 0)[1] >> 8}))
"""


def told(script: str, folder: Path) -> object:
    done = subprocess.run([sys.executable, "-c", script, str(folder)], check=True, capture_output=True)
    return json.loads(done.stdout)


def test_the_runtime_is_started_from_a_read_only_mount(tmp_path: Path) -> None:
    assert told(GUARDED, tmp_path) == {"refused": True, "same": True, "readonly": True, "runs": 0}


def test_a_process_that_stands_by_starts_the_runtime_when_told_and_not_before(tmp_path: Path) -> None:
    assert told(STANDING_BY, tmp_path) == {"idle": 9, "waits": True, "joined": True, "ran": 1}
