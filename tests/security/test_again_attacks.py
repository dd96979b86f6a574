"""Attacks on the keeper by a desk that is restarted or forked."""

from __future__ import annotations

import time

import pytest

from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Spec
from hotdesk.errors import DeskError
from tests.security.conftest import Attack, Open
from tests.security.guards import Removal, falls_without

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

WIDE = """
os.unlink("/etc/hostname")
os.mkdir("/etc/hostname")
for number in range(20000):
    os.close(os.open("/etc/hostname/%d" % number, os.O_CREAT | os.O_WRONLY))
tell(1)
"""
DEEP = """
os.unlink("/etc/hostname")
os.mkdir("/etc/hostname")
os.chdir("/etc/hostname")
for _ in range(2000):
    os.mkdir("in")
    os.chdir("in")
tell(1)
"""


@falls_without(
    "no folder emptied for a fork",
    Removal("room/identity.py", "    if is_folder(fd, name):\n", "    if not path:\n"),
)
@pytest.mark.parametrize("shape", [WIDE, DEEP], ids=["wide", "deep"])
async def test_a_fork_is_refused_where_a_desk_put_a_folder_in_the_keepers_way(
    shape: str, runtime: KeeperRuntime, fresh: Open, attack: Attack
) -> None:
    async with fresh(Spec(root=True)) as desk:
        await attack(desk, shape, user="root")
        snapshot = await desk.snapshot()
        since = time.monotonic()
        with pytest.raises(DeskError, match="is a folder"):
            await desk.fork(1, snapshot)
        assert time.monotonic() - since < 5
        assert (await desk.run(["true"])).ok
