"""Tests of checkpoints: a workspace is restored exactly, or not at all."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.local.runtime import LocalRuntime, local_runtime
from hotdesk.errors import HostError
from hotdesk.job.checkpoint import KEY, PIECE_BYTES, Checkpoints
from hotdesk.job.record import papers

SECRET = b"nobody shall read this on disk"


@pytest.fixture
async def runtime() -> AsyncIterator[LocalRuntime]:
    async with local_runtime() as made:
        yield made


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(papers.create(tmp_path, "ijob").folder)


async def test_a_workspace_comes_back_at_another_desk_with_names_modes_and_links(
    runtime: LocalRuntime, checkpoints: Checkpoints
) -> None:
    first, second = await runtime.open(Spec()), await runtime.open(Spec())
    await first.write("deep/er/a b\nc.txt", SECRET, mode=0o750)
    await first.run(["ln", "-s", "deep", "link"])
    await first.write("large", bytes(3 * PIECE_BYTES + 17))
    saved = await checkpoints.save(first)
    await checkpoints.restore(second, saved.sha256)
    assert await second.read("deep/er/a b\nc.txt") == SECRET
    assert (await second.stat("deep/er/a b\nc.txt")).mode == 0o750
    assert (await second.stat("link")).target == "deep"
    assert len(await second.read("large")) == 3 * PIECE_BYTES + 17


async def test_nothing_of_a_workspace_can_be_read_on_disk(runtime: LocalRuntime, checkpoints: Checkpoints) -> None:
    desk = await runtime.open(Spec())
    await desk.write("a", SECRET * 1000)
    saved = await checkpoints.save(desk)
    assert SECRET not in (checkpoints.folder / saved.sha256).read_bytes()


async def test_the_browsers_profile_is_no_work(runtime: LocalRuntime, checkpoints: Checkpoints) -> None:
    first, second = await runtime.open(Spec()), await runtime.open(Spec())
    await first.write(".config/browser/Cookies", b"session")
    await first.write("kept", b"x")
    await checkpoints.restore(second, (await checkpoints.save(first)).sha256)
    assert [entry.name for entry in await second.list(".", depth=3) if entry.kind == "file"] == ["kept"]


@pytest.mark.parametrize("damage", ["cut", "flip", "drop", "last"])
async def test_a_workspace_that_was_touched_never_comes_back_whole(
    runtime: LocalRuntime, checkpoints: Checkpoints, damage: str
) -> None:
    desk = await runtime.open(Spec())
    await desk.write("a", bytes(2 * PIECE_BYTES))
    saved = await checkpoints.save(desk)
    path = checkpoints.folder / saved.sha256
    data = bytearray(path.read_bytes())
    piece = 5 + PIECE_BYTES + 16
    match damage:
        case "cut":
            data = data[: 7 + piece]
        case "flip":
            data[7 + piece + 100] ^= 1
        case "drop":
            del data[7 : 7 + piece]
        case "last":
            data[7 + 4] = 1
            data = data[: 7 + piece]
    path.write_bytes(data)
    with pytest.raises(HostError):
        await checkpoints.restore(await runtime.open(Spec()), saved.sha256)


async def test_when_all_is_destroyed_the_key_is_gone_first(runtime: LocalRuntime, checkpoints: Checkpoints) -> None:
    desk = await runtime.open(Spec())
    one, two = await checkpoints.save(desk), await checkpoints.save(desk)
    checkpoints.forget_others(two.sha256)
    assert [path.name for path in checkpoints.folder.iterdir()] == [two.sha256]
    assert one.sha256 != two.sha256
    checkpoints.destroy()
    assert not checkpoints.key.exists()
    assert not checkpoints.folder.exists()


def test_destroying_twice_is_no_error(checkpoints: Checkpoints) -> None:
    (checkpoints.key.parent / f".{KEY}.1a2b").write_bytes(b"half")
    checkpoints.destroy()
    checkpoints.destroy()
    assert not checkpoints.folder.exists()
    assert not [each for each in os.listdir(checkpoints.key.parent) if KEY in each]
