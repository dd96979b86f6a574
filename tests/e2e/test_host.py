"""Tests of an owner and its desks through the library: async, blocking, by id, from other processes and users."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest

import hotdesk
from hotdesk import blocking
from hotdesk.config import Config
from hotdesk.desk.keeper import state
from hotdesk.desk.owner.control import serve_control
from hotdesk.desk.owner.remote import remote_runtime
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Desk, Spec, as_id, new_id
from hotdesk.errors import BriefError, DeskGone, HostError
from hotdesk.host import Host, borrow, burn, control_path
from hotdesk.linux.sockets import listen
from tests.e2e.conftest import Hotdesk

pytestmark = pytest.mark.container


async def test_a_desk_lives_for_its_block_and_burns_with_it(settings: Config) -> None:
    async with Host(settings) as host:
        async with host.open_desk() as desk:
            assert (await desk.run(["echo", "hi"])).text == "hi\n"
            assert [told["id"] for told in state.list_own_desks(settings)] == [desk.id]
        assert state.list_own_desks(settings) == []
        with pytest.raises(DeskGone):
            await desk.run(["true"])


async def test_a_desk_reports_its_wall_which_is_never_substituted(settings: Config) -> None:
    async with Host(settings, control=False) as host:
        async with host.open_desk() as desk:
            assert [record["wall"] for record in state.list_own_desks(settings) if record["id"] == desk.id] == [
                "container"
            ]
        with pytest.raises(HostError, match="the wall microvm is not available here"):
            await host.open(Spec(wall="microvm"))
        assert state.list_own_desks(settings) == []


async def test_a_desk_is_found_and_burnt_by_id(settings: Config) -> None:
    async with Host(settings) as host:
        desk = await host.open(Spec(memory=256 << 20))
        found = await host.find(desk.id)
        assert found is desk
        await host.burn(desk.id)
        await host.burn(desk.id)
        with pytest.raises(DeskGone):
            await host.find(desk.id)


async def test_another_owner_finds_uses_and_burns_a_desk(settings: Config) -> None:
    async with Host(settings) as host, Host(settings, control=False) as other:
        desk = await host.open()
        found = await other.find(desk.id)
        await found.write("word", b"through two processes")
        assert await desk.read("word") == b"through two processes"
        assert (await found.run(["sh", "-c", "cat; exit 5"], stdin=b"x" * 1_000_000)).exit_code == 5
        big = await found.run(["sh", "-c", "head -c 3000000 /dev/zero"])
        assert len(big.stdout) == 3_000_000
        await other.burn(desk.id)
        with pytest.raises(DeskGone):
            await desk.run(["true"])


async def test_a_borrower_that_vanishes_leaves_the_desk_and_its_programs(settings: Config) -> None:
    async with Host(settings) as host, host.open_desk() as desk:
        async with borrow(settings, desk.id) as lent:
            process = await lent.start(["sleep", "60"])
        assert [running.pid for running in await desk.processes() if running.exit_code is None] == [process.pid]


async def test_fifty_concurrent_borrowed_calls_do_not_mix(settings: Config) -> None:
    async with Host(settings) as host, host.open_desk() as desk, borrow(settings, desk.id) as lent:
        said: dict[int, str] = {}

        async def say(number: int) -> None:
            said[number] = (await lent.run(["echo", str(number)])).text

        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(say, number)
        assert said == {number: f"{number}\n" for number in range(50)}


async def test_another_user_at_the_control_socket_is_refused(settings: Config) -> None:
    async with Host(settings) as host:
        path = control_path(settings, os.getpid())
        assert path.stat().st_mode & 0o777 == 0o600
        async with remote_runtime(path) as runtime:
            for method, target in (("GET", "/"), ("POST", "/desks/x"), ("DELETE", "/desks/../../etc")):
                with pytest.raises(BriefError):
                    await runtime.call(method, target)
            with pytest.raises(BriefError):
                await runtime.call("POST", "/desks", {"image": "base", "surprise": 1})
        assert host.runtime is not None


def test_the_blocking_api_is_the_same_one(settings: Config) -> None:
    before = threading.active_count()
    with blocking.host(settings) as machine:
        desk = machine.open(Spec(env={"WORD": "hi"}))
        assert desk.run(["sh", "-c", "echo $WORD; cat"], stdin=b"there").stdout == b"hi\nthere"
        desk.write("a/b", b"1")
        assert [entry.name for entry in desk.list("a")] == ["b"]
        assert desk.read("a/b") == b"1"
        desk.move("a/b", "c")
        assert desk.stat("c").size == 1
        assert desk.mkdir("d")
        desk.remove("d")
        assert desk.processes()
        assert machine.find(desk.id).run(["true"]).ok
        machine.burn(desk.id)
    assert threading.active_count() < before + 4


def test_blocking_desks_stay_open_without_a_with_block(settings: Config) -> None:
    before = threading.active_count()
    machine = blocking.host(settings)
    desk, other = machine.open(), machine.open()
    desk.write("a", "text\n")
    assert desk.run(["cat"], stdin="fed\n").text == "fed\n"
    assert desk.read("a") == b"text\n"
    assert repr(desk) == f"<Desk {desk.id} open image=base cpus=2 memory=2G>"
    desk.burn()
    desk.close()
    with pytest.raises(DeskGone):
        desk.run(["true"])
    with other:
        assert other.run(["true"]).ok
    assert state.list_own_desks(settings) == []
    machine.open()
    machine.close()
    machine.close()
    assert state.list_own_desks(settings) == []
    assert threading.active_count() < before + 4


def test_a_blocking_machine_finds_another_owners_desk_and_closes_well(settings: Config, hotdesk: Hotdesk) -> None:
    desk = as_id(hotdesk("open").stdout.decode().strip())
    with blocking.host(settings) as machine:
        found = machine.find(desk)
        assert found.run(["echo", "here"]).text == "here\n"
        found.burn()
    assert state.list_own_desks(settings) == []


async def test_a_host_is_started_by_one_task_and_closed_by_another(settings: Config) -> None:
    host, other = Host(settings), Host(settings, control=False)

    async def opened() -> Desk:
        await other.start()
        return await (await host.start()).open()

    async def found(desk: Desk) -> None:
        assert (await (await other.find(desk.id)).run(["echo", "hi"])).text == "hi\n"
        with pytest.raises(BriefError, match="already started"):
            await host.start()

    async def closed() -> None:
        await other.close()
        await host.close()
        await host.close()

    desk = await asyncio.create_task(opened())
    await asyncio.create_task(found(desk))
    await asyncio.create_task(closed())
    assert state.list_own_desks(settings) == []


async def test_a_host_that_cannot_start_says_why_and_leaves_nothing(settings: Config) -> None:
    missing = Config(run=settings.run / "no" / "x\0y", lib=settings.lib, images=settings.images)
    with pytest.raises((OSError, ValueError, hotdesk.HotdeskError)):
        await Host(missing).start()
    with pytest.raises((OSError, ValueError, hotdesk.HotdeskError)):
        await anyio.to_thread.run_sync(blocking.host, missing)


@pytest.mark.parametrize(
    "program", ["desk = hotdesk.blocking.open_desk()", "machine = hotdesk.blocking.host()\nmachine.open()"]
)
def test_a_script_that_forgets_to_close_ends_and_leaves_no_desk(settings: Config, program: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOTDESK_HOME": str(settings.run.parent), "HOTDESK_IMAGES": str(settings.images)}
    argv = [sys.executable, "-c", f"import hotdesk\n{program}\nprint('end')"]
    done = subprocess.run(argv, env=env, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"end\n", b"")
    assert state.list_own_desks(settings) == []


def test_the_public_names_exist() -> None:
    for name in hotdesk.__all__:
        assert getattr(hotdesk, name) is not None
    with pytest.raises(AttributeError):
        hotdesk.no_such_name  # noqa: B018


async def test_opening_fails_clearly_and_leaves_nothing(settings: Config) -> None:
    async with Host(settings) as host:
        with pytest.raises(hotdesk.HotdeskError, match="no-such-image"):
            await host.open(Spec(image="no-such-image"))
        assert state.list_own_desks(settings) == []
    missing = Config(run=settings.run, lib=settings.lib, images=settings.images, runtime="no-such-runtime")
    async with Host(missing, control=False) as host:
        with pytest.raises(HostError, match="the wall container is not available here: no-such-runtime is not inst"):
            await host.open()
    full = Config(run=settings.run, lib=settings.lib, images=settings.images, disk_floor=1 << 60)
    async with Host(full, control=False) as host:
        with pytest.raises(HostError, match="free"):
            await host.open()


async def test_ten_desks_open_at_once(settings: Config) -> None:
    async with Host(settings, control=False) as host:
        names: list[str] = []

        async def one() -> None:
            async with host.open_desk(Spec(memory=128 << 20)) as desk:
                names.append((await desk.run(["hostname"])).text)

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(one)
        assert len(set(names)) == 10


@pytest.mark.timeout(300)
@pytest.mark.parametrize("desks", [40, pytest.param(400, marks=pytest.mark.long)])
async def test_opening_and_burning_desks_leaves_no_trace(settings: Config, desks: int) -> None:
    async with Host(settings, control=False) as host:
        for _ in range(desks):
            async with host.open_desk() as desk:
                assert (await desk.run(["true"])).ok
        assert os.listdir(settings.run / "desks") == []
        assert [name for name in os.listdir(settings.run / "runtime") if name != ".cache"] == []  # crun's own


@pytest.mark.parametrize("disk", ["btrfs", "ext4"])
async def test_both_kinds_of_disk_keep_their_limit(settings: Config, disk: str) -> None:
    chosen = Config(run=settings.run, lib=settings.lib, images=settings.images, disk=disk)
    async with Host(chosen, control=False) as host, host.open_desk(Spec(disk=64 << 20)) as desk:
        done = await desk.run(["dd", "if=/dev/urandom", "of=big", "bs=1M", "count=100"])
        assert not done.ok
        assert b"No space left" in done.stderr or b"quota exceeded" in done.stderr
        assert (await desk.stat("big")).size <= 64 << 20


async def test_an_ordinary_user_works_through_a_servers_socket(settings: Config, tmp_path: Path) -> None:
    program = shutil.which("hotdesk", path=str(Path(sys.executable).parent))
    assert program is not None
    script = (
        "import os, sys; os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534);"
        "from hotdesk.cli import main; main()"
    )
    warm = "import hotdesk.cli.desks.run, hotdesk.host, hotdesk.cli.desks.open, anyio._backends._asyncio;"
    async with Host(settings, control=False) as host:
        path = settings.run / "serve.sock"
        assert isinstance(host.runtime, KeeperRuntime)
        async with serve_control(host.runtime, path, mode=0o666):
            done = await anyio.to_thread.run_sync(ordinary, warm + script, settings, "run", "--", "id", "-u")
            assert (done.returncode, done.stdout) == (0, b"1000\n"), done.stderr
        for mode in (None, 0o660, 0o666):  # no socket, then stale ones: not for this user, for all
            if mode is not None:
                listen(path, mode).close()
            lone = await anyio.to_thread.run_sync(ordinary, warm + script, settings, "run", "--", "true")
            assert lone.returncode == 125
            assert b"needs root" in lone.stderr
            assert b"hotdesk serve" in lone.stderr
        path.unlink()


def ordinary(script: str, settings: Config, *argv: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line as nobody; all imports happen before, as the interpreter may be in root's home."""
    env = {"PATH": os.environ["PATH"], "HOTDESK_HOME": str(settings.run.parent), "HOTDESK_IMAGES": str(settings.images)}
    return subprocess.run(
        [sys.executable, "-c", script, *argv], check=False, capture_output=True, timeout=60, env=env, cwd="/"
    )


async def test_burning_an_unknown_desk_is_no_error(settings: Config) -> None:
    await burn(settings, new_id())


def test_a_program_run_by_asyncio_ends_without_output(settings: Config) -> None:
    script = (
        "import asyncio, sniffio, hotdesk\n"
        "async def main():\n"
        "    async with hotdesk.Host() as host, host.open_desk() as desk:\n"
        "        hands = await host.hands(desk)\n"
        "        print((await hands.use('run', {'command': 'echo here'})).text)\n"
        "asyncio.run(main())\n"
    )
    env = {"PATH": os.environ["PATH"], "HOTDESK_HOME": str(settings.run.parent), "HOTDESK_IMAGES": str(settings.images)}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"here\n[exit code 0]\n", b"")
