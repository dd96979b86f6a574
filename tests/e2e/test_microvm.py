"""Tests of desks as virtual machines, through a host: kernel, door, root, snapshots, ready desks, killed owners."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from hotdesk.brief import Scope, parse_rule
from hotdesk.brief.data import CLOSED
from hotdesk.config import MIB, Config
from hotdesk.desk.owner.runtime import bury
from hotdesk.desk.records import read_facts
from hotdesk.desk.seam import Desk, Spec
from hotdesk.desk.wall.microvm import status
from hotdesk.errors import BriefError, HostError
from hotdesk.host import Host
from hotdesk.walls import read_proof
from tests.upstream import upstream

pytestmark = [pytest.mark.container, pytest.mark.microvm, pytest.mark.timeout(300)]

SPEC = Spec(wall="microvm", memory=256 * MIB, disk=256 * MIB)
STATUS = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}"]
OWNER = """
import json, sys
import anyio
from pathlib import Path
from hotdesk.config import Config
from hotdesk.desk.owner.runtime import container_runtime
from hotdesk.desk.seam import Spec

async def main():
    run, lib, images = map(Path, sys.argv[1:])
    async with container_runtime(Config(run=run, lib=lib, images=images, microvm_emulate=True)) as runtime:
        desk = await runtime.open(Spec(wall="microvm", memory=256 << 20, disk=256 << 20))
        print(json.dumps({"desk": desk.id, "keeper": runtime.keeper.pid}), flush=True)
        await desk.run(["sleep", "999"])

