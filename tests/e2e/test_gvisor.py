"""Tests of desks behind gVisor, through a host: the door, ready desks, screens, and killed owners."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from hotdesk.brief import Scope, parse_rule
from hotdesk.config import MIB, Config
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.owner.keeper_handle import suspend
from hotdesk.desk.owner.runtime import KeeperRuntime, bury
from hotdesk.desk.seam import Spec
from hotdesk.errors import BriefError, HostError
from hotdesk.hands.screen.screen import Screen
from hotdesk.host import Host
from tests.conftest import settings_in
from tests.upstream import upstream
from tests.verifying import verifier

pytestmark = [pytest.mark.container, pytest.mark.gvisor, pytest.mark.timeout(90)]

SPEC = Spec(wall="gvisor", cpus=1, memory=512 * MIB)
STATUS = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}"]
CYCLES = int(os.environ.get("HOTDESK_TEST_CYCLES", "1000"))
OWNER = """
import json, sys
import anyio
from pathlib import Path
from hotdesk.config import Config
from hotdesk.desk.owner.runtime import container_runtime
from hotdesk.desk.seam import Spec

async def main():
    run, lib, images, program = sys.argv[1:]
    settings = Config(run=Path(run), lib=Path(lib), images=Path(images), gvisor_program=program)
    async with container_runtime(settings) as runtime:
        desk = await runtime.open(Spec(wall="gvisor", root=True))
        await desk.run(["true"], user="root")
        print(json.dumps({"desk": desk.id, "keeper": runtime.keeper.pid}), flush=True)
        await desk.run(["sleep", "999"])

anyio.run(main)
"""


async def test_the_door_admits_what_its_scope_lists(settings: Config, tmp_path: Path) -> None:
    with upstream(tmp_path, "erp.test") as server:
        scope = Scope(rules=(parse_rule("read erp.test/one"),), names={"erp.test": server.address})
        open_to = replace(settings, ca=str(server.ca))
        async with Host(open_to, control=False) as host, host.open_desk(SPEC, scope=scope) as desk:
            paths = ("one", "two")
            codes = [(await desk.run([*STATUS, f"https://erp.test/{path}"], timeout=30)).text for path in paths]
            assert codes == ["200", "403"]
            assert (await desk.run([*STATUS, "https://elsewhere.test/"], timeout=30)).text == "000"
        assert [each.path for each in server.seen] == ["/one"]


async def test_a_desk_kept_ready_is_claimed_and_opens_its_door(settings: Config, tmp_path: Path) -> None:
    with upstream(tmp_path, "erp.test") as server:
        scope = Scope(rules=(parse_rule("read erp.test"),), names={"erp.test": server.address})
        async with Host(replace(settings, ca=str(server.ca)), control=False) as host:
            host.keep_ready(SPEC, 2)
            await host.pool.wait_until_full()
            ready = {spare.desk.id for shelf in host.pool.shelves.values() for spare in shelf.ready}
            first = await host.open(replace(SPEC, root=True, env={"STAGE": "1"}), scope)
            assert first.id in ready
            assert (await first.run([*STATUS, "https://erp.test/"], timeout=30)).text == "200"
            assert (await first.run(["sh", "-c", "echo $STAGE; sudo id -u"])).text == "1\n0\n"
            other = await host.open(replace(SPEC, memory=256 * MIB))
            assert other.id not in ready, "its memory cannot change"
            host.keep_ready(SPEC, 0)


async def test_a_takeover_that_would_stop_programs_is_refused_with_the_reason(settings: Config) -> None:
    async with Host(settings, control=False) as host, host.open_desk(SPEC) as desk:
        assert isinstance(desk, LinkedDesk)
        with pytest.raises(BriefError, match=r"the wall gvisor of desk \w+ cannot stop single programs"):
            await suspend(desk, True)
        assert (await desk.run(["true"])).ok


async def test_a_machine_without_runsc_refuses_the_wall_with_the_remedy(settings: Config) -> None:
    async with Host(replace(settings, gvisor_program="/nowhere/runsc"), control=False) as host:
        with pytest.raises(HostError, match="hotdesk setup --wall gvisor"):
            await host.open(SPEC)
        assert (await (await host.open(Spec())).run(["true"])).ok


@pytest.mark.parametrize("keeper_too", [False, True])
async def test_killed_owners_and_keepers_leave_nothing(settings: Config, keeper_too: bool) -> None:
    argv = [sys.executable, "-c", OWNER, str(settings.run), str(settings.lib), str(settings.images)]
    with subprocess.Popen([*argv, settings.gvisor_program], stdout=subprocess.PIPE, text=True, cwd="/") as owner:
        assert owner.stdout is not None
        report = json.loads(await anyio.to_thread.run_sync(owner.stdout.readline))
        if keeper_too:
            os.kill(report["keeper"], signal.SIGKILL)
        owner.kill()
    if keeper_too:
        await bury(settings)
    with anyio.fail_after(20):
        while (settings.run / "desks" / report["desk"]).exists():
            await anyio.sleep(0.05)


@pytest.mark.long
async def test_a_desk_has_as_many_programs_as_its_limit_says(settings: Config) -> None:
    async with Host(settings, control=False) as host, host.open_desk(replace(SPEC, pids=64)) as desk:
        programs = [await desk.start(["sleep", "60"], stdin=False) for _ in range(60)]
        assert (await desk.run(["true"])).ok
        for each in programs:
            await each.kill()


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_an_office_and_a_screen_work(settings: Config) -> None:
    async with Host(settings, control=False) as host:
        async with host.open_desk(replace(SPEC, image="office", memory=2048 * MIB)) as desk:
            await desk.write("table.csv", "a,b\n1,2\n")
            argv = ["soffice", "--headless", "--convert-to", "xlsx", "table.csv"]
            done = await desk.run(argv, timeout=120)
            assert done.ok, done.stderr
            assert (await desk.stat("table.xlsx")).size > 1000
        async with host.open_desk(replace(SPEC, image="desktop", cpus=2, memory=2048 * MIB)) as desk:
            assert await Screen(host.get_seat(desk)).screenshot()


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_a_thousand_desks_leave_nothing(settings: Config) -> None:
    async with Host(settings, control=False) as host:
        assert isinstance(host.runtime, KeeperRuntime)
        folder = Path(f"/proc/{host.runtime.keeper.pid}/fd")
        for number in range(CYCLES):
            async with host.open_desk(SPEC) as desk:
                assert (await desk.run(["true"])).ok
            if number == 20:
                before = len(list(folder.iterdir()))
        assert len(list(folder.iterdir())) <= before + 2


async def test_behind_gvisor_each_verification_has_its_own_desk(home: Path, tmp_path: Path) -> None:
    place = home / "verifying-gvisor"
    async with verifier(settings_in(place), place, tmp_path, wall="gvisor") as machine:
        first = machine.shared()
        assert (await machine.look("a.csv", b"a,b\n1,2\n", "csv", columns=["a", "b"])).passed
        assert first is not None
        assert machine.shared() is None, "the desk of the first look was burnt"
        assert (await machine.look("b.csv", b"a,b\n1,2\n", "csv", columns=["a", "b"])).passed
        desks = {verdict.desk for verdict in machine.verdicts()}
        assert len(desks) == len(machine.verdicts()) > 2
