"""Tests of processes that end, fail or pause at the wrong moment: keepers and owners handle each correctly."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from hotdesk.config import Config
from hotdesk.desk.image import image
from hotdesk.desk.link.channel import SILENCE_TIMEOUT_S
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import SILENT_SECONDS, Link
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Spec, new_id
from hotdesk.errors import DeskGone, HotdeskError
from hotdesk.host import Host
from tests.fuzz.hostile import GREETING, run

SHORT_WRITE = """
import resource, signal, sys
from pathlib import Path
from hotdesk.drive.journal import Journal, read
from hotdesk.drive.signing import load_signer
from hotdesk.errors import HostError
from hotdesk.event import RootAct
folder = Path(sys.argv[1])
journal = Journal(folder / "journal.db", load_signer(folder))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
for limit in (5000, resource.RLIM_INFINITY):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    journal.add("desk", "owner", RootAct("desk", "sudo", ("id",), "/"))
    try:
        journal.commit()
        print("noted")
    except HostError as e:
        print("refused")
        journal.discard()
print(len(list(read(folder / "journal.db"))))
"""


def test_a_partly_written_act_is_not_recorded(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-c", SHORT_WRITE, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["refused", "noted", "1"], done.stdout


@pytest.fixture
def lifeless(settings: Config, home: Path) -> Iterator[Config]:
    """Yield settings with an image whose first process ends at once."""
    store = home / "lifeless"
    base = image.find(settings.images, "base")
    (store / "layers").mkdir(parents=True)
    (store / "images").mkdir()
    for layer in base.layers:
        (store / "layers" / layer.name).symlink_to(layer)
    made = replace(base, name="lifeless", digest="lifeless", python="/bin/true")
    (store / "images/lifeless.json").write_bytes(image.dump(made))
    yield replace(settings, images=store)
    for path in sorted(store.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    store.rmdir()


@pytest.mark.container
async def test_a_desk_whose_first_process_ends_at_once_leaves_nothing(lifeless: Config) -> None:
    async with Host(lifeless, control=False) as host:
        for _ in range(20):
            with pytest.raises(HotdeskError):
                await host.open(Spec(image="lifeless"))
        with anyio.fail_after(30):
            while list((lifeless.run / "desks").glob("i*")):
                await anyio.sleep(0.02)


@pytest.mark.container
async def test_a_keeper_that_cannot_start_a_thread_reports_it_and_keeps_its_desks(settings: Config) -> None:
    async with Host(settings, control=False) as host, host.open_desk() as desk:
        assert isinstance(host.runtime, KeeperRuntime)
        keeper = host.runtime.keeper.pid
        cage = Path("/sys/fs/cgroup/pids") / f"hotdesk-test-{keeper}"
        cage.mkdir()
        try:
            (cage / "pids.max").write_text("1")
            (cage / "cgroup.procs").write_text(str(keeper))
            with pytest.raises(HotdeskError, match="limit of processes is reached"):
                await desk.dial(8080)
            with pytest.raises(HotdeskError):
                await host.open()
            before = len(list(Path(f"/proc/{keeper}/fd").iterdir()))
            for _ in range(5):
                with pytest.raises(HotdeskError):
                    await host.open()
            assert len(list(Path(f"/proc/{keeper}/fd").iterdir())) <= before
            assert (await desk.run(["echo", "here"])).text == "here\n"
        finally:
            (cage.parent / "cgroup.procs").write_text(str(keeper))
            cage.rmdir()
        async with host.open_desk() as other:
            assert (await other.run(["true"])).ok


@pytest.mark.long
@pytest.mark.container
async def test_an_unused_sudo_does_not_keep_a_desk_from_being_idle(settings: Config) -> None:
    async with Host(settings, control=False) as host:
        desk = await host.open(Spec(root=True, idle=3.0, deadline=60.0))
        process = await desk.start(["sh", "-c", "while :; do sudo true; sleep 0.3; done"], stdin=False)
        await process.detach()
        with anyio.fail_after(30):
            while list((settings.run / "desks").glob("i*")):
                await anyio.sleep(0.1)
        with pytest.raises(DeskGone, match="idle"):
            await desk.run(["true"])


def test_a_write_waits_out_a_pause_however_long() -> None:
    async def write() -> None:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        theirs.send(GREETING)
        link = Link(ours)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run)
            await link.wait_for_hello()
            link.paused = True
            with anyio.move_on_after(10 * (SILENCE_TIMEOUT_S + SILENT_SECONDS)) as scope:
                await LinkedDesk(new_id(), link, "/").write("file", bytes(1 << 22))
            assert scope.cancelled_caught, "nobody took it, so it cannot have ended"
            assert link.failure is None
            link.hang_up()
        theirs.close()

    run(write)
