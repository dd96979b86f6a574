"""Tests of files at any desk."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from hotdesk.config import MIB
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import BriefError, FileError

Open = Callable[[Spec], AbstractAsyncContextManager[Desk]]

pytestmark = pytest.mark.timeout(60)

BLOCK = bytes(range(256)) * 1024


async def sh(desk: Desk, script: str) -> str:
    """Run a shell script that must succeed; return its output."""
    done = await desk.run(["sh", "-c", script], timeout=30)
    assert done.ok, done
    return done.text


async def blocks(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield BLOCK


# -- writing and reading ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"\0", bytes(range(256)) * 400], ids=["nothing", "a zero", "100 KiB"])
async def test_a_written_file_is_read_back(desk: Desk, data: bytes) -> None:
    await desk.write("binary", data)
    assert await desk.read("binary") == data
    assert await desk.read(f"{desk.home}/binary") == data
    assert await desk.read("~/binary") == data


async def test_writing_truncates(desk: Desk) -> None:
    await desk.write("shrinks", b"a long text")
    await desk.write("shrinks", b"short")
    assert await desk.read("shrinks") == b"short"


async def test_writing_keeps_the_inode_and_follows_a_link(desk: Desk) -> None:
    await desk.write("kept", b"one")
    await sh(desk, "ln kept kept-hard; ln -s kept kept-soft")
    before = await sh(desk, "stat -c %i kept")
    await desk.write("kept", b"two")
    assert await sh(desk, "stat -c %i kept") == before
    assert await desk.read("kept-hard") == b"two"
    await desk.write("kept-soft", b"three")
    assert await desk.read("kept") == b"three"
    assert (await desk.stat("kept-soft")).kind == "symlink"


async def test_writing_makes_the_folders(desk: Desk) -> None:
    await desk.write("parents/of/a/file", b"x")
    assert await sh(desk, "stat -c %a parents parents/of/a parents/of/a/file") == "755\n755\n644\n"


async def test_a_mode_is_set_on_new_and_existing_files(desk: Desk) -> None:
    await desk.write("moded", b"#!/bin/sh\necho ran\n", mode=0o755)
    assert (await desk.run(["./moded"])).stdout == b"ran\n"
    await desk.write("moded", b"", mode=0o600)
    assert (await desk.stat("moded")).mode == 0o600
    await desk.write("moded", b"x")
    assert (await desk.stat("moded")).mode == 0o600


@pytest.mark.parametrize("mode", [1 << 40, -1])
async def test_an_invalid_mode_does_not_harm_the_desk(fresh: Open, mode: int) -> None:
    async with fresh(Spec()) as desk:
        with pytest.raises((FileError, BriefError)):
            await desk.write("strange-mode", b"", mode=mode)
        await desk.write("after", b"")


async def test_a_large_stream_is_written_and_read_with_little_memory(desk: Desk) -> None:
    tracemalloc.start()
    try:
        await desk.write("large", blocks(128))
        size = 0
        async for data in desk.read_stream("large"):
            assert data == (BLOCK + BLOCK)[size % len(BLOCK) : size % len(BLOCK) + len(data)]
            size += len(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == 32 * MIB
    assert peak < 4 * MIB
    assert await sh(desk, "stat -c %s large; rm large") == f"{32 * MIB}\n"


async def test_reading_stops_at_the_limit(desk: Desk) -> None:
    await desk.write("limited", bytes(100_000))
    assert len(await desk.read("limited", limit=100_000)) == 100_000
    with pytest.raises(FileError, match="99999"):
        await desk.read("limited", limit=99_999)
    await sh(desk, "ln -s /dev/zero endless")
    with pytest.raises(FileError):
        await desk.read("endless", limit=1000)


async def test_a_stream_may_be_left_early(desk: Desk) -> None:
    await desk.write("left-early", blocks(32))
    for _ in range(20):
        stream = desk.read_stream("left-early")
        assert len(await anext(stream)) > 0
        await stream.aclose()
    assert await desk.read("left-early") == BLOCK * 32


async def test_text_is_written_and_fed_as_utf_8(desk: Desk) -> None:
    await desk.write("text", "größer\n")
    assert await desk.read("text") == "größer\n".encode()
    assert (await desk.run(["cat"], stdin="größer\n")).stdout == "größer\n".encode()
    for wrong in (7, None, ["a"]):
        with pytest.raises(BriefError, match="text or bytes, not"):
            await desk.write("wrong", wrong)  # type: ignore[arg-type]


async def test_a_failing_source_fails_the_write(desk: Desk) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"some"
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        await desk.write("half", failing())
    assert (await desk.run(["true"])).ok


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("absent", "missing"),
        (".", "directory"),
        ("absent/deep", "missing"),
        ("pipe", "invalid"),
        ("file/below", "not-directory"),
        ("a\0b", "invalid"),
        ("x" * 300, "invalid"),
        ("loop", "invalid"),
        ("", "directory"),
    ],
)
async def test_a_failed_read_says_why(desk: Desk, path: str, reason: str) -> None:
    await sh(desk, "test -p pipe || mkfifo pipe; : >file; ln -sfn loop loop")
    with pytest.raises(FileError) as caught:
        await desk.read(path)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("path", "reason"),
    [("a-folder", "directory"), ("a-file/below", "not-directory"), ("a\0b", "invalid"), ("y" * 300, "invalid")],
)
async def test_a_failed_write_says_why(desk: Desk, path: str, reason: str) -> None:
    await sh(desk, "mkdir -p a-folder; : >a-file")
    with pytest.raises(FileError) as caught:
        await desk.write(path, BLOCK * 8)
    assert caught.value.reason == reason


async def test_a_name_that_is_not_a_text_is_the_callers_error(desk: Desk) -> None:
    with pytest.raises(BriefError):
        await desk.read("\ud800")


# -- listing and describing ----------------------------------------------------------------------------------------


async def test_a_folder_is_listed_sorted_and_depth_first(desk: Desk) -> None:
    await sh(desk, "mkdir -p tree/b/c tree/e; touch tree/a tree/b/c/d tree/b/z tree/f tree/B")
    names = [entry.path.removeprefix(f"{desk.home}/tree/") for entry in await desk.list("tree", depth=9)]
    assert names == ["B", "a", "b", "b/c", "b/c/d", "b/z", "e", "f"]
    assert [entry.name for entry in await desk.list("tree")] == ["B", "a", "b", "e", "f"]
    two = [entry.path.removeprefix(f"{desk.home}/tree/") for entry in await desk.list("tree", depth=2)]
    assert two == ["B", "a", "b", "b/c", "b/z", "e", "f"]
    assert [entry.name for entry in await desk.list("tree", depth=0)] == ["B", "a", "b", "e", "f"]


async def test_an_empty_folder_lists_nothing(desk: Desk) -> None:
    await desk.mkdir("empty")
    assert await desk.list("empty") == []


async def test_unusual_names_are_listed_and_can_be_used(desk: Desk) -> None:
    await sh(desk, r"mkdir odd; cd odd; touch -- '-n' ' ' 'ü' \* \"; touch $(printf 'bad\377byte') '" + "\x1b[2J\n\t'")
    names = {entry.name for entry in await desk.list("odd")}
    assert names == {"-n", " ", "ü", "*", '"', "bad\udcffbyte", "\x1b[2J\n\t"}
    for name in names:
        await desk.write(f"odd/{name}", b"found")
        assert await desk.read(f"odd/{name}") == b"found"
        await desk.remove(f"odd/{name}")
    assert await desk.list("odd") == []


async def test_a_listing_stops_at_its_limit(desk: Desk) -> None:
    await sh(desk, "mkdir many; cd many; seq 1 5000 | xargs touch")
    assert len(await desk.list("many")) == 5000
    assert len(await desk.list("many", limit=5000)) == 5000
    with pytest.raises(FileError, match="4999"):
        await desk.list("many", limit=4999)
    assert (await desk.run(["true"])).ok


async def test_links_with_long_targets_are_listed(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        await desk.run(
            [
                "python3",
                "-c",
                "import os\nos.mkdir('links')\nfor n in range(100): os.symlink('t' * 4000, f'links/{n:03}')",
            ]
        )
        found = await desk.list("links")
        assert len(found) == 100
        assert {entry.target for entry in found} == {"t" * 4000}


async def test_long_names_are_listed(desk: Desk) -> None:
    script = """if True:
    import os
    os.makedirs('long/' + '/'.join(['界' * 80] * 10))
    for n in range(200): open('long/' + '界' * 80 + '/%03d' % n + '界' * 80, 'w').close()
    """
    assert (await desk.run(["python3", "-c", script])).ok
    assert len(await desk.list("long", depth=20)) == 210


@pytest.mark.parametrize(("path", "reason"), [("absent", "missing"), ("plain", "not-directory")])
async def test_a_failed_listing_says_why(desk: Desk, path: str, reason: str) -> None:
    await desk.write("plain", b"")
    with pytest.raises(FileError) as caught:
        await desk.list(path)
    assert caught.value.reason == reason


async def test_a_path_is_described(desk: Desk) -> None:
    await sh(desk, "mkdir -m 750 seen; cd seen; printf 12345 >file; chmod 640 file; ln -s file soft; mkfifo pipe")
    await sh(desk, "cd seen; ln -s nowhere broken; touch -d @1700000000.25 file")
    folder, file, soft, broken, pipe = [
        await desk.stat(f"seen{name}") for name in ("", "/file", "/soft", "/broken", "/pipe")
    ]
    assert (folder.kind, folder.mode, folder.name, folder.path) == ("directory", 0o750, "seen", f"{desk.home}/seen")
    assert (file.kind, file.mode, file.size, file.modified) == ("file", 0o640, 5, 1700000000.25)
    assert (soft.kind, soft.target) == ("symlink", "file")
    assert (broken.kind, broken.target) == ("symlink", "nowhere")
    assert pipe.kind == "other"
    assert f"{file.uid} {file.gid}\n" == await sh(desk, "echo $(id -u) $(id -g)")
    with pytest.raises(FileError) as caught:
        await desk.stat("seen/absent")
    assert caught.value.reason == "missing"


# -- moving and removing -------------------------------------------------------------------------------------------


async def test_a_folder_is_made_once_with_its_parents(desk: Desk) -> None:
    assert await desk.mkdir("made/with/parents") is True
    assert await desk.mkdir("made/with/parents") is False
    assert await desk.mkdir("made") is False


@pytest.mark.parametrize("path", ["in-the-way", "in-the-way/below"])
async def test_a_folder_in_place_of_a_file_is_refused(desk: Desk, path: str) -> None:
    await desk.write("in-the-way", b"")
    with pytest.raises(FileError) as caught:
        await desk.mkdir(path)
    assert caught.value.reason == "not-directory"


async def test_moving_makes_the_folders_and_overwrites(desk: Desk) -> None:
    await desk.write("moves", b"new")
    await desk.write("there", b"old")
    await desk.move("moves", "there")
    assert await desk.read("there") == b"new"
    await desk.move("there", "new/folders/there")
    assert await desk.read("new/folders/there") == b"new"
    await desk.move("new", "renamed")
    assert await desk.read("renamed/folders/there") == b"new"
    with pytest.raises(FileError) as caught:
        await desk.stat("moves")
    assert caught.value.reason == "missing"


async def test_moving_a_missing_file_creates_nothing(desk: Desk) -> None:
    with pytest.raises(FileError) as caught:
        await desk.move("absent", "new-parents/there")
    assert caught.value.reason == "missing"
    with pytest.raises(FileError):
        await desk.stat("new-parents")


async def test_moving_onto_a_full_folder_is_refused(desk: Desk) -> None:
    await sh(desk, "mkdir -p full/x onto/y")
    with pytest.raises(FileError) as caught:
        await desk.move("full", "onto")
    assert caught.value.reason == "not-empty"


async def test_a_tree_is_removed(desk: Desk) -> None:
    await sh(desk, "mkdir -p gone/a/b/c; touch gone/1 gone/a/2 gone/a/b/3; mkfifo gone/pipe; ln -s / gone/root")
    await desk.remove("gone")
    with pytest.raises(FileError) as caught:
        await desk.stat("gone")
    assert caught.value.reason == "missing"
    assert (await desk.stat("/etc")).kind == "directory"


async def test_removing_a_missing_file_is_no_error(desk: Desk) -> None:
    await desk.remove("never-was")
    await desk.remove("never/was")


async def test_removing_a_link_leaves_its_target(desk: Desk) -> None:
    await sh(desk, "mkdir target; touch target/inside; ln -s target link; mkdir holds; ln -s ../target holds/link")
    await desk.remove("link")
    await desk.remove("holds")
    assert [entry.name for entry in await desk.list("target")] == ["inside"]


async def test_removing_a_deep_tree_works(desk: Desk) -> None:
    script = "import os\nfor _ in range(900):\n    os.mkdir('d' * 20)\n    os.chdir('d' * 20)"
    await desk.mkdir("deep")
    assert (await desk.run(["python3", "-c", script], cwd="deep")).ok
    try:
        await desk.remove("deep")
        assert (await desk.run(["test", "-e", "deep"])).exit_code == 1
    finally:
        await desk.run(["rm", "-rf", "deep"])


async def test_programs_continue_beside_long_file_work(desk: Desk) -> None:
    await sh(desk, "mkdir busy; cd busy; seq 1 20000 | xargs touch")
    listing = desk.list("busy")
    assert (await desk.run(["echo", "hello"], timeout=10)).stdout == b"hello\n"
    assert len(await listing) == 20000
    await desk.remove("busy")


# -- a full disk --------------------------------------------------------------------------------------------------


async def test_a_full_disk_is_reported(fresh: Open) -> None:
    async with fresh(Spec(disk=32 * MIB)) as desk:
        await desk.write("fits", blocks(4))
        with pytest.raises(FileError) as caught:
            await desk.write("too-much", blocks(256))
        assert caught.value.reason == "full"
        await desk.remove("too-much")
        assert await desk.read("fits") == BLOCK * 4


async def test_a_full_disk_inside_is_an_errno(fresh: Open) -> None:
    async with fresh(Spec(disk=32 * MIB)) as desk:
        done = await desk.run(["dd", "if=/dev/zero", "of=big", "bs=1M", "count=64"], timeout=30)
        assert done.exit_code == 1
        assert b"No space left" in done.stderr or b"quota exceeded" in done.stderr


async def test_a_disk_in_memory_works(fresh: Open) -> None:
    async with fresh(Spec(disk=64 * MIB, disk_in="memory")) as desk:
        await desk.write("there", blocks(16))
        assert await sh(desk, "md5sum <there; cp there again; md5sum <again | cut -c1-3 >/dev/null; stat -c %s again")


async def test_a_disk_in_memory_is_limited(fresh: Open) -> None:
    async with fresh(Spec(disk=16 * MIB, disk_in="memory")) as desk:
        with pytest.raises(FileError) as caught:
            await desk.write("too-much", blocks(128))
        assert caught.value.reason == "full"
