"""Tests of removing the images of deleted snapshots when the record of one tenant cannot be written."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from hotdesk.api.e2b.control.snapshots import Snapshot, TenantSnapshots, get_folder, read
from hotdesk.api.e2b.defaults import Defaults
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes
from hotdesk.api.settings import Serving
from hotdesk.brief.data import CLOSED
from hotdesk.desk.seam import Spec
from hotdesk.errors import HotdeskError

pytestmark = pytest.mark.anyio


@dataclass
class Launcher:
    """Records which images it is asked to remove."""

    removed: list[tuple[str, str]] = field(default_factory=list)

    async def remove_image(self, tenant: str, image: str) -> None:
        self.removed.append((tenant, image))


async def test_a_record_that_cannot_be_written_affects_only_its_tenant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher = Launcher()
    full, other = (
        cast(Any, SimpleNamespace(name=name, settings=SimpleNamespace(lib=tmp_path / name))) for name in ("a", "b")
    )
    async with anyio.create_task_group() as tasks:
        snapshots = TenantSnapshots(cast(Any, launcher), Sandboxes(Serving(), tasks, Defaults(CLOSED, {})))
        for tenant in (full, other):
            await snapshots.expect(tenant, "snapshot-x")
        get_folder(full).chmod(0o755)  # then the server refuses to write there
        tasks.start_soon(snapshots.run)
        for _ in range(2):
            snapshots.deleted.set()
            with anyio.fail_after(10):
                while read(get_folder(other)):
                    await anyio.sleep(0.005)
            await snapshots.expect(other, "snapshot-y")
        tasks.cancel_scope.cancel()
    assert [image for tenant, image in launcher.removed if tenant == "b"] == ["snapshot-x", "snapshot-y"]
    assert launcher.removed.count(("a", "snapshot-x")) > 1, "tried again until its record is written"
    assert "other users can enter" in capsys.readouterr().err


async def test_a_snapshot_whose_deletion_cannot_be_written_still_exists(tmp_path: Path) -> None:
    tenant = cast(Any, SimpleNamespace(name="a", settings=SimpleNamespace(lib=tmp_path / "a")))
    snapshot = Snapshot("word:default", "snapshot-word", "sandbox", 1.0)
    async with anyio.create_task_group() as tasks:
        snapshots = TenantSnapshots(cast(Any, Launcher()), Sandboxes(Serving(), tasks, Defaults(CLOSED, {})))
        await snapshots.drop(tenant, None, snapshot)
        get_folder(tenant).chmod(0o755)
        with pytest.raises(HotdeskError, match="other users can enter"):
            await snapshots.delete(tenant, "word")
        with pytest.raises(HotdeskError, match="other users can enter"):
            await snapshots.drop(tenant, None, replace(snapshot, id="other:default"))
        assert [*snapshots.of(tenant)] == ["word:default"]
        assert not snapshots.deleted.is_set(), "its image must not be removed"


async def test_snapshots_changed_at_the_same_time_are_all_written(tmp_path: Path) -> None:
    tenant = cast(Any, SimpleNamespace(name="a", settings=SimpleNamespace(lib=tmp_path / "a")))
    made = [Snapshot("a/name:default", f"snapshot-{number}", "sandbox", 1.0, named=True) for number in range(4)]
    async with anyio.create_task_group() as tasks:
        snapshots = TenantSnapshots(cast(Any, Launcher()), Sandboxes(Serving(), tasks, Defaults(CLOSED, {})))
        async with anyio.create_task_group() as changing:
            for each in made:
                changing.start_soon(snapshots.drop, tenant, each.id, each)
        found = read(get_folder(tenant))
    assert {each.image for each in found} == {each.image for each in made}
    assert len([each for each in found if not each.deleted]) == 1, "a name means one snapshot"


@dataclass
class Computer:
    """A desk that can be saved."""

    id: str = "i" + "a" * 20
    saved: list[str] = field(default_factory=list)

    async def save(self, name: str) -> None:
        self.saved.append(name)


async def test_nothing_is_left_of_a_snapshot_that_cannot_be_recorded(tmp_path: Path) -> None:
    tenant = cast(Any, SimpleNamespace(name="a", settings=SimpleNamespace(lib=tmp_path / "a")))
    launcher, desk = Launcher(), Computer()
    async with anyio.create_task_group() as tasks:
        snapshots = TenantSnapshots(cast(Any, launcher), Sandboxes(Serving(), tasks, Defaults(CLOSED, {})))
        sandbox = Sandbox(cast(Any, desk), tenant, "base", Spec(), CLOSED, "token", time.time(), time.time() + 60)
        await snapshots.take(sandbox, None)
        get_folder(tenant).chmod(0o755)  # then the server refuses to write there
        with pytest.raises(HotdeskError, match="other users can enter"):
            await snapshots.take(sandbox, None)
    assert launcher.removed == [("a", image) for image in desk.saved[1:]]
    assert len(desk.saved) == 2
