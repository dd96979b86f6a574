"""Tests of `files` of E2B's own SDK and signed URLs, sync and async, at this server."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator

import httpx
import pytest
from e2b import (
    AsyncSandbox,
    AuthenticationException,
    FileNotFoundException,
    FileType,
    InvalidArgumentException,
    NotEnoughSpaceException,
    Sandbox,
)
from e2b.sandbox.filesystem.filesystem import WriteEntry

from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def sandbox(server: Served) -> Iterator[Sandbox]:
    made = Sandbox.create(envs={"GIVEN": "here"}, **server.e2b)
    yield made
    made.kill()


def own(server: Served, sandbox: Sandbox) -> dict[str, str]:
    return {"E2b-Sandbox-Id": sandbox.sandbox_id, "X-Access-Token": str(sandbox._envd_access_token)}


@pytest.mark.parametrize("gzip", [False, True])
@pytest.mark.parametrize("octets", [False, True])
def test_a_written_file_is_read_back(sandbox: Sandbox, gzip: bool, octets: bool) -> None:
    name = f"w/{gzip}-{octets}.txt"
    info = sandbox.files.write(name, "hä?\n" * 1000, gzip=gzip, use_octet_stream=octets or gzip)
    assert (info.name, info.path) == (f"{gzip}-{octets}.txt", f"/home/user/{name}")
    assert sandbox.files.read(name, gzip=gzip) == "hä?\n" * 1000


def test_a_file_is_read_as_text_bytes_and_stream(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * 2000
    sandbox.files.write("bytes", data)
    assert bytes(sandbox.files.read("bytes", format="bytes")) == data
    assert b"".join(sandbox.files.read("bytes", format="stream")) == data


def test_a_stream_is_written_as_it_comes(sandbox: Sandbox) -> None:
    sandbox.files.write("stream", iter([b"a" * 100_000, b"b" * 100_000]))
    sandbox.files.write("file", io.BytesIO(b"c" * 200_000))
    assert sandbox.files.read("stream") == "a" * 100_000 + "b" * 100_000
    assert sandbox.files.get_info("file").size == 200_000


def test_many_files_go_where_their_names_say(sandbox: Sandbox) -> None:
    wanted = [WriteEntry(path=f"/home/user/many/{n}/deep.txt", data=str(n)) for n in range(3)]
    told = sandbox.files.write_files(wanted)
    assert [one.path for one in told] == [one["path"] for one in wanted]
    assert [sandbox.files.read(one["path"]) for one in wanted] == ["0", "1", "2"]
    assert sandbox.files.write_files([]) == []


def test_a_written_file_belongs_to_its_user(sandbox: Sandbox) -> None:
    sandbox.files.write("/opt/mine/file", "x")
    sandbox.files.write("/etc/theirs", "x", user="root")
    found = sandbox.commands.run("stat -c '%U:%G %a' /opt/mine /opt/mine/file /etc/theirs").stdout
    assert found.splitlines() == ["user:user 755", "user:user 644", "root:root 644"]


def test_root_and_user_have_homes_of_their_own(sandbox: Sandbox) -> None:
    assert sandbox.files.write("~/x", "r", user="root").path == "/root/x"
    assert sandbox.files.read("/root/x") == "r"


def test_a_file_in_proc_is_read(sandbox: Sandbox) -> None:
    assert "MemTotal" in sandbox.files.read("/proc/meminfo")


def test_metadata_of_a_file_stays_until_it_is_written_again(sandbox: Sandbox) -> None:
    assert sandbox.files.write("noted", "x", metadata={"Who": "me"}).metadata == {"who": "me"}
    assert sandbox.files.get_info("noted").metadata == {"who": "me"}
    assert [one.metadata for one in sandbox.files.list(".") if one.name == "noted"] == [{"who": "me"}]
    sandbox.files.write("noted", "y")
    assert not sandbox.files.get_info("noted").metadata


@pytest.mark.parametrize("path", ["/nowhere/file", "nothing"])
def test_missing_things_are_not_found(sandbox: Sandbox, path: str) -> None:
    for act in (sandbox.files.read, sandbox.files.get_info, sandbox.files.list):
        with pytest.raises(FileNotFoundException, match="does not exist"):
            act(path)
    with pytest.raises(FileNotFoundException):
        sandbox.files.rename(path, "there")
    assert not sandbox.files.exists(path)


def test_a_folder_has_a_size_as_on_ext4(sandbox: Sandbox) -> None:
    sandbox.files.make_dir("sized/below")
    listed = [one for one in sandbox.files.list(".") if one.name == "sized"]
    assert [one.size for one in (*listed, sandbox.files.get_info("sized/below"))] == [4096, 4096]


def test_a_folder_is_no_file(sandbox: Sandbox) -> None:
    sandbox.files.make_dir("folder")
    with pytest.raises(InvalidArgumentException, match="is a directory"):
        sandbox.files.read("folder")
    with pytest.raises(InvalidArgumentException, match="is a directory"):
        sandbox.files.write("folder", "x")


def test_a_file_is_no_folder(sandbox: Sandbox) -> None:
    sandbox.files.write("plain", "x")
    with pytest.raises(InvalidArgumentException, match="not a directory"):
        sandbox.files.list("plain")
    with pytest.raises(InvalidArgumentException, match="not a directory"):
        sandbox.files.make_dir("plain")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.write("plain/below", "x")


def test_a_full_disk_is_reported(sandbox: Sandbox) -> None:
    with pytest.raises(NotEnoughSpaceException):
        sandbox.files.write("/run/large", b"x" * (20 << 20))
    sandbox.files.remove("/run/large")
    assert sandbox.files.write("after", "x").name == "after"


def test_a_folder_is_made_once(sandbox: Sandbox) -> None:
    assert sandbox.files.make_dir("a/b/c")
    assert not sandbox.files.make_dir("a/b/c")
    assert sandbox.commands.run("stat -c %U:%a a a/b a/b/c").stdout == "user:755\n" * 3


def test_a_path_is_described(sandbox: Sandbox) -> None:
    sandbox.files.write("/home/user/d/f", "12345")
    info = sandbox.files.get_info("d/f")
    assert (info.name, info.type, info.path, info.size) == ("f", FileType.FILE, "/home/user/d/f", 5)
    assert (info.mode, info.permissions, info.owner, info.group) == (0o644, "-rw-r--r--", "user", "user")
    assert info.symlink_target is None
    assert abs(info.modified_time.timestamp() - time.time()) < 300
    folder = sandbox.files.get_info("d")
    assert (folder.type, folder.permissions) == (FileType.DIR, "drwxr-xr-x")
    assert sandbox.files.exists("d")


def test_a_link_is_described_by_its_target(sandbox: Sandbox) -> None:
    sandbox.commands.run("mkdir -p l && echo x > l/real && chmod 600 l/real && ln -s real l/link && ln -s /none l/lost")
    info = sandbox.files.get_info("l/link")
    assert (info.type, info.mode, info.symlink_target) == (FileType.FILE, 0o600, "/home/user/l/real")
    assert [one.name for one in sandbox.files.list("l")] == ["link", "real"]
    assert sandbox.files.read("l/link") == "x\n"


def test_a_folder_is_listed_to_the_requested_depth(sandbox: Sandbox) -> None:
    sandbox.commands.run("mkdir -p t/b/c t/a && touch t/b/c/f t/z && ln -s /home/user/t /home/user/to")
    assert [one.path for one in sandbox.files.list("t")] == [f"/home/user/t/{n}" for n in ("a", "b", "z")]
    assert [one.name for one in sandbox.files.list("t", depth=2)] == ["a", "b", "c", "z"]
    assert [one.name for one in sandbox.files.list("t", depth=3)] == ["a", "b", "c", "f", "z"]
    assert next(one.path for one in sandbox.files.list("to")) == "/home/user/to/a"


def test_a_path_is_moved_and_removed(sandbox: Sandbox) -> None:
    sandbox.files.write("m/old", "x")
    assert sandbox.files.rename("m/old", "m2/new/name").path == "/home/user/m2/new/name"
    assert sandbox.files.read("m2/new/name") == "x"
    sandbox.files.remove("m2")
    sandbox.files.remove("m2")
    assert not sandbox.files.exists("m2")


def test_removing_does_not_follow_links(sandbox: Sandbox) -> None:
    sandbox.commands.run("mkdir -p kept r && touch kept/f && ln -s /home/user/kept r/link")
    sandbox.files.remove("r")
    assert sandbox.files.exists("kept/f")


def test_unusual_names_are_used_unchanged(sandbox: Sandbox) -> None:
    for name in ("with space", "ümläut", "a;b", "-rf", "x\ny"):
        sandbox.files.write(f"odd/{name}", name)
        assert sandbox.files.read(f"odd/{name}") == name
    assert len(sandbox.files.list("odd")) == 5


def test_an_unknown_user_has_no_files(sandbox: Sandbox) -> None:
    with pytest.raises(AuthenticationException, match="invalid username: 'who'"):
        sandbox.files.read("x", user="who")
    with pytest.raises(AuthenticationException):
        sandbox.files.list(".", user="who")


@pytest.mark.parametrize(
    ("asked", "status", "body"),
    [("bytes=2-4", 206, b"234"), ("bytes=7-", 206, b"789"), ("bytes=-2", 206, b"89"),
     ("bytes=0-99", 200, b"0123456789"), ("bytes=50-", 416, None), ("lines=1-2", 200, b"0123456789")],
)  # fmt: skip
def test_a_part_of_a_file_is_read(
    server: Served, sandbox: Sandbox, asked: str, status: int, body: bytes | None
) -> None:
    sandbox.files.write("digits", "0123456789")
    headers = {**own(server, sandbox), "Range": asked}
    answer = httpx.get(f"{server.url}/files", params={"path": "digits"}, headers=headers)
    assert answer.status_code == status
    assert body is None or answer.content == body


def test_a_downloaded_file_is_never_run_by_a_browser(server: Served, sandbox: Sandbox) -> None:
    sandbox.files.write("page.html", "<script>")
    answer = httpx.get(sandbox.download_url("page.html"))
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_signed_address_reads_and_writes(sandbox: Sandbox) -> None:
    url = sandbox.upload_url("signed.txt", use_signature_expiration=60)
    assert httpx.post(url, files={"file": ("x", b"by address")}).status_code == 200
    assert httpx.get(sandbox.download_url("signed.txt", user="user")).text == "by address"


def test_a_signed_url_is_valid_only_for_its_request(sandbox: Sandbox) -> None:
    sandbox.files.write("one", "1")
    url = sandbox.download_url("one")
    for wrong in (url.replace("path=one", "path=two"), f"{url}x", f"{url}&username=root"):
        answer = httpx.get(wrong)
        assert (answer.status_code, answer.json()["message"]) == (401, "invalid signature")
    assert httpx.post(url, files={"file": ("x", b"x")}).json()["message"] == "invalid signature"
    bare = url.partition("&signature")[0].partition("?signature")[0]
    assert httpx.get(bare).json()["message"] == "missing signature query parameter"


def test_a_signed_url_expires(sandbox: Sandbox) -> None:
    answer = httpx.get(sandbox.download_url("one", use_signature_expiration=-10))
    assert answer.json() == {"code": 401, "message": "signature is already expired"}


def test_a_signed_name_has_no_colon(sandbox: Sandbox) -> None:
    assert httpx.get(sandbox.download_url("one", user="a:b")).status_code == 400


def test_envd_reports_variables_and_metrics_and_nothing_of_its_own(server: Served, sandbox: Sandbox) -> None:
    headers = own(server, sandbox)
    assert httpx.get(f"{server.url}/health", headers=headers).status_code == 204
    assert httpx.get(f"{server.url}/envs", headers=headers).status_code == 200
    assert httpx.get(f"{server.url}/metrics", headers=headers).json()["mem_total"] > 0
    for path in ("/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw"):
        assert httpx.post(f"{server.url}{path}", headers=headers).status_code == 404


async def test_async_files_have_every_operation(server: Served) -> None:
    remote = await AsyncSandbox.create(**server.e2b)
    files = remote.files
    assert (await files.write("a/b", "x", metadata={"k": "v"})).metadata == {"k": "v"}
    assert (
        len(await files.write_files([WriteEntry(path="/tmp/1", data="1"), WriteEntry(path="/tmp/2", data=b"2")])) == 2
    )
    assert await files.read("a/b") == "x"
    assert bytes(await files.read("a/b", format="bytes", gzip=True)) == b"x"
    assert [part async for part in await files.read("a/b", format="stream")] == [b"x"]
    assert (await files.get_info("a/b")).metadata == {"k": "v"}
    assert await files.make_dir("c")
    assert not await files.make_dir("c")
    assert (await files.rename("a/b", "c/d")).path == "/home/user/c/d"
    assert [one.name for one in await files.list("c")] == ["d"]
    assert await files.exists("c/d")
    await files.remove("c")
    assert not await files.exists("c")
    for failing in (files.read("c"), files.list("c"), files.get_info("c"), files.rename("c", "e")):
        with pytest.raises(FileNotFoundException):
            await failing
    with pytest.raises(NotEnoughSpaceException):
        await files.write("/run/large", b"x" * (20 << 20))
    await remote.kill()
