"""Attacks through volumes, to get out or at another's files: by a desk that mounts one, and by tenants who know ids."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from hotdesk.api.keys import ApiKeys
from hotdesk.config import Config
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import HotdeskError
from hotdesk.linux import uids
from tests.e2e.server.conftest import Served, served
from tests.origins import WALLED, Origin
from tests.security.conftest import Attack, Launch, Open
from tests.security.guards import Removal, falls_without, no_guard
from tests.security.volume_room import SIZE, VolumeRoom, open_volume

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

AT = "/home/user/m/data"
FOLLOWING = Removal(
    "volume/files.py",
    "from hotdesk.linux.openat2 import STRICT, openat2",
    "from hotdesk.linux.openat2 import openat2\n\nSTRICT = 0",
)
HOSTILE = """
os.makedirs("/home/user/m/data/d/e")
os.chdir("/home/user/m/data")
open("secret", "w").write("inside")
for name, target in {"up": "..", "root": "/", "proc": "/proc/self/root", "self": ".", "far": "../" * 30,
                     "last": "secret", "loop": "loop"}.items():
    os.symlink(target, name)
os.mkfifo("pipe")
sock = socket.socket(socket.AF_UNIX)
sock.bind("sock")
tell("done")
"""
ORDERS = """
fd = os.open("/home/user/m/data", os.O_RDONLY)
file = os.open("/home/user/m/data/own", os.O_CREAT | os.O_RDWR)
tell({name: attempt(fcntl.ioctl, on, number, bytearray(value)) for name, on, number, value in (
    ("subvolume", fd, 0x5000940e, 4096), ("frozen", fd, 0xc0045877, 4), ("trimmed", fd, 0xc0185879, 24),
    ("shut down", fd, 0x8004587d, 4), ("resized", fd, 0x40086610, 8), ("group added", fd, 0x40286608, 40),
    ("swapped with the boot loader", file, 0x6611, 4), ("renamed", fd, 0x4008662c, 8),
    ("checkpoint", fd, 0x4004662b, 4))} | {
    "immutable": attempt(fcntl.ioctl, file, 0x40086602, struct.pack("l", 0x10)),
    "append only": attempt(fcntl.ioctl, file, 0x40086602, struct.pack("l", 0x20))})
"""
CLIMB = """
fd = os.open(given["at"], os.O_RDONLY)
tell("ready")
while not os.path.exists("/tmp/removed"):
    time.sleep(0.02)
names = []
for _ in range(5):
    up = attempt(os.open, "..", os.O_RDONLY, dir_fd=fd)
    if not isinstance(up, int):
        break
    fd = up
    names.append(sorted(os.listdir(fd)))
with open("/tmp/climbing", "w") as file:
    json.dump({"up": up, "names": names}, file)
