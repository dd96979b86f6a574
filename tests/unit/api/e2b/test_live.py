"""Tests of the records of sandboxes on nodes when some of them cannot be written."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from hotdesk.api.e2b.defaults import Defaults
from hotdesk.api.e2b.live import LiveRecords, get_folder
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes, SandboxOrder
from hotdesk.api.settings import Serving
from hotdesk.brief.data import CLOSED
from hotdesk.desk.seam import DeskId, Spec
from hotdesk.errors import HostError

pytestmark = pytest.mark.anyio
IDS = [DeskId("i" + letter * 20) for letter in "abc"]


@dataclass
class Machine:
    """A tenant's machine; its desks are only names."""

    ended: list[DeskId] = field(default_factory=list)

    def has_ended(self, desk: DeskId) -> bool:
        return desk in self.ended

    def route(self, spec: Spec) -> Spec:
        return spec

    async def open(self, spec: Spec, scope: object) -> object:
        return SimpleNamespace(id=IDS[0])

    async def fork(self, desk: object, count: int, *, memory: bool) -> list[object]:
        return [SimpleNamespace(id=each) for each in IDS[1 : count + 1]]

    async def end(self, desk: DeskId) -> None:
        self.ended.append(desk)


def tenant_in(lib: Path) -> Any:
    return SimpleNamespace(name=lib.name, settings=SimpleNamespace(lib=lib), host=Machine())


def sandbox_of(tenant: Any, desk: DeskId) -> Sandbox:
    now = time.time()
    return Sandbox(cast(Any, SimpleNamespace(id=desk)), tenant, "base", Spec(), CLOSED, "token", now, now + 60)


def records_of(tasks: Any) -> LiveRecords:
    sandboxes = Sandboxes(Serving(), tasks, Defaults(CLOSED, {}))
    sandboxes.live = LiveRecords(sandboxes, cast(Any, None), cast(Any, None))
    return sandboxes.live


async def until_there(*paths: Path) -> None:
    with anyio.fail_after(10):
        while not all(each.exists() for each in paths):
            await anyio.sleep(0.005)


def block(tenant: Any) -> None:
    """Have the server refuse to write records of a tenant."""
    get_folder(tenant).mkdir(parents=True, exist_ok=True)
    get_folder(tenant).chmod(0o755)


async def test_a_record_that_cannot_be_written_affects_no_other_and_is_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full, other = tenant_in(tmp_path / "full"), tenant_in(tmp_path / "other")
    block(full)
    async with anyio.create_task_group() as tasks:
        live = records_of(tasks)
        for tenant, desk in zip((full, other), IDS, strict=False):
            live.sandboxes.add(sandbox_of(tenant, desk))
        tasks.start_soon(live.run)
        await until_there(get_folder(other) / f"{IDS[1]}.json")
        assert not list(get_folder(full).iterdir())
        get_folder(full).chmod(0o700)
        await until_there(get_folder(full) / f"{IDS[0]}.json")
        tasks.cancel_scope.cancel()
    assert capsys.readouterr().err.count("other users can enter") == 1


async def test_a_record_that_cannot_be_removed_is_removed_later(tmp_path: Path) -> None:
    tenant = tenant_in(tmp_path)
    async with anyio.create_task_group() as tasks:
        live = records_of(tasks)
        sandbox = sandbox_of(tenant, IDS[0])
        live.sandboxes.add(sandbox)
        await live.write(sandbox)
        block(tenant)
        await live.sandboxes.kill(sandbox)
        await live.update()
        assert list(get_folder(tenant).iterdir())
        get_folder(tenant).chmod(0o700)
        await live.update()
    assert not list(get_folder(tenant).iterdir())


async def test_a_sandbox_whose_record_cannot_be_written_is_not_left_open(tmp_path: Path) -> None:
    tenant = tenant_in(tmp_path)
    block(tenant)
    async with anyio.create_task_group() as tasks:
        sandboxes = records_of(tasks).sandboxes
        with pytest.raises(HostError, match="other users can enter"):
            await sandboxes.create(tenant, SandboxOrder("base", "base", 60.0, CLOSED))
        assert (sandboxes.by_id, tenant.host.ended) == ({}, IDS[:1])


async def test_forks_whose_records_cannot_be_written_are_not_left_open(tmp_path: Path) -> None:
    tenant = tenant_in(tmp_path)
    block(tenant)
    async with anyio.create_task_group() as tasks:
        sandboxes = records_of(tasks).sandboxes
        origin = sandbox_of(tenant, IDS[0])
        sandboxes.add(origin)
        with pytest.raises(HostError, match="other users can enter"):
            await sandboxes.fork(origin, 2, 60.0)
        assert (list(sandboxes.by_id), tenant.host.ended) == (IDS[:1], IDS[1:])
