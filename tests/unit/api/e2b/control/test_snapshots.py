"""Tests of removing the images of deleted snapshots when the record of one tenant cannot be written."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from hotdesk.api.e2b.control.snapshots import TenantSnapshots, get_folder, read
from hotdesk.api.e2b.defaults import Defaults
from hotdesk.api.e2b.sandboxes import Sandboxes
from hotdesk.api.settings import Serving
from hotdesk.brief.data import CLOSED

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
    assert launcher.removed == [("a", "snapshot-x"), ("b", "snapshot-x"), ("b", "snapshot-y")]
    assert "other users can enter" in capsys.readouterr().err
