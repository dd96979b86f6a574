"""Tests of watched folders at any desk: every change is reported, with its correct name, at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from hotdesk.desk.seam import Change, Desk, Runtime, Spec
from hotdesk.errors import DeskGone, FileError

Open = Callable[[Spec], AbstractAsyncContextManager[Desk]]

pytestmark = pytest.mark.timeout(90)

MANY = """
import os, sys
folder, count = sys.argv[1], int(sys.argv[2])
os.makedirs(folder, exist_ok=True)
for number in range(count):
    with open(f"{folder}/{number}", "w") as file:
        file.write("x")
"""
HOSTILE = """
import os, sys
os.chdir(sys.argv[1].encode())
for name in (b"a\\nb", b"\\xff\\xfe\\x80", b"n" * 255, b"\\x1b[31mred", b" ", b"-rf", "é".encode() * 127):
    open(name, "w").close()
"""
NAMES = {"a\nb", b"\xff\xfe\x80".decode("utf-8", "surrogateescape"), "n" * 255, "\x1b[31mred", " ", "-rf", "é" * 127}


async def made(desk: Desk, name: str) -> str:
    await desk.mkdir(name)
    return name


async def sh(desk: Desk, script: str, cwd: str) -> None:
    done = await desk.run(["bash", "-c", script], cwd=cwd, timeout=60)
    assert done.ok, done.stderr


def kinds(changes: list[Change], path: str) -> list[str]:
    return [change.kind for change in changes if change.path == path]


def paths(changes: list[Change], kind: str = "create") -> set[str]:
    return {change.path for change in changes if change.kind == kind}


# -- kinds of changes ----------------------------------------------------------------------------------------------


async def test_every_kind_of_change_is_reported(desk: Desk) -> None:
    folder = await made(desk, "watch-kinds")
    watch = await desk.watch(folder)
    await sh(desk, ": >new", folder)
    assert await watch.changes() == [Change("create", "new")]
    await sh(desk, "echo x >>new", folder)
    assert kinds(await watch.changes(), "new") == ["write"]
    await sh(desk, "chmod 600 new", folder)
    assert await watch.changes() == [Change("chmod", "new")]
    await sh(desk, "mv new old", folder)
    assert await watch.changes() == [Change("rename", "new"), Change("create", "old")]
    await sh(desk, "rm old", folder)
    assert kinds(await watch.changes(), "old")[-1] == "remove"
    await sh(desk, "ln -s nowhere link; mkfifo pipe; mkdir folder; rmdir folder", folder)
    changes = await watch.changes()
    assert paths(changes) == {"link", "pipe", "folder"}
    assert kinds(changes, "folder") == ["create", "remove"]
    assert await watch.changes() == []
    await watch.close()


async def test_a_finished_write_is_reported_by_the_very_next_call(desk: Desk) -> None:
    folder = await made(desk, "watch-drained")
    watch = await desk.watch(folder)
    for number in range(100):
        await desk.write(f"{folder}/{number}", b"x")
        assert str(number) in paths(await watch.changes())
    await watch.close()


async def test_earlier_changes_and_other_folders_are_not_reported(desk: Desk) -> None:
    folder = await made(desk, "watch-before")
    await desk.write(f"{folder}/deep/old", b"x")
    watch = await desk.watch(folder)
    await desk.write("watch-before-elsewhere", b"x")
    await desk.read(f"{folder}/deep/old")
    await desk.list(folder)
    assert await watch.changes() == []
    await watch.close()


async def test_waiting_ends_with_the_first_change(desk: Desk) -> None:
    folder = await made(desk, "watch-waiting")
    watch = await desk.watch(folder)
    with anyio.move_on_after(0.2) as nothing:
        await watch.wait()
    assert nothing.cancelled_caught
    found: list[Change] = []

    async def wait() -> None:
        found.extend(await watch.wait())

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.sleep(0.1)
            await sh(desk, ": >new", folder)
    assert found == [Change("create", "new")]
    await watch.close()


# -- subfolders ----------------------------------------------------------------------------------------------------


async def test_folders_below_are_watched_too(desk: Desk) -> None:
    folder = await made(desk, "watch-below")
    await desk.mkdir(f"{folder}/a/b")
    watch = await desk.watch(folder)
    await sh(desk, ": >a/b/c; mkdir -p d/e/f; : >d/e/f/g", folder)
    assert {"a/b/c", "d", "d/e", "d/e/f", "d/e/f/g"} <= paths(await watch.changes())
    await sh(desk, ": >d/e/later", folder)
    assert await watch.changes() == [Change("create", "d/e/later")]
    await watch.close()


async def test_files_put_into_a_new_folder_at_once_are_reported_once(desk: Desk) -> None:
    folder = await made(desk, "watch-race")
    watch = await desk.watch(folder)
    script = "for n in $(seq 40); do mkdir -p t$n/u/v; : >t$n/one; : >t$n/u/v/two; done"
    await sh(desk, script, folder)
    told = [change.path for change in await watch.changes() if change.kind == "create"]
    wanted = {f"t{n}{rest}" for n in range(1, 41) for rest in ("", "/u", "/u/v", "/one", "/u/v/two")}
    assert set(told) == wanted
    assert len(told) == len(wanted), "something was told twice"
    await watch.close()


async def test_a_whole_tree_that_is_moved_in_is_reported(desk: Desk) -> None:
    folder = await made(desk, "watch-moved-in")
    await sh(desk, "mkdir -p watch-outside/x/y; : >watch-outside/x/y/z", ".")
    watch = await desk.watch(folder)
    await desk.move("watch-outside", f"{folder}/in")
    assert paths(await watch.changes()) == {"in", "in/x", "in/x/y", "in/x/y/z"}
    await sh(desk, "echo x >in/x/y/z", folder)
    assert paths(await watch.changes(), "write") == {"in/x/y/z"}
    await watch.close()


async def test_without_recursion_only_the_folder_itself_is_reported(desk: Desk) -> None:
    folder = await made(desk, "watch-flat")
    await desk.mkdir(f"{folder}/old")
    watch = await desk.watch(folder, recursive=False)
    await sh(desk, ": >old/in; mkdir new; : >new/in; : >here", folder)
    assert paths(await watch.changes()) == {"new", "here"}
    await watch.close()


async def test_a_moved_folder_is_reported_under_its_new_name_only(desk: Desk) -> None:
    folder = await made(desk, "watch-renamed")
    await desk.mkdir(f"{folder}/before/deep")
    watch = await desk.watch(folder)
    await sh(desk, "mv before after", folder)
    changes = await watch.changes()
    assert changes[:2] == [Change("rename", "before"), Change("create", "after")]
    await sh(desk, ": >after/one; : >after/deep/two; mkdir before; : >before/three", folder)
    assert paths(await watch.changes()) == {"after/one", "after/deep/two", "before", "before/three"}
    await watch.close()


async def test_a_folder_moved_away_is_no_longer_reported(desk: Desk) -> None:
    folder = await made(desk, "watch-moved-out")
    await desk.mkdir(f"{folder}/leaving/deep")
    watch = await desk.watch(folder)
    await desk.move(f"{folder}/leaving", "watch-gone")
    assert await watch.changes() == [Change("rename", "leaving")]
    await sh(desk, ": >one; : >deep/two", "watch-gone")
    assert await watch.changes() == []
    await watch.close()


async def test_a_link_to_a_folder_inside_is_not_followed(desk: Desk) -> None:
    folder = await made(desk, "watch-links")
    await desk.mkdir("watch-linked")
    await sh(desk, "ln -s ../watch-linked there", folder)
    watch = await desk.watch(folder)
    await sh(desk, ": >there/one; ln -s ../watch-linked later; : >later/two", folder)
    assert paths(await watch.changes()) == {"later"}
    await watch.close()


async def test_a_folder_removed_and_made_again_is_watched_again(desk: Desk) -> None:
    folder = await made(desk, "watch-again")
    watch = await desk.watch(folder)
    for _ in range(20):
        await sh(desk, "mkdir d; : >d/f; rm -r d", folder)
    await sh(desk, "mkdir d", folder)
    await watch.changes()
    await sh(desk, ": >d/f", folder)
    assert await watch.changes() == [Change("create", "d/f")]
    await watch.close()


# -- what can be watched -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recursive", [True, False])
async def test_an_invalid_folder_cannot_be_watched(desk: Desk, recursive: bool) -> None:
    await desk.write("watch-a-file", b"x")
    await desk.run(["ln", "-sf", "nowhere", "watch-dangling"])
    for path, reason in (
        ("watch-nothing", "missing"),
        ("watch-a-file", "not-directory"),
        ("watch-dangling", "missing"),
        ("watch-a-file/below", "not-directory"),
    ):
        with pytest.raises(FileError) as raised:
            await desk.watch(path, recursive=recursive)
        assert raised.value.reason == reason


async def test_a_link_to_a_folder_can_be_watched(desk: Desk) -> None:
    folder = await made(desk, "watch-real")
    await desk.run(["ln", "-sfn", "watch-real", "watch-link"])
    watch = await desk.watch("watch-link")
    await sh(desk, ": >new", folder)
    assert await watch.changes() == [Change("create", "new")]
    await watch.close()


async def test_the_home_folder_is_watched_by_default(fresh: Open) -> None:
    async with fresh(Spec()) as desk:
        watch = await desk.watch()
        await desk.write("a/b", b"x")
        assert {"a", "a/b"} <= paths(await watch.changes())


async def test_names_that_are_not_text_are_reported_as_they_are(desk: Desk) -> None:
    folder = await made(desk, "watch-names")
    watch = await desk.watch(folder)
    assert (await desk.run(["python3", "-c", HOSTILE, f"{desk.home}/{folder}"])).ok
    assert paths(await watch.changes()) == NAMES
    await watch.close()


async def test_a_folder_whose_name_is_not_text_is_watched(desk: Desk) -> None:
    folder = await made(desk, "watch-odd")
    watch = await desk.watch(folder)
    await sh(desk, r"""mkdir -p $'a\nb\xff/c'; : >$'a\nb\xff/c/d'""", folder)
    odd = b"a\nb\xff".decode("utf-8", "surrogateescape")
    assert paths(await watch.changes()) == {odd, f"{odd}/c", f"{odd}/c/d"}
    await sh(desk, r""": >$'a\nb\xff/c/later'""", folder)
    assert paths(await watch.changes()) == {f"{odd}/c/later"}
    await watch.close()


# -- amounts and duration ------------------------------------------------------------------------------------------


async def test_many_changes_are_all_reported(desk: Desk) -> None:
    folder = await made(desk, "watch-many")
    watch = await desk.watch(folder)
    assert (await desk.run(["python3", "-c", MANY, f"{desk.home}/{folder}", "5000"], timeout=60)).ok
    changes = await watch.changes()
    if not paths(changes, "overflow"):
        assert paths(changes) == {str(number) for number in range(5000)}
        assert paths(changes, "write") == {str(number) for number in range(5000)}
    await watch.close()


@pytest.mark.long
async def test_too_many_changes_are_reported_as_an_overflow(desk: Desk) -> None:
    folder = await made(desk, "watch-flood")
    watch = await desk.watch(folder)
    assert (await desk.run(["python3", "-c", MANY, f"{desk.home}/{folder}", "40000"], timeout=80)).ok
    changes = await watch.changes()
    assert paths(changes, "overflow") or paths(changes) == {str(number) for number in range(40000)}
    await desk.write(f"{folder}/afterwards", b"x")
    assert "afterwards" in paths(await watch.changes())
    await watch.close()


@pytest.mark.long
async def test_an_unread_watch_blocks_nothing(desk: Desk) -> None:
    folder = await made(desk, "watch-unread")
    watch = await desk.watch(folder)
    assert (await desk.run(["python3", "-c", MANY, f"{desk.home}/{folder}", "20000"], timeout=60)).ok
    with anyio.fail_after(10):
        assert (await desk.run(["echo", "quick"])).text == "quick\n"
    await watch.close()
    await watch.close()


async def test_a_watch_outlives_other_calls(desk: Desk) -> None:
    folder = await made(desk, "watch-long")
    watch = await desk.watch(folder)
    with anyio.move_on_after(0.2):
        await desk.run(["sleep", "100"])
    for number in range(30):
        assert (await desk.run(["true"])).ok
        await desk.write(f"watch-long-other/{number}", b"x")
    await desk.remove("watch-long-other")
    await desk.write(f"{folder}/new", b"")
    assert await watch.changes() == [Change("create", "new")]
    await watch.close()


async def test_two_watches_of_one_folder_are_apart(desk: Desk) -> None:
    folder = await made(desk, "watch-two")
    one, two = await desk.watch(folder), await desk.watch(folder, recursive=False)
    await sh(desk, ": >new", folder)
    assert await one.changes() == [Change("create", "new")]
    await one.close()
    await sh(desk, ": >newer", folder)
    assert await two.changes() == [Change("create", "new"), Change("create", "newer")]
    await two.close()


@pytest.mark.long
async def test_closed_watches_are_released(desk: Desk) -> None:
    folder = await made(desk, "watch-closed")
    for _ in range(300):
        watch = await desk.watch(folder)
        await watch.close()
    watch = await desk.watch(folder)
    await desk.write(f"{folder}/new", b"")
    assert await watch.changes() == [Change("create", "new")]
    await watch.close()


async def test_a_watched_folder_that_is_removed_says_nothing_more(desk: Desk) -> None:
    folder = await made(desk, "watch-removed")
    await desk.write(f"{folder}/in", b"x")
    watch = await desk.watch(folder)
    await desk.remove(folder)
    assert paths(await watch.changes(), "remove") == {"in"}
    assert await watch.changes() == []
    await watch.close()


async def test_burning_ends_waits_for_changes(runtime: Runtime) -> None:
    desk = await runtime.open(Spec())
    watch = await desk.watch()
    ended: list[str] = []

    async def wait() -> None:
        with pytest.raises(DeskGone):
            await watch.wait()
        ended.append("wait")

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.sleep(0.1)
            await runtime.burn(desk.id)
    assert ended == ["wait"]
    with pytest.raises(DeskGone):
        await desk.watch()
