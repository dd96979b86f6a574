"""Attacks on the link between a desk and its owner: by other processes in the desk, and by floods from a guest."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import FileError
from tests.security.conftest import Attack, Craft, Init, Open, Owning
from tests.security.guards import Removal, falls_without
from tests.security.resident import peak, reset_peak

pytestmark = [pytest.mark.container, pytest.mark.timeout(90)]

DIAL = """
s = socket.socket(socket.AF_UNIX)
s.settimeout(2)
info = os.stat("/run/hotdesk/link.sock")
tell({"dial": attempt(s.connect, "/run/hotdesk/link.sock"), "mode": info.st_mode, "uid": info.st_uid,
      "write": [attempt(os.unlink, "/run/hotdesk/link.sock"), attempt(os.chmod, "/run/hotdesk/link.sock", 0o777),
                attempt(os.rename, "/run/hotdesk/lib", "/run/hotdesk/old"), attempt(os.mkdir, "/run/hotdesk/new")]})
"""
IMPOSTOR = """#!/usr/bin/python3
import os, socket, sys, time
sys.path.insert(0, "/run/hotdesk/lib")
from hotdesk_guest import wire
if os.fork() == 0:
    s = socket.socket(socket.AF_UNIX)
    s.connect("/run/hotdesk/link.sock")
    s.settimeout(5)
    try:
        hello = wire.encode({"version": wire.VERSION, "pid": 1, "home": "/impostor"})
        s.sendall(wire.encode_frame(wire.HELLO, 0, hello))
        time.sleep(0.3)
        said = s.recv(10)
    except ConnectionError:
        said = b""
    with open("/tmp/impostor", "w") as file:
        file.write("hung up on" if not said else "spoken to")
    os._exit(0)
time.sleep(0.5)
os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv[1:]])
"""
MANY_NAMES = """
os.makedirs("/tmp/many", exist_ok=True)
os.chdir("/tmp/many")
for number in range(given["count"]):
    open("n%0200d" % number, "w").close()
tell(number)
"""
DEEP_NAMES = """
os.makedirs("/tmp/deep", exist_ok=True)
os.chdir("/tmp/deep")
for _ in range(14):
    os.mkdir("d" * 250)
    os.chdir("d" * 250)
for number in range(given["count"]):
    os.symlink("t" * 3900, "n%0240d" % number)
