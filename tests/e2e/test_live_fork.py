"""Tests of programs that continue in copies of their desk, and after it was hibernated, whoever owned it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from hotdesk.brief import Scope, parse_rule
from hotdesk.config import MIB, Config
from hotdesk.desk.image.image import dump
from hotdesk.desk.image.image import find as find_image
from hotdesk.desk.image.store import rm
from hotdesk.desk.keeper.hibernated import HibernatedDesks
from hotdesk.desk.owner.runtime import bury
from hotdesk.desk.seam import Desk, DeskId, Process, Size, Spec
from hotdesk.errors import BriefError, DeskError, DeskGone, ImageError
from hotdesk.host import Host, burn
from hotdesk.walls import TRAITS
from tests.upstream import upstream

pytestmark = pytest.mark.container

GVISOR = Spec(wall="gvisor", cpus=1, memory=512 * MIB)
MICROVM = Spec(wall="microvm", cpus=1, memory=256 * MIB, disk=512 * MIB)
WALLS = (
    pytest.param(GVISOR, id="gvisor", marks=[pytest.mark.gvisor, pytest.mark.timeout(120)]),
    pytest.param(MICROVM, id="microvm", marks=[pytest.mark.microvm, pytest.mark.timeout(600)]),
)
PATIENCE_S = 200
"""Seconds a program of a desk may take: a virtual machine may be emulated."""
STATUS = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}"]
COUNTER = """
import os, random, sqlite3, sys, time
ledger = sqlite3.connect("ledger.db", isolation_level=None)
ledger.execute("create table rows (number)")
ledger.execute("begin")
ledger.execute("insert into rows values (1)")
pairs = open("pairs", "a", buffering=1)
word = os.urandom(8).hex()
number = 0
while True:
    number += 1
    pairs.write("%d\\n" % number)
    with open("count.new", "w") as file:
        file.write("%s %d" % (word, number))
    os.rename("count.new", "count")
    if os.path.exists("finish"):
        ledger.execute("insert into rows values (2)")
        ledger.execute("commit")
        print(word, number, ledger.execute("select count(*) from rows").fetchone()[0], os.urandom(8).hex(), flush=True)
        break
    time.sleep(0.002)
"""
OWNER = """
import json, sys
import anyio
from pathlib import Path
from hotdesk.config import Config
from hotdesk.desk.owner.runtime import container_runtime
from hotdesk.desk.seam import Spec

