"""Tests of records of hibernated sandboxes that cannot be removed or written at once."""

from __future__ import annotations

import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio.lowlevel
import pytest
from tests.unit.api.e2b.test_resume import ID, Machine, sandbox_of, serving

from hotdesk.api.e2b.hibernate import SavedSandboxes, get_folder, make_record, read, write
from hotdesk.api.e2b.responses import E2bError
from hotdesk.api.e2b.sandboxes import Sandboxes
from hotdesk.desk.image.image import get_record_path
from hotdesk.errors import HostError

pytestmark = pytest.mark.anyio


def block(machine: Machine) -> None:
    """Have the server refuse to change records."""
    get_folder(cast(Any, machine)).mkdir(parents=True, exist_ok=True)
    get_folder(cast(Any, machine)).chmod(0o755)


def unblock(machine: Machine) -> None:
    get_folder(cast(Any, machine)).chmod(0o700)


def list_records(machine: Machine) -> list[str]:
    return [path.stem for path in get_folder(cast(Any, machine)).iterdir()]


def saved_of(sandboxes: Sandboxes) -> SavedSandboxes:
    assert sandboxes.saved is not None
    return sandboxes.saved


@pytest.mark.parametrize("ends", ["resumed", "killed", "resumed, then killed"])
@pytest.mark.parametrize("by", ["the server that paused it", "the next server"])
async def test_a_record_that_cannot_be_removed_is_removed_later(
    tmp_path: Path, ends: str, by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(tmp_path)
    async with serving(machine) as first, serving(machine) as second:
        first.add(sandbox_of(machine))
        await first.pause(first.by_id[ID], memory=True)
        machine.list_hibernated(ID)
        if by == "the next server":
            saved_of(second).find_for_tenant(cast(Any, machine))
        sandboxes = second if by == "the next server" else first
        sandbox = sandboxes.by_id[ID]
        block(machine)
        if "resumed" in ends:
            assert await sandboxes.resume(sandbox, 60)
        if "killed" in ends:
            await sandboxes.kill(sandbox)
        assert list_records(machine) == [ID]
        unblock(machine)
        await saved_of(sandboxes).retry()
        assert list_records(machine) == []
        assert ends == "resumed" or sandboxes.by_id == {}
    assert "other users can enter" in capsys.readouterr().err


async def test_a_record_that_could_not_be_removed_stays_once_its_sandbox_is_paused_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    async with serving(machine) as sandboxes:
        sandboxes.add(sandbox := sandbox_of(machine))
        await sandboxes.pause(sandbox, memory=True)
        block(machine)
        await sandboxes.resume(sandbox, 60)
        unblock(machine)
        await sandboxes.pause(sandbox, memory=True)
        await saved_of(sandboxes).retry()
        [record] = read(get_folder(cast(Any, machine)))
    assert (record.desk, record.image) == (ID, sandbox.saved_image)


async def test_a_sandbox_whose_desk_cannot_be_burnt_leaves_no_record(tmp_path: Path) -> None:
    machine = Machine(tmp_path, resists=True)
    async with serving(machine) as sandboxes:
        sandboxes.add(sandbox := sandbox_of(machine))
        await sandboxes.pause(sandbox, memory=True)
        await sandboxes.kill(sandbox)
    assert list_records(machine) == []


async def test_a_sandbox_that_is_killed_while_a_pause_that_was_cancelled_ends_leaves_no_record(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    async with serving(machine) as sandboxes:
        sandboxes.add(sandbox := sandbox_of(machine, env={"LONG": "x" * (4 << 20)}))  # its record takes a moment
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(sandboxes.pause, sandbox, memory=True))
            with anyio.fail_after(30):
                while not get_folder(cast(Any, machine)).is_dir() or not list_records(machine):
                    await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
            await sandboxes.kill(sandbox)
    assert list_records(machine) == []


@pytest.mark.parametrize("by", ["another call", "the server"])
async def test_a_paused_sandbox_whose_record_could_not_be_written_is_recorded_later(tmp_path: Path, by: str) -> None:
    machine = Machine(tmp_path)
    async with serving(machine) as sandboxes:
        sandboxes.add(sandbox := sandbox_of(machine))
        block(machine)
        for _ in range(2):
            with pytest.raises(HostError, match="other users can enter"):
                await sandboxes.pause(sandbox, memory=True)
        assert (sandbox.state, list_records(machine)) == ("paused", [])
        unblock(machine)
        if by == "another call":
            with pytest.raises(E2bError, match="already paused"):
                await sandboxes.pause(sandbox, memory=True)
        else:
            sandboxes.tasks.start_soon(saved_of(sandboxes).run)
            with anyio.fail_after(10):
                while saved_of(sandboxes).outdated:
                    await anyio.sleep(0.01)
        [record] = read(get_folder(cast(Any, machine)))
    assert (record.desk, record.image) == (ID, sandbox.saved_image)


@pytest.mark.parametrize("ended", ["resumed", "killed"])
async def test_a_record_whose_desk_is_gone_is_removed_by_the_next_server(tmp_path: Path, ended: str) -> None:
    """The server was killed before it could remove the record."""
    machine = Machine(tmp_path)
    async with serving(machine) as first:
        first.add(sandbox := sandbox_of(machine))
        await first.pause(sandbox, memory=True)
        machine.list_hibernated(ID)
        block(machine)
        await (first.resume(sandbox, 60) if ended == "resumed" else first.kill(sandbox))
        for folder in (tmp_path / "hibernated", tmp_path / "run" / "hibernated"):
            (folder / f"{ID}.json").unlink()  # as the keeper does
        unblock(machine)
    assert list_records(machine) == [ID]
    async with serving(machine) as second:
        saved_of(second).find_for_tenant(cast(Any, machine))
        assert second.by_id == {}
    assert list_records(machine) == []


async def test_a_record_whose_desk_no_keeper_has_listed_yet_stays(tmp_path: Path) -> None:
    """A restart of the machine, or a new container of it, empties the run folder until the tenant's keeper starts."""
    machine = Machine(tmp_path)
    async with serving(machine) as first:
        first.add(sandbox := sandbox_of(machine))
        await first.pause(sandbox, memory=True)
        machine.list_hibernated(ID)
    shutil.rmtree(tmp_path / "run")
    async with serving(machine) as second:
        saved_of(second).find_for_tenant(cast(Any, machine))
        assert [*second.by_id] == [ID]


@pytest.mark.parametrize("has_files", [True, False])
async def test_a_record_whose_files_were_removed_is_not_a_paused_sandbox(tmp_path: Path, has_files: bool) -> None:
    """The sandbox ended, and its server was killed before it could remove the record."""
    machine = Machine(tmp_path)
    sandbox = sandbox_of(machine)
    sandbox.saved_image, sandbox.until = "snapshot-" + "a" * 20, time.time() + 60
    write(get_folder(cast(Any, machine)), f"{ID}.json", make_record(sandbox).model_dump_json().encode())
    if has_files:
        image = get_record_path(tmp_path / "images", sandbox.saved_image)
        image.parent.mkdir(parents=True)
        image.write_text("{}")
    async with serving(machine) as server:
        saved_of(server).find_for_tenant(cast(Any, machine))
        assert [*server.by_id] == ([ID] if has_files else [])
    assert list_records(machine) == [ID]