os.rename("/tmp/climbing", "/tmp/climbed")
time.sleep(60)
"""
AWAIT = "touch /tmp/removed; while [ ! -s /tmp/climbed ]; do sleep 0.05; done; cat /tmp/climbed"


@pytest.fixture
async def volume(runtime: KeeperRuntime) -> AsyncIterator[VolumeRoom]:
    async with open_volume(runtime) as found:
        yield found


@pytest.fixture
async def desk_with_volume(fresh: Open, volume: VolumeRoom) -> AsyncIterator[Desk]:
    async with fresh(Spec(volumes={AT: volume.id})) as found:
        yield found


@falls_without(
    "volumes: no link is followed",
    FOLLOWING,
    cases="up/files/secret | root/files/secret | self/secret",
)
@falls_without(
    "volumes: the last name is not followed either",
    FOLLOWING,
    Removal("volume/files.py", "_PLAIN = os.O_RDONLY | os.O_NOFOLLOW |", "_PLAIN = os.O_RDONLY |"),
    cases="last",
)
@no_guard(
    "the process has nothing but the volume: these lead nowhere in it",
    cases="far/etc/passwd | proc/etc/passwd | loop/x",
)
@pytest.mark.parametrize(
    "path",
    [
        "up/files/secret",
        "last",
        *(
            pytest.param(path, marks=pytest.mark.long)
            for path in ("root/files/secret", "self/secret", "far/etc/passwd", "proc/etc/passwd", "loop/x")
        ),
    ],
)
async def test_the_content_api_follows_no_link_of_a_desk(
    desk_with_volume: Desk, volume: VolumeRoom, attack: Attack, path: str
) -> None:
    await attack(desk_with_volume, HOSTILE)
    assert volume.call("read", "/secret") == (200, b"inside")
    assert volume.call("read", f"/{path}")[0] == 400
    assert volume.call("write", f"/{path}/x", b"planted", force=True)[0] in (400, 404)
    assert volume.call("list", f"/{path}")[0] in (400, 404)


@falls_without(
    "volumes: nobody waits for a pipe",
    Removal("volume/files.py", "| os.O_NONBLOCK | os.O_NOCTTY", "| os.O_NOCTTY"),
)
async def test_the_content_api_opens_no_special_file(
    desk_with_volume: Desk, volume: VolumeRoom, attack: Attack, origin: Origin
) -> None:
    await attack(desk_with_volume, HOSTILE)
    refused = 404 if origin is WALLED["gvisor"] else 400  # a sentry keeps pipes and sockets to itself
    assert [volume.call("read", path)[0] for path in ("/pipe", "/sock", "/d")] == [refused, refused, 400]
    assert [volume.call("change", path, mode=0o777)[0] for path in ("/pipe", "/sock")] == [refused, refused]


@falls_without(
    "volumes: a process of few rights",
    Removal("volume/process.py", "    landlock.drop_capabilities(CAPABILITIES)\n", ""),
)
@falls_without(
    "volumes: few system calls",
    Removal(
        "volume/process.py",
        "    jail.install(program)\n    together.wait()\n    while True:\n        data",
        "    together.wait()\n    while True:\n        data",
    ),
)
@falls_without("volumes: nobody outside", Removal("volume/process.py", "    os.setresuid(0, 0, 0)\n", ""))
async def test_the_process_that_reads_a_volume_is_confined_to_it(volume: VolumeRoom) -> None:
    assert volume.call("list", "/") == (200, [])
    pid = volume.pid
    for task in os.listdir(f"/proc/{pid}/task"):
        lines = Path(f"/proc/{pid}/task/{task}/status").read_text().splitlines()
        status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
        assert status["Uid"].split() == [str(uids.VOLUMES)] * 4
        assert (status["CapEff"], status["CapBnd"]) == ("000000000000001b",) * 2
        assert (status["NoNewPrivs"], status["Seccomp"], status["Groups"]) == ("1", "2", "")
    for kind in ("mnt", "net", "user"):
        assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")


@falls_without(
    "volumes: one volume is all there is",
    Removal("volume/process.py", "    syscalls.pivot_root(at)\n", "    os.chdir(at)\n"),
    Removal("volume/process.py", '("/files", "/staging")', '("files", "staging")'),
)
async def test_the_process_that_reads_a_volume_sees_no_other_files(volume: VolumeRoom) -> None:
    assert volume.call("list", "/") == (200, [])
    assert sorted(os.listdir(f"/proc/{volume.pid}/root")) == ["files", "staging"]


@no_guard("the kernel asks for capabilities over the host's own user namespace, or ext4 knows no such order")
async def test_no_ioctl_changes_the_file_system_of_a_volume(desk_with_volume: Desk, attack: Attack) -> None:
    told = await attack(desk_with_volume, ORDERS)
    assert set(told.values()) <= {"EPERM", "ENOTTY", "EOPNOTSUPP", "EACCES", "EINVAL", "EBADF"}, told


@no_guard("the kernel resolves no `..` from a directory that was moved out of what is mounted")
async def test_a_desk_cannot_climb_out_of_a_removed_directory(
    desk_with_volume: Desk, volume: VolumeRoom, attack: Attack, launch: Launch, origin: Origin
) -> None:
    await attack(desk_with_volume, HOSTILE)
    process, word = await launch(desk_with_volume, CLIMB, at=f"{AT}/d")
    assert word == "ready"
    assert volume.call("remove", "/d")[0] in (204, 409)
    done = await desk_with_volume.run(["sh", "-c", AWAIT])
    await process.kill()
    found = json.loads(done.stdout)
    if origin is not WALLED["gvisor"]:  # a sentry resolves `..` itself, in the tree that the desk sees
        assert found["up"] in ("ENOENT", "EACCES"), found
    assert "staging" not in str(found["names"])


@falls_without(
    "volumes: mount points are no links",
    Removal("room/volume_store.py", "os.O_DIRECTORY | os.O_NOFOLLOW, STRICT)", "os.O_DIRECTORY, 0)"),
    Removal("container/wall.py", "        prove.check_mounts(pid, room.spec.volumes)\n", ""),
)
async def test_a_restarted_desk_cannot_move_its_volume(
    desk_with_volume: Desk,
) -> None:
    done = await desk_with_volume.run(["sh", "-c", "cd /home/user && mv m n && mkdir -p evil/data && ln -s evil m"])
    assert done.ok, done.stderr
    await desk_with_volume.pause(memory=False)
    with pytest.raises(HotdeskError, match="link"):
        await desk_with_volume.resume()


@falls_without(
    "volumes: a size",
    Removal("room/volume_store.py", "os.ftruncate(fd, size)\n", "os.ftruncate(fd, 4 * size)\n"),
)
async def test_a_desk_cannot_fill_more_than_its_volume(
    desk_with_volume: Desk, volume: VolumeRoom, settings: Config
) -> None:
    fill = f"head -c 200M /dev/zero > {AT}/big; i=0; while echo > {AT}/$i 2>/dev/null; do i=$((i+1)); done; echo $i"
    done = await desk_with_volume.run(["sh", "-c", fill], timeout=50)
    assert int(done.text) < SIZE >> 12
    (file,) = (settings.lib / "volumes").glob(f"{volume.id}.ext4")
    assert file.stat().st_size == SIZE
    assert file.stat().st_blocks * 512 <= SIZE + (1 << 20)


@falls_without("volumes: no rights by files", Removal("volume/files.py", "MAX_MODE = 0o1777\n", "MAX_MODE = 0o7777\n"))
async def test_no_file_of_a_volume_grants_rights(desk_with_volume: Desk, volume: VolumeRoom, origin: Origin) -> None:
    assert volume.call("write", "/tool", b"#!/bin/sh\n", mode=0o4755)[0] == 400
    if origin is WALLED["gvisor"]:  # a sentry shows no such option, and gives no program the rights of its file
        return
    shown = (await desk_with_volume.run(["grep", AT, "/proc/self/mountinfo"])).text.split()[5].split(",")
    assert {"nosuid", "nodev"} <= set(shown)


# -- tenants ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    config = '[serve]\nvolume_size = "32M"\nready = {}\n'
    with served(home / f"volume-tenants-{time.monotonic_ns()}", config=config) as found:
        yield found


@pytest.fixture(scope="module")
def theirs(server: Served) -> Iterator[dict[str, str]]:
    """Yield the attacked tenant's volume, which must still exist in the end."""
    headers = {"X-API-Key": server.key}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as api:
        made = api.post("/volumes", json={"name": "theirs"}).raise_for_status().json()
        yield made
        assert [each["name"] for each in api.get("/volumes").json()] == ["theirs"]
        assert api.delete(f"/volumes/{made['volumeID']}").status_code == 204