anyio.run(main)
"""


@pytest.fixture(scope="module")
def emulating(settings: Config) -> Config:
    return replace(settings, microvm_emulate=True)


@pytest.fixture(scope="module")
async def host(emulating: Config) -> AsyncIterator[Host]:
    async with Host(emulating, control=False) as opened:
        yield opened


@pytest.fixture(scope="module")
async def desk(host: Host) -> AsyncIterator[Desk]:
    opened = await host.open(replace(SPEC, root=True, env={"STAGE": "1"}))
    yield opened
    await opened.burn()


async def test_a_desk_has_a_kernel_of_its_own_and_its_keeper_says_how_it_runs(emulating: Config, desk: Desk) -> None:
    release = (await desk.run(["uname", "-r"])).text.strip()
    assert "cloud" in release
    assert release != os.uname().release
    proof = read_proof(read_facts(emulating.run / "desks" / desk.id) or {})
    assert (proof.wall, proof.kernel) == ("microvm", "own")
    assert proof.is_boundary == (proof.platform == "kvm")
    assert release in proof.version
    if not proof.is_boundary:
        assert "emulated; its own kernel, but not an isolation boundary" in proof.describe()


async def test_a_virtual_machine_belongs_to_one_desk(desk: Desk) -> None:
    code = "hostname; cat /etc/machine-id; echo $STAGE; id -u; ls /sys/class/net; cat /proc/1/comm; date +%s"
    name, machine, stage, user, card, first, now = (await desk.run(["sh", "-c", code])).text.split()
    assert (name, stage, user, card) == (desk.id[:12], "1", "1000", "lo")
    assert len(machine) == 32
    assert "python" in first
    assert abs(int(now) - time.time()) < 30


@pytest.mark.long
async def test_root_is_root_of_the_machines_own_kernel(host: Host) -> None:
    code = "id -u; mkdir -p /mnt/t && mount -t tmpfs t /mnt/t && echo mounted; grep CapEff /proc/self/status"
    async with host.open_desk(replace(SPEC, root=True)) as desk:
        text = (await desk.run(["sh", "-c", code], user="root", timeout=60)).text.split()
        assert text[:2] == ["0", "mounted"]
        assert int(text[3], 16) & (1 << 21)
        assert (await desk.run(["sudo", "id", "-u"], timeout=60)).text == "0\n"


@pytest.mark.long
async def test_the_door_admits_what_its_scope_lists(emulating: Config, tmp_path: Path) -> None:
    with upstream(tmp_path, "erp.test") as server:
        scope = Scope(rules=(parse_rule("read erp.test/one"),), names={"erp.test": server.address})
        open_to = replace(emulating, ca=str(server.ca))
        async with Host(open_to, control=False) as host, host.open_desk(SPEC, scope=scope) as desk:
            paths = ("one", "two")
            codes = [(await desk.run([*STATUS, f"https://erp.test/{path}"], timeout=60)).text for path in paths]
            assert codes == ["200", "403"]
        assert [each.path for each in server.seen] == ["/one"]


@pytest.mark.long
async def test_files_are_kept_rolled_back_and_forked(host: Host) -> None:
    async with host.open_desk(SPEC) as desk:
        await desk.write("a", "first")
        snapshot = await desk.snapshot()
        await desk.write("a", "second")
        (fork,) = await desk.fork(snapshot=snapshot)
        assert await fork.read("a") == b"first"
        names = [(await each.run(["cat", "/etc/hostname", "/etc/machine-id"])).text for each in (desk, fork)]
        assert names[0] != names[1]
        await fork.burn()
        await desk.rollback(snapshot)
        assert await desk.read("a") == b"first"


@pytest.mark.long
async def test_a_desk_is_paused_with_its_memory_and_without(host: Host) -> None:
    async with host.open_desk(SPEC) as desk:
        await desk.write("a", "written")
        boot = (await desk.run(["cat", "/proc/sys/kernel/random/boot_id"])).text
        await desk.pause()
        await desk.resume()
        assert (await desk.run(["cat", "/proc/sys/kernel/random/boot_id"])).text == boot
        await desk.pause(memory=False)
        await desk.resume()
        assert await desk.read("a") == b"written"
        assert (await desk.run(["cat", "/proc/sys/kernel/random/boot_id"])).text != boot


@pytest.mark.long
async def test_a_ready_desk_is_claimed_unchanged_and_for_its_own_spec_only(emulating: Config) -> None:
    async with Host(emulating, control=False) as host:
        host.keep_ready(SPEC, 1)
        await host.pool.wait_until_full()
        (ready,) = [spare.desk.id for shelf in host.pool.shelves.values() for spare in shelf.ready]
        assert host.pool.take(replace(SPEC, root=True), CLOSED) is None
        assert host.pool.take(replace(SPEC, disk=512 * MIB), CLOSED) is None
        claimed = await host.open(replace(SPEC, env={"STAGE": "2"}))
        host.keep_ready(SPEC, 0)
        assert claimed.id == ready
        assert (await claimed.run(["sh", "-c", "echo $STAGE"])).text == "2\n"


async def test_operations_in_which_the_host_would_read_a_machines_disk_are_refused(desk: Desk) -> None:
    with pytest.raises(BriefError, match="cannot be saved as an image"):
        await desk.save("copied")


async def test_a_machine_without_kvm_refuses_unless_it_is_asked_to_emulate(settings: Config) -> None:
    flaw = status.find_kvm_flaw()
    if not flaw:
        pytest.skip("KVM works here, and nothing is refused")
    async with Host(settings, control=False) as host:
        with pytest.raises(HostError, match=re.escape(flaw) + r"; .*emulate = true in \[wall.microvm\]"):
            await host.open(SPEC)


@pytest.mark.long
@pytest.mark.parametrize("keeper_too", [False, True])
async def test_killed_owners_and_keepers_leave_nothing(emulating: Config, keeper_too: bool) -> None:
    argv = [sys.executable, "-c", OWNER, str(emulating.run), str(emulating.lib), str(emulating.images)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd="/") as owner:
        assert owner.stdout is not None
        report = json.loads(await anyio.to_thread.run_sync(owner.stdout.readline))
        if keeper_too:
            os.kill(report["keeper"], signal.SIGKILL)
        owner.kill()
    if keeper_too:
        await bury(emulating)
    with anyio.fail_after(20):
        while (emulating.run / "desks" / report["desk"]).exists():
            await anyio.sleep(0.05)
