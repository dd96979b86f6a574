"""Attacks on desks of a hotdesk that itself runs in a container: engines cover parts of /proc, containers are isolated.

The container is made of namespaces and mounts as Podman's are; `tests/e2e/test_nested.py` uses Podman itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.ipc.child import SOURCE
from hotdesk.linux import uids
from tests.security.guards import Removal, falls_without

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]
CONTAINER = """
mount --bind /dev/null /proc/keys && mount --bind /dev/null /proc/timer_list &&
mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys &&
mount -t tmpfs -o mode=700 tmpfs /run/hotdesk-uids && exec "$@"
"""
LOOK = """
import json, os
def attempt(path):
    try:
        return len(open(path, "rb").read(64))
    except OSError as e:
        return e.errno
def write(path):
    try:
        os.close(os.open(path, os.O_WRONLY))
        return "opened"
    except OSError as e:
        return os.strerror(e.errno)
told = {name: attempt(f"/proc/{name}") for name in ("cmdline", "keys", "timer_list", "locks", "diskstats", "iomem")}
ids = open("/proc/self/uid_map").read()
print(json.dumps({"read": told, "write": write("/proc/sys/kernel/core_pattern"), "map": ids}))
"""


def look(home: Path, settings: Config) -> dict[str, object]:
    home.mkdir(mode=0o755, exist_ok=True)
    uids.CLAIMS.mkdir(mode=0o700, exist_ok=True)
    env = {**os.environ, "HOTDESK_HOME": str(home), "HOTDESK_IMAGES": str(settings.images), "HOTDESK_HOLDER": "0"}
    env["PYTHONPATH"] = str(SOURCE)
    alone = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--propagation", "private"]
    hotdesk = [sys.executable, "-c", "from hotdesk.cli import main; main()", "run", "--", "python3", "-c", LOOK]
    done = subprocess.run(
        [*alone, "sh", "-c", CONTAINER, "sh", *hotdesk],
        env=env,
        input="",
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@falls_without("masks over proc")
def test_a_proc_uncovered_for_a_keeper_shows_its_desks_nothing(home: Path, settings: Config) -> None:
    found = look(home / "nested", settings)
    assert found["read"] == dict.fromkeys(("cmdline", "keys", "timer_list", "locks", "diskstats", "iomem"), 0)
    assert found["write"] != "opened"


@falls_without(
    "user ids that begin anywhere in a container",
    Removal("linux/uids.py", "choose_start(_is_nested())", "choose_start(False)"),
)
def test_desks_of_two_containers_do_not_share_their_first_user_ids(home: Path, settings: Config) -> None:
    first, second = (look(home / name, settings)["map"] for name in ("nested-one", "nested-two"))
    assert first != second