@pytest.fixture(scope="module")
def eve(server: Served, theirs: dict[str, str]) -> Iterator[httpx.Client]:
    headers = {"X-API-Key": ApiKeys(server.settings.lib / "serve").make("eve", "other")}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as made:
        yield made


@falls_without(
    "volumes: each for its tenant",
    Removal("volumes/registry.py", "if record is None or name != tenant or not", "if record is None or not"),
    cases="shown | mounted | copied | destroyed",
)
@no_guard("a list is made of the tenant's own", cases="mounted by name")
@pytest.mark.parametrize("act", ["shown", "mounted", "mounted by name", "copied", "destroyed"])
def test_another_tenants_volume_is_reported_as_unknown(eve: httpx.Client, theirs: dict[str, str], act: str) -> None:
    volume = theirs["volumeID"]

    def mount(name: str) -> dict[str, object]:
        return {"templateID": "base", "volumeMounts": [{"name": name, "path": "/data"}]}

    answer = {
        "shown": lambda: eve.get(f"/volumes/{volume}"),
        "destroyed": lambda: eve.delete(f"/volumes/{volume}"),
        "mounted": lambda: eve.post("/v2/sandboxes", json=mount(volume)),
        "mounted by name": lambda: eve.post("/v2/sandboxes", json=mount("theirs")),
        "copied": lambda: eve.post("/volumes", json={"name": "mine", "source": volume}),
    }[act]()
    assert (answer.status_code, theirs["token"] in answer.text) == (404, False)
    assert eve.get("/volumes").json() == []


@falls_without(
    "volumes: the token is asked for",
    Removal("volumes/content.py", "or not right or kind", "or kind"),
    cases="another's | a guess | a key",
)
@no_guard("without a word there is no token", cases="none")
@pytest.mark.parametrize("shown", ["another's", "a guess", "a key", "none"])
def test_files_of_a_volume_require_its_token(
    server: Served, eve: httpx.Client, theirs: dict[str, str], shown: str
) -> None:
    own = eve.post("/volumes", json={"name": f"own-{shown.replace(' ', '-').replace(chr(39), '')}"}).json()
    token = {"another's": own["token"], "a guess": "0" * 64, "a key": server.key, "none": ""}[shown]
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    asked = httpx.get(f"{server.url}/volumecontent/{theirs['volumeID']}/dir?path=/", headers=headers)
    assert (asked.status_code, asked.json()["code"]) == (401, 401)
    assert eve.delete(f"/volumes/{own['volumeID']}").status_code == 204
