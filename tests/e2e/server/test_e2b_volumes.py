"""Tests of volumes with E2B's own SDK, sync and async: created, mounted, read, written, shared, limited, destroyed."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import httpx
import pytest
from e2b import (
    AsyncSandbox,
    AsyncVolume,
    AuthenticationException,
    NotFoundException,
    Sandbox,
    SandboxException,
    Volume,
    VolumeException,
)
from e2b.exceptions import RateLimitException, VolumeNotFoundException, VolumePathNotFoundException

from hotdesk.api.keys import ApiKeys
from tests.conftest import settings_in
from tests.e2e.conftest import PROGRAM, environment
from tests.e2e.server.conftest import PATIENCE, Served, served, wait
from tests.leftovers import keepers
from tests.stall_watch import WATCHED, require_no_stalls

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
T = TypeVar("T")
JS_SDK = "2.51.0"
CONFIG = """
[serve]
volume_size = "64M"
ready = {}

[serve.quota.small]
disk = "150M"
"""


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    with served(home / f"volumes-{time.monotonic_ns()}", config=CONFIG) as found:
        yield found


@pytest.fixture(autouse=True)
def _content_url(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E2B_VOLUME_API_URL", server.url)


@pytest.fixture
def volume(server: Served) -> Iterator[Volume]:
    made = Volume.create(f"v{time.monotonic_ns()}", **server.e2b)
    yield made
    Volume.destroy(made.volume_id, **server.e2b)


@contextmanager
def mounted(server: Served, volume: Volume | str, path: str = "/data") -> Iterator[Sandbox]:
    sandbox = Sandbox.create(volume_mounts={path: volume}, **server.e2b)
    try:
        yield sandbox
    finally:
        sandbox.kill()


def test_a_volume_is_created_listed_found_and_destroyed(server: Served) -> None:
    made = Volume.create("models", **server.e2b)
    assert (made.name, len(str(made.token))) == ("models", 64)
    assert [(each.volume_id, each.name) for each in Volume.list(**server.e2b)] == [(made.volume_id, "models")]
    info = Volume.get_info(made.volume_id, **server.e2b)
    assert (info.name, info.token) == ("models", made.token)
    again = Volume.connect(made.volume_id, **server.e2b)
    again.write_file("/kept.txt", "still here")
    assert made.read_file("/kept.txt") == "still here"
    with pytest.raises(VolumeException, match="409"):
        Volume.create("models", **server.e2b)
    assert Volume.destroy(made.volume_id, **server.e2b) is True
    assert Volume.destroy(made.volume_id, **server.e2b) is False
    assert Volume.list(**server.e2b) == []
    assert list((server.settings.lib / "volumes").iterdir()) == []
    with pytest.raises(VolumeNotFoundException):
        Volume.get_info(made.volume_id, **server.e2b)
    with pytest.raises(VolumeNotFoundException):
        Volume.connect(made.volume_id, **server.e2b)
    with pytest.raises(AuthenticationException):
        made.read_file("/kept.txt")


@pytest.mark.parametrize("name", ["", "a/b", "../x", "-x", "x" * 129, "a b"])
def test_an_invalid_name_is_refused(server: Served, name: str) -> None:
    with pytest.raises(VolumeException, match="400"):
        Volume.create(name, **server.e2b)


def test_volumes_need_a_key(server: Served) -> None:
    wrong = {**server.e2b, "api_key": f"e2b_{'0' * 40}"}
    with pytest.raises(AuthenticationException):
        Volume.list(**wrong)
    with pytest.raises(AuthenticationException):
        Volume.destroy("x", **wrong)


def test_files_are_written_read_described_and_removed(volume: Volume) -> None:
    entry = volume.write_file("/a.txt", "hällo")
    assert (entry.name, entry.path, entry.type, entry.size, entry.uid, entry.mode) == (
        "a.txt", "/a.txt", "file", 6, 1000, 0o644,
    )  # fmt: skip
    assert volume.read_file("/a.txt") == "hällo"
    assert volume.read_file("/a.txt", format="bytes") == "hällo".encode()
    assert b"".join(volume.read_file("/a.txt", format="stream")) == "hällo".encode()
    volume.write_file("/b.bin", io.BytesIO(bytes(range(256)) * 40000), mode=0o600, uid=0, gid=0)
    assert volume.read_file("/b.bin", format="bytes") == bytes(range(256)) * 40000
    assert (volume.get_info("/b.bin").mode, volume.get_info("/b.bin").uid) == (0o600, 0)
    assert volume.make_dir("/x/y", force=True).type == "directory"
    volume.write_file("/x/y/z", "deep")
    assert [each.path for each in volume.list("/")] == ["/a.txt", "/b.bin", "/x"]
    assert [each.path for each in volume.list("/", depth=3)] == ["/a.txt", "/b.bin", "/x", "/x/y", "/x/y/z"]
    assert volume.update_metadata("/a.txt", mode=0o400, uid=0).mode == 0o400
    assert volume.exists("/a.txt")
    volume.remove("/x")
    volume.remove("/a.txt")
    assert not volume.exists("/a.txt")
    assert [each.name for each in volume.list("/")] == ["b.bin"]


@pytest.mark.parametrize(
    ("asked", "status", "part", "told"),
    [
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"), ("bytes=10-", 416, None, None),
        ("bytes=-", 200, b"0123456789", None),
    ],
)  # fmt: skip
def test_a_part_of_a_file_is_read(
    server: Served, volume: Volume, asked: str, status: int, part: bytes | None, told: str | None
) -> None:
    volume.write_file("/r", "0123456789")
    url = f"{server.url}/volumecontent/{volume.volume_id}/file"
    headers = {"Authorization": f"Bearer {volume.token}", "Range": asked}
    answer = httpx.get(url, params={"path": "/r"}, headers=headers, timeout=60)
    assert (answer.status_code, answer.headers.get("content-range")) == (status, told), answer.text
    if part is not None:
        assert (answer.content, answer.headers["accept-ranges"]) == (part, "bytes")


def test_missing_files_are_reported_as_the_sdk_expects(volume: Volume) -> None:
    with pytest.raises(VolumePathNotFoundException):
        volume.read_file("/none")
    with pytest.raises(VolumePathNotFoundException):
        list(volume.read_file("/none", format="stream"))
    with pytest.raises(VolumePathNotFoundException):
        volume.get_info("/none")
    with pytest.raises(VolumePathNotFoundException):
        volume.list("/none")
    with pytest.raises(VolumePathNotFoundException):
        volume.remove("/none")
    with pytest.raises(VolumePathNotFoundException):
        volume.update_metadata("/none", mode=0o600)
    with pytest.raises(VolumePathNotFoundException):
        volume.write_file("/none/a", "x")
    with pytest.raises(VolumePathNotFoundException):
        volume.make_dir("/none/a")
    with pytest.raises(VolumeException, match="400"):
        volume.read_file("/")
    with pytest.raises(VolumeException, match="400"):
        volume.write_file("/a", "x", uid=5000)
    with pytest.raises(AuthenticationException):
        volume.exists("/a", token="wrong")


def test_a_file_outlives_the_sandbox_that_wrote_it(server: Served, volume: Volume) -> None:
    with mounted(server, volume) as sandbox:
        assert sandbox.get_info().volume_mounts == [{"name": volume.name, "path": "/data"}]
        sandbox.commands.run("mkdir /data/d && echo one > /data/d/file && ln -s d/file /data/link")
        assert volume.read_file("/d/file") == "one\n"
        volume.write_file("/from-outside", "two")
        assert sandbox.commands.run("cat /data/from-outside; stat -c %U /data/from-outside").stdout == "twouser\n"
        assert sandbox.files.read("/data/d/file") == "one\n"
        sandbox.files.write("/data/by-envd", "three")
    with mounted(server, volume.name, "/home/user/other") as sandbox:
        assert sandbox.commands.run("cat other/d/file other/link other/by-envd").stdout == "one\none\nthree"
    assert volume.get_info("/link").target == "d/file"


@pytest.mark.long
def test_sandboxes_share_a_volume_as_programs_of_one_machine_share_a_file_system(
    server: Served, volume: Volume
) -> None:
    add = "for i in $(seq 200); do (flock 9; echo $(($(cat /data/n) + 1)) > /data/n) 9>>/data/lock; done"
    volume.write_file("/n", "0")
    with mounted(server, volume) as one, mounted(server, volume) as two, ThreadPoolExecutor() as threads:
        list(threads.map(lambda each: each.commands.run(add, timeout=60), (one, two)))
        assert one.commands.run("cat /data/n").stdout == two.commands.run("cat /data/n").stdout == "400\n"
    assert volume.read_file("/n") == "400\n"


@pytest.mark.long
def test_concurrent_uploads_leave_one_whole_file(volume: Volume) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda word: volume.write_file("/a", word * 100_000), "abcdefgh"))
    found = volume.read_file("/a")
    assert (len(found), len(set(found))) == (100_000, 1)
    assert [each.name for each in volume.list("/")] == ["a"]


def test_a_volume_ends_at_its_size(server: Served, volume: Volume) -> None:
    with pytest.raises(VolumeException, match="507"):
        volume.write_file("/big", b"x" * (80 << 20))
    assert volume.list("/") == []
    with mounted(server, volume) as sandbox:
        full = sandbox.commands.run("head -c 80M /dev/zero > /data/big || df --output=size -B1M /data | tail -1")
        assert 40 < int(full.stdout) <= 64
        sandbox.commands.run("rm /data/big")
    volume.write_file("/small", "fits")


def test_volumes_count_against_the_disk_quota(server: Served) -> None:
    options = {**server.e2b, "api_key": ApiKeys(server.settings.lib / "serve").make("small", "small")}
    made = [Volume.create(name, **options) for name in ("one", "two")]
    with pytest.raises(RateLimitException, match="bytes of disk"):
        Volume.create("three", **options)
    assert Volume.destroy(made[0].volume_id, **options)
    made.append(Volume.create("three", **options))
    for each in made[1:]:
        assert Volume.destroy(each.volume_id, **options)


def test_a_volume_in_use_is_not_destroyed(server: Served, volume: Volume) -> None:
    with mounted(server, volume) as sandbox:
        with pytest.raises(VolumeException, match=f"409.*{sandbox.sandbox_id}"):
            Volume.destroy(volume.volume_id, **server.e2b)
        sandbox.pause()
        with pytest.raises(VolumeException, match="409"):
            Volume.destroy(volume.volume_id, **server.e2b)
        sandbox.connect()
        assert sandbox.commands.run("touch /data/still").exit_code == 0


@pytest.mark.long
@pytest.mark.parametrize("memory", [True, False], ids=["with memory", "files alone"])
def test_a_volume_stays_mounted_over_a_pause(server: Served, volume: Volume, memory: bool) -> None:
    with mounted(server, volume) as sandbox:
        sandbox.commands.run("echo before > /data/a")
        body = {} if memory else {"memory": False}
        headers = {"X-API-Key": server.key}
        paused = httpx.post(f"{server.url}/sandboxes/{sandbox.sandbox_id}/pause", json=body, headers=headers)
        assert paused.status_code == 204
        volume.write_file("/b", "meanwhile")
        sandbox.connect()
        assert sandbox.commands.run("cat /data/a /data/b").stdout == "before\nmeanwhile"


@pytest.mark.long
def test_a_fork_shares_the_volume_and_a_snapshot_has_nothing_of_it(server: Served, volume: Volume) -> None:
    with mounted(server, volume) as sandbox:
        sandbox.commands.run("echo shared > /data/a")
        (fork,) = sandbox.fork()
        assert isinstance(fork, Sandbox)
        fork.commands.run("echo too >> /data/a")
        assert sandbox.commands.run("cat /data/a").stdout == "shared\ntoo\n"
        fork.kill()
        snapshot = sandbox.create_snapshot()
    later = Sandbox.create(snapshot.snapshot_id, **server.e2b)
    assert later.commands.run("ls -A /data").stdout == ""
    later.kill()
    assert Sandbox.delete_snapshot(snapshot.snapshot_id, **server.e2b)


def test_a_volume_begins_with_the_files_of_another(server: Served, volume: Volume) -> None:
    volume.write_file("/a", "as it was")
    with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=60) as api:
        with mounted(server, volume):
            busy = api.post("/volumes", json={"name": "copy", "source": volume.name})
            assert (busy.status_code, busy.json()["code"]) == (409, 409)
        answer = api.post("/volumes", json={"name": "copy", "source": volume.name})
        assert answer.status_code == 201, answer.text
        assert api.post("/volumes", json={"name": "other", "source": "nobodys"}).status_code == 404
    copy = Volume.connect(answer.json()["volumeID"], **server.e2b)
    volume.write_file("/a", "changed")
    assert copy.read_file("/a") == "as it was"
    assert Volume.destroy(copy.volume_id, **server.e2b)


@pytest.mark.parametrize("path", ["/proc/x", "/etc", "relative", "/a/../b", "/", "/run/hotdesk"])
def test_no_volume_is_mounted_over_the_system(server: Served, volume: Volume, path: str) -> None:
    with pytest.raises(SandboxException, match="400"):
        Sandbox.create(volume_mounts={path: volume}, **server.e2b)


def test_a_volume_that_is_not_there_is_not_mounted(server: Served) -> None:
    with pytest.raises((NotFoundException, SandboxException), match=r"404|not found"):
        Sandbox.create(volume_mounts={"/data": "nobodys"}, **server.e2b)
    assert Sandbox.list(**server.e2b).next_items() == []


@pytest.mark.long
@pytest.mark.gvisor
def test_a_volume_is_shared_by_desks_behind_different_walls(server: Served, volume: Volume) -> None:
    with mounted(server, volume) as one:
        two = Sandbox.create("base@gvisor", volume_mounts={"/mnt/v": volume.name}, **server.e2b)
        try:
            assert "gVisor" in two.commands.run("dmesg || true", user="root").stdout
            one.commands.run("echo container > /data/a; mkdir /data/d; mkfifo /data/pipe")
            two.commands.run("cat /mnt/v/a > /mnt/v/d/b; echo gvisor >> /mnt/v/d/b; chmod 600 /mnt/v/d/b")
            assert one.commands.run("cat /data/d/b; stat -c '%U %a' /data/d/b").stdout == (
                "container\ngvisor\nuser 600\n"
            )
            assert volume.read_file("/d/b") == "container\ngvisor\n"
            volume.write_file("/d/b", "replaced")
            assert two.commands.run("cat /mnt/v/d/b").stdout == "replaced"
            full = two.commands.run("head -c 80M /dev/zero > /mnt/v/big || rm /mnt/v/big; df -m /mnt/v | tail -1")
            assert int(full.stdout.split()[1]) <= 64
            two.pause()
            two.connect()
            assert two.commands.run("cat /mnt/v/a").stdout == "container\n"
        finally:
            two.kill()


def test_changes_of_volumes_are_in_the_journal(server: Served, volume: Volume) -> None:
    with mounted(server, volume) as sandbox:
        pass
    headers = {"Authorization": f"Bearer {server.key}"}
    listed = httpx.get(f"{server.url}/api/v1/journal", params={"limit": 1000}, headers=headers)
    rows = [row["data"] for row in listed.json()["items"] if row["name"] == "VolumeChanged"]
    mine = [(row["what"], row["desk"], row["path"], row["by"][:4]) for row in rows if row["volume"] == volume.volume_id]
    assert sorted(mine) == [("made", "", "", "test"), ("mounted", sandbox.sandbox_id, "/data", "test")]


async def test_the_asynchronous_sdk_has_volumes_too(server: Served) -> None:
    with pytest.raises(VolumeException, match="400"):
        await AsyncVolume.create("a/b", **server.e2b)
    volume = await AsyncVolume.create("async", **server.e2b)
    again = await AsyncVolume.connect(volume.volume_id, **server.e2b)
    assert (again.name, again.volume_id, again.token) == (volume.name, volume.volume_id, volume.token)
    assert "async" in [each.name for each in await AsyncVolume.list(**server.e2b)]
    await again.make_dir("/d")
    await again.write_file("/d/a", "text")
    assert await volume.read_file("/d/a") == "text"
    assert b"".join([part async for part in await volume.read_file("/d/a", format="stream")]) == b"text"
    assert (await volume.update_metadata("/d/a", mode=0o600)).mode == 0o600
    assert (await volume.get_info("/d/a")).size == 4
    assert [each.path for each in await volume.list("/", depth=2)] == ["/d", "/d/a"]
    async with await AsyncSandbox.create(volume_mounts={"/data": volume}, **server.e2b) as sandbox:
        assert (await sandbox.commands.run("cat /data/d/a", user="root")).stdout == "text"
    await volume.remove("/d")
    assert not await volume.exists("/d")
    with pytest.raises(AuthenticationException):
        await volume.exists("/d", token="wrong")
    with pytest.raises(VolumePathNotFoundException):
        await volume.read_file("/d/a")
    with pytest.raises(VolumePathNotFoundException):
        await volume.write_file("/d/a", "x")
    with pytest.raises(VolumePathNotFoundException):
        await volume.make_dir("/d/a")
    with pytest.raises(VolumePathNotFoundException):
        await volume.update_metadata("/d", mode=0o700)
    with pytest.raises(VolumePathNotFoundException):
        await volume.get_info("/d")
    with pytest.raises(VolumePathNotFoundException):
        await volume.list("/d")
    with pytest.raises(VolumePathNotFoundException):
        await volume.remove("/d")
    assert await AsyncVolume.destroy(volume.volume_id, **server.e2b)
    wrong = {**server.e2b, "api_key": f"e2b_{'0' * 40}"}
    with pytest.raises(AuthenticationException):
        await AsyncVolume.destroy(volume.volume_id, **wrong)
    with pytest.raises(AuthenticationException):
        await AsyncVolume.list(**wrong)
    with pytest.raises(VolumeNotFoundException):
        await AsyncVolume.connect(volume.volume_id, **server.e2b)


@pytest.mark.long
def test_a_volume_survives_its_keeper_and_its_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = home / f"survivor-{time.monotonic_ns()}"
    config = CONFIG.replace("[serve]\n", '[serve]\nshutdown = "leave"\nwall = "container"\n')
    with served(folder, config=config) as first:
        monkeypatch.setenv("E2B_VOLUME_API_URL", first.url)
        volume = Volume.create("stays", **first.e2b)
        volume.write_file("/a", "one")
        for pid in keepers(folder):
            os.kill(pid, signal.SIGKILL)
        sandbox = await_keeper(lambda: Sandbox.create(volume_mounts={"/data": volume}, **first.e2b))
        assert await_keeper(lambda: volume.read_file("/a")) == "one"
        sandbox.commands.run("echo two > /data/b; echo own > /home/user/own")
    with again(folder, first.key) as second:
        options = {**second.e2b}
        monkeypatch.setenv("E2B_VOLUME_API_URL", second.url)
        found = Volume.connect(volume.volume_id, **options)
        assert (found.token, found.read_file("/b")) == (volume.token, "two\n")
        with pytest.raises(VolumeException, match="409"):
            Volume.destroy(volume.volume_id, **options)
        later = Sandbox.connect(sandbox.sandbox_id, **options)
        assert later.commands.run("cat /data/a /data/b own").stdout == "onetwo\nown\n"
        assert later.get_info().volume_mounts == [{"name": "stays", "path": "/data"}]
        later.kill()
        assert Volume.destroy(volume.volume_id, **options)


def await_keeper(work: Callable[[], T]) -> T:
    end = time.monotonic() + 60
    while True:
        try:
            return work()
        except (VolumeException, SandboxException):
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


@contextmanager
def again(folder: Path, key: str) -> Iterator[Served]:
    settings, log = settings_in(folder), folder / "again.log"
    with log.open("wb") as written:
        source = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        argv = [PROGRAM, "serve", "--port", "0"]
        process = subprocess.Popen(argv, stderr=written, env={**environment(settings), **source, **WATCHED})
    try:
        yield Served(wait(process, log), key, settings, process, log)
    finally:
        process.terminate()
        process.wait(PATIENCE)
        require_no_stalls(log)


@pytest.mark.long
def test_the_javascript_sdk_has_volumes_and_secrets(server: Served, tmp_path: Path) -> None:
    install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(tmp_path), f"e2b@{JS_SDK}"]
    subprocess.run(install, check=True, capture_output=True, timeout=100)
    program = tmp_path / "volumes.mjs"
    program.write_text((Path(__file__).parent / "volumes.mjs").read_text())
    urls = dict.fromkeys(("E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL"), server.url)
    env = {**os.environ, **urls, "E2B_API_KEY": server.key}
    done = subprocess.run(["node", str(program)], check=False, capture_output=True, text=True, env=env, timeout=100)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 16), done.stderr