tell(number)
"""


@falls_without(
    "a read-only folder for the link",
    Removal(
        "container/bundle.py",
        'mount(LINK, "bind", room.link, "bind", "ro", *plain, "noexec")',
        'mount(LINK, "bind", room.link, "bind", *plain, "noexec")',
    ),
)
@falls_without(
    "a socket for one user",
    Removal("room/room.py", 'self.listen("link.sock", uids.USER, 0o600)', 'self.listen("link.sock", uids.USER, 0o666)'),
)
@falls_without(
    "a socket for one call",
    Removal(
        "owner/runtime.py",
        "        finally:\n            listener.detach()\n",
        '        finally:\n            globals().setdefault("kept", []).append(os.dup(listener.detach()))\n',
    ),
)
async def test_the_link_cannot_be_dialled_a_second_time(
    desk: Desk, attack: Attack, settings: Config, init: Init
) -> None:
    told = await attack(desk, DIAL)
    assert told["dial"] == "ECONNREFUSED"
    assert stat.S_ISSOCK(told["mode"])
    assert (stat.S_IMODE(told["mode"]), told["uid"]) == (0o600, 1000)
    assert set(told["write"]) == {"EROFS"}
    outside = os.stat(f"/proc/{init(settings, desk)}/root/run/hotdesk/link.sock")
    assert (stat.S_IMODE(outside.st_mode), outside.st_uid) == (0o600, uid_of(init(settings, desk)))
    folder = os.stat(f"/proc/{init(settings, desk)}/root/run/hotdesk")
    assert (folder.st_uid, stat.S_IMODE(folder.st_mode) & 0o022) == (0, 0)


def uid_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition("Uid:")[2].split()[0])


@pytest.fixture
async def haunted(crafted: Craft, owning: Owning) -> AsyncIterator[Desk]:
    """Yield a desk whose image starts an impostor, through Python, that connects before the guest does."""

    def fill(layer: Path) -> None:
        (layer / "evil").mkdir()
        (layer / "evil/python").write_text(IMPOSTOR)
        (layer / "evil/python").chmod(0o755)

    async with owning(crafted("haunted", fill, python="/evil/python")) as runtime:
        yield await runtime.open(Spec(image="haunted"))


@falls_without(
    "a call from the first process only",
    Removal("owner/runtime.py", 'if get_peer(sock) == (body["caller"], body["uid"]):', "if get_peer(sock):"),
)
async def test_an_impostor_that_connects_first_is_not_taken_for_the_guest(haunted: Desk) -> None:
    assert haunted.home == "/home/user"
    assert (await haunted.run(["true"], timeout=10)).ok
    await haunted.run(["sh", "-c", "until test -s /tmp/impostor; do sleep 0.1; done"], timeout=10)
    assert await haunted.read("/tmp/impostor") == b"hung up on"


@falls_without("a limit for output", Removal("link/process.py", "            data = data[:room]\n", ""))
async def test_a_flood_of_output_does_not_grow_the_owner(desk: Desk) -> None:
    before = reset_peak()
    with anyio.move_on_after(20):
        done = await desk.run(["sh", "-c", "head -c 80000000 /dev/zero; head -c 80000000 /dev/zero >&2"])
    assert done.truncated
    assert len(done.stdout) + len(done.stderr) == 16 * MIB
    assert peak() - before < 96 * MIB


@falls_without(
    "a window for what is not read", Removal("hotdesk_guest/wire.py", "WINDOW = 262144", "WINDOW = 262144 * 32")
)
async def test_unread_output_stays_in_the_desk(desk: Desk) -> None:
    before = reset_peak()
    processes = [await desk.start(["sh", "-c", "yes 0123456789"], stdin=False) for _ in range(40)]
    await anyio.sleep(2)
    assert peak() - before < 64 * MIB
    for process in processes:
        await process.kill()
    assert (await desk.run(["true"], timeout=20)).ok


@falls_without("a limit for output")
async def test_many_concurrent_programs_do_not_grow_the_owner(desk: Desk) -> None:
    before = reset_peak()
    codes: list[int] = []

    async def one(number: int) -> None:
        argv = ["sh", "-c", f"head -c 1000000 /dev/zero; exit {number % 200}"]
        done = await desk.run(argv, timeout=60, output_limit=10_000)
        codes.append(done.exit_code)

    async with anyio.create_task_group() as tasks:
        for number in range(200):
            tasks.start_soon(one, number)
    assert sorted(codes) == sorted(number % 200 for number in range(200))
    assert peak() - before < 96 * MIB


@falls_without(
    "a limit for listings", Removal("link/desk.py", "if count > limit or size > MAX_LISTING_BYTES:", "if count < 0:")
)
async def test_listing_a_huge_folder_is_refused_and_does_not_grow_the_owner(fresh: Open, attack: Attack) -> None:
    async with fresh(Spec(disk_in="memory")) as desk:
        await attack(desk, MANY_NAMES, count=30_001)
        before = reset_peak()
        begun = time.monotonic()
        with pytest.raises(FileError, match="more than 30000 entries"):
            await desk.list("/tmp/many", limit=30_000)
        assert peak() - before < 96 * MIB
        assert time.monotonic() - begun < 30


@falls_without("a limit for listings")
async def test_a_listing_of_long_names_is_limited_in_bytes(fresh: Open, attack: Attack) -> None:
    async with fresh(Spec(disk_in="memory")) as desk:
        await attack(desk, DEEP_NAMES, count=20_000)
        before = reset_peak()
        try:
            await desk.list("/tmp/deep", depth=20)
        except FileError:
            pass  # refusal is one way to stay small
        assert peak() - before < 64 * MIB