async def main():
    run, lib, images, program, wall, memory, code = sys.argv[1:]
    places = {"run": Path(run), "lib": Path(lib), "images": Path(images)}
    settings = Config(**places, gvisor_program=program, microvm_emulate=True)
    async with container_runtime(settings) as runtime:
        desk = await runtime.open(Spec(wall=wall, cpus=1, memory=int(memory)))
        await desk.write("counter.py", code)
        process = await desk.start(["python3", "counter.py"])
        while not [each for each in await desk.list() if each.name == "count"]:
            await anyio.sleep(0.01)
        await desk.pause(keep="disk")
        print(json.dumps({"desk": desk.id, "keeper": runtime.keeper.pid, "pid": process.pid}), flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


GVISOR_ALONE = pytest.mark.parametrize("spec", WALLS[:1], indirect=True)


@pytest.fixture(params=WALLS)
def spec(request: pytest.FixtureRequest) -> Spec:
    assert isinstance(request.param, Spec)
    return request.param


@pytest.fixture(scope="module")
def emulating(settings: Config) -> Config:
    return replace(settings, microvm_emulate=True)


@pytest.fixture
async def host(emulating: Config) -> AsyncIterator[Host]:
    async with Host(emulating, control=False) as opened:
        yield opened


async def start_counter(desk: Desk) -> Process:
    await desk.write("counter.py", COUNTER)
    process = await desk.start(["python3", "counter.py"])
    await wait_for(desk, 5)
    return process


async def wait_for(desk: Desk, number: int) -> tuple[str, int]:
    """Wait until a desk's counter has reached a number; return its random word and its position."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            if any(each.name == "count" for each in await desk.list()):
                word, _, count = (await desk.read("count")).decode().partition(" ")
                if int(count) >= number:
                    return word, int(count)
            await anyio.sleep(0.01)


async def finish(desk: Desk, process: Process) -> list[str]:
    """Have a counter finish; return what it printed."""
    await desk.write("finish", "")
    told = b""
    async for _, data in process.output():
        told += data
    assert (await process.wait()).exit_code == 0, told
    return told.decode().split()


async def test_programs_continue_in_every_copy_and_in_the_origin(host: Host, spec: Spec) -> None:
    origin = await host.open(spec)
    process = await start_counter(origin)
    word, before = await wait_for(origin, 20)
    copies = await origin.fork(2, memory=True)
    results = [await finish(origin, process)]
    for copy in copies:
        assert copy.id != origin.id
        results.append(await finish(copy, await copy.attach(process.pid)))
    assert {each[0] for each in results} == {word}, "the same memory went on"
    assert all(int(each[1]) > before for each in results), "and counted from where it was"
    assert {each[2] for each in results} == {"2"}, "the open transaction was committed in each"
    assert len({each[3] for each in results}) == 3, "new randomness is each desk's own"
    for desk in (origin, *copies):
        numbers = [int(line) for line in (await desk.read("pairs")).split()]
        assert numbers == list(range(1, len(numbers) + 1)), "files and memory are of one moment"
        await host.burn(desk.id)


async def test_a_half_typed_line_of_a_shell_is_finished_in_the_copy(host: Host, spec: Spec) -> None:
    origin = await host.open(spec)
    shell = await origin.start(["bash", "--norc", "-i"], pty=Size())
    await shell.send(b"SECRET=41; echo half-")
    with anyio.fail_after(PATIENCE_S):
        async for _, data in shell.output():
            if b"half-" in data:
                break
    (copy,) = await origin.fork(memory=True)
    line = await copy.attach(shell.pid)
    await line.send(b"typed-$((SECRET + 1))\nexit\n")
    told = b""
    with anyio.fail_after(PATIENCE_S):
        async for _, data in line.output():
            told += data
    assert b"half-typed-42" in told
    await shell.send(b"here-$((SECRET + 2))\nexit\n")
    told = b""
    with anyio.fail_after(PATIENCE_S):
        async for _, data in shell.output():
            told += data
    assert b"half-here-43" in told, "in the origin it goes on as well, over the same channel"
    for desk in (origin, copy):
        await host.burn(desk.id)


async def test_a_copy_has_a_name_and_an_identity_of_its_own_and_the_right_time(host: Host, spec: Spec) -> None:
    origin = await host.open(spec)
    await origin.run(["true"])
    (copy,) = await origin.fork(memory=True)
    argv = ["sh", "-c", "hostname; cat /etc/hostname /etc/machine-id; date +%s"]
    first, second = [(await desk.run(argv)).text.split() for desk in (origin, copy)]
    assert first[:2] == [origin.id[:12]] * 2
    assert second[:2] == [copy.id[:12]] * 2
    assert first[2] != second[2]
    assert abs(int(second[3]) - time.time()) < 30
    assert (await copy.run(["sh", "-c", "hostname evil"])).exit_code != 0, "nobody inside may set it"
    for desk in (origin, copy):
        await host.burn(desk.id)


@pytest.mark.long
async def test_a_copy_has_its_own_egress(emulating: Config, spec: Spec, tmp_path: Path) -> None:
    with upstream(tmp_path, "erp.test") as server:
        scope = Scope(rules=(parse_rule("read erp.test/one"),), names={"erp.test": server.address})
        async with Host(replace(emulating, ca=str(server.ca)), control=False) as host:
            origin = await host.open(spec, scope)
            ask = [*STATUS, "https://erp.test/one"]
            assert (await origin.run(ask, timeout=PATIENCE_S)).text == "200"
            (copy,) = await origin.fork(memory=True)
            await host.burn(origin.id)
            assert (await copy.run(ask, timeout=PATIENCE_S)).text == "200"
            assert (await copy.run([*STATUS, "https://erp.test/two"], timeout=PATIENCE_S)).text == "403"
            await host.burn(copy.id)


@pytest.mark.long
async def test_root_works_again_in_origin_and_copy(host: Host, spec: Spec) -> None:
    origin = await host.open(replace(spec, root=True))
    assert (await origin.run(["id", "-u"], user="root")).text == "0\n"
    (copy,) = await origin.fork(memory=True)
    for desk in (origin, copy):
        assert (await desk.run(["id", "-u"], user="root")).text == "0\n"
        assert (await desk.run(["sudo", "id", "-u"])).text == "0\n"
        await host.burn(desk.id)


async def test_a_hibernated_desk_takes_no_memory_and_continues_with_every_channel(host: Host, spec: Spec) -> None:
    desk = await host.open(spec)
    process = await start_counter(desk)
    word, before = await wait_for(desk, 20)
    await desk.pause(keep="disk")
    await desk.pause(keep="disk")
    with anyio.fail_after(10):  # the first process counts until the keeper's loop has reaped it
        while (await desk.usage()).pids:
            await anyio.sleep(0.01)
    assert (await desk.usage()).processes == 0
    await desk.resume()
    done = await finish(desk, process)
    assert done[0] == word
    assert int(done[1]) > before
    assert done[2] == "2"
    assert (await desk.run(["hostname"])).text.strip() == desk.id[:12]
    await desk.pause(keep="disk")
    await desk.pause(memory=False)
    await desk.resume()
    assert (await desk.read("count")).decode().startswith(word), "the files alone can go on, too"
    await host.burn(desk.id)


@pytest.mark.parametrize("keeper_too", [pytest.param(False, marks=pytest.mark.long), True])
async def test_a_hibernated_desk_continues_after_owner_and_keeper_were_killed(
    emulating: Config, spec: Spec, keeper_too: bool
) -> None:
    settings = emulating
    places = [str(settings.run), str(settings.lib), str(settings.images), settings.gvisor_program]
    places += [spec.wall, str(spec.memory)]
    owner = subprocess.Popen([sys.executable, "-c", OWNER, *places, COUNTER], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    report = json.loads(await anyio.to_thread.run_sync(owner.stdout.readline))
    desk = DeskId(report["desk"])
    if keeper_too:
        os.kill(report["keeper"], signal.SIGKILL)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    with anyio.fail_after(PATIENCE_S):
        while Path(f"/proc/{report['keeper']}").exists():
            await anyio.sleep(0.02)
    await bury(settings)
    assert HibernatedDesks(settings, lambda: None).has(desk)  # type: ignore[arg-type, return-value]
    async with Host(settings, control=False) as host:
        with pytest.raises(DeskGone, match=f"is hibernated; resume it with `hotdesk resume {desk}`"):
            await host.find(desk)
        woken = await host.wake(desk)
        assert woken.id == desk
        done = await finish(woken, await woken.attach(report["pid"]))
        assert done[2] == "2"
        assert not HibernatedDesks(settings, lambda: None).has(desk)  # type: ignore[arg-type, return-value]
        await host.burn(desk)


@pytest.mark.long
async def test_a_hibernated_desk_that_is_burnt_is_gone(emulating: Config, spec: Spec) -> None:
    settings = emulating
    async with Host(settings, control=False) as host:
        desk = await host.open(spec)
        await desk.pause(keep="disk")
    store = HibernatedDesks(settings, lambda: None)  # type: ignore[arg-type, return-value]
    assert store.has(desk.id), "its owner ended, and it did not"
    await burn(settings, desk.id)
    assert not store.has(desk.id)
    async with Host(settings, control=False) as host:
        with pytest.raises(DeskGone, match="not hibernated"):
            await host.wake(desk.id)


@pytest.mark.long
async def test_a_hibernated_desk_continues_on_its_images_even_if_their_names_have_new_ones(
    emulating: Config, spec: Spec, home: Path
) -> None:
    names = [name for name in ("base", TRAITS[spec.wall].stage) if name]
    images = [find_image(emulating.images, name) for name in names]
    store = home / "rebuilt"
    own = replace(emulating, images=store)
    for folder in (store / "layers", store / "images"):
        folder.mkdir(parents=True)
    for layer in {layer for image in images for layer in image.layers}:
        (store / "layers" / layer.name).symlink_to(layer)
    for image in images:
        (store / f"images/{image.name}.json").write_bytes(dump(image))
    async with Host(own, control=False) as host:
        desk = await host.open(spec)
        await desk.write("note", b"kept")
        await desk.pause(keep="disk")
    for name in names[-1:]:
        with pytest.raises(ImageError, match=f"needed by the hibernated desk {desk.id}"):
            rm(store, name)
    for image in images:
        (store / f"images/{image.name}.json").write_bytes(dump(replace(image, digest="f" * 64)))
    async with Host(own, control=False) as host:
        woken = await host.wake(desk.id)
        assert await woken.read("note") == b"kept"
        await host.burn(desk.id)
    assert list((store / "pins").iterdir()) == []
    shutil.rmtree(store)


@GVISOR_ALONE
@pytest.mark.slow
async def test_a_desk_that_is_burnt_while_it_is_hibernated_is_gone(
    settings: Config, spec: Spec, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start_keeper(settings: Config, desk: DeskId) -> None:
        raise PermissionError("a confined server cannot start a keeper")

    monkeypatch.setattr("hotdesk.host.burn_hibernated", start_keeper)
    store = HibernatedDesks(settings, lambda: None)  # type: ignore[arg-type, return-value]

    async def hibernate(desk: Desk) -> None:
        with suppress(DeskGone):
            await desk.pause(keep="disk")

    first, begun = await host.open(spec), time.monotonic()
    await hibernate(first)
    usual = time.monotonic() - begun
    await host.burn(first.id)
    for part in range(8, 14):
        desk = await host.open(spec)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hibernate, desk)
            await anyio.sleep(usual * part / 10)
            await host.burn(desk.id)
        assert not store.has(desk.id)


@GVISOR_ALONE
async def test_a_desk_that_cannot_be_saved_continues_to_run(host: Host, spec: Spec) -> None:
    desk = await host.open(spec)
    hold = (
        "import socket,time; s=socket.socket(socket.AF_UNIX); s.connect('/run/hotdesk/gate.sock'); print(1,flush=True)"
    )
    holder = await desk.start(["python3", "-c", hold + "; time.sleep(60)"])
    async for _, data in holder.output():
        assert data == b"1\n"
        break
    for refused in (desk.fork(memory=True), desk.pause(keep="disk")):
        with pytest.raises(DeskError, match=r"a program is connected to a socket of the host"):
            await refused
    assert (await desk.run(["echo", "still"])).text == "still\n"
    await holder.kill()
    (copy,) = await desk.fork(memory=True)
    for each in (desk, copy):
        assert (await each.run(["true"])).ok
        await host.burn(each.id)


@GVISOR_ALONE
async def test_a_wall_that_cannot_save_memory_refuses_at_once(host: Host, spec: Spec) -> None:
    desk = await host.open(replace(spec, wall="container"))
    process = await desk.start(["cat"])
    for refused in (desk.fork(memory=True), desk.pause(keep="disk")):
        with pytest.raises(
            BriefError, match=r"the wall container cannot save memory\. Open a desk with the wall gvisor"
        ):
            await refused
    await process.send(b"on")
    async for _, data in process.output():
        assert data == b"on"
        break
    with pytest.raises(BriefError, match="files and no memory"):
        await desk.fork(1, await desk.snapshot(), memory=True)
    with pytest.raises(BriefError, match="cannot be combined with keep"):
        await desk.pause(memory=False, keep="disk")
    await host.burn(desk.id)
