"""Tests of the limit on a tenant's archives, whatever uploads come at the same time."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from starlette.requests import Request

from hotdesk.api.e2b.builds.uploads import (
    MAX_ARCHIVE_BYTES,
    MAX_TENANT_BYTES,
    TemplateFiles,
    UploadLink,
    prepare_folder,
)
from hotdesk.api.e2b.responses import E2bError

pytestmark = pytest.mark.anyio
FITTING = MAX_TENANT_BYTES // MAX_ARCHIVE_BYTES
"""Archives of the maximum size that a tenant may have."""


def tenant_in(lib: Path) -> Any:
    return SimpleNamespace(name="default", settings=SimpleNamespace(lib=lib, disk_floor=0))


class Upload:
    """One upload: its client sends `size` bytes when it is told to."""

    def __init__(self, files: TemplateFiles, tenant: Any, number: int, length: int | None) -> None:
        self.files, self.link = files, UploadLink(tenant, f"{number:064x}", 0.0)
        self.goes_on = anyio.Event()
        self.begun = anyio.Event()
        self.content = b""
        headers = [] if length is None else [(b"content-length", b"%d" % length)]
        self.request = Request({"type": "http", "headers": headers}, self.receive)

    async def receive(self) -> dict[str, object]:
        self.begun.set()
        await self.goes_on.wait()
        return {"type": "http.request", "body": self.content, "more_body": False}

    async def run(self) -> None:
        await self.files.save(self.link, self.request)

    def finish(self, content: bytes) -> None:
        self.content = content
        self.goes_on.set()


@asynccontextmanager
async def waiting(files: TemplateFiles, tenant: Any, count: int, length: int | None) -> AsyncIterator[list[Upload]]:
    """Begin uploads, which wait for their clients."""
    uploads = [Upload(files, tenant, number, length) for number in range(count)]
    async with anyio.create_task_group() as tasks:
        for each in uploads:
            tasks.start_soon(each.run)
        with anyio.fail_after(10):
            for each in uploads:
                await each.begun.wait()
        yield uploads
        tasks.cancel_scope.cancel()


def make_archive(tenant: Any, number: int, used: float) -> Path:
    """Make an archive of the maximum size that uses no disk, last used at a time."""
    path = prepare_folder(tenant) / f"{number:064x}"
    path.touch()
    os.truncate(path, MAX_ARCHIVE_BYTES)
    os.utime(path, (used, used))
    return path


@pytest.mark.parametrize("length", [MAX_ARCHIVE_BYTES, None], ids=["announced", "of unknown length"])
async def test_uploads_at_the_same_time_do_not_exceed_the_limit_together(tmp_path: Path, length: int | None) -> None:
    files, tenant = TemplateFiles(), tenant_in(tmp_path)
    async with waiting(files, tenant, FITTING, length):
        one_more = Upload(files, tenant, 99, length)
        with anyio.fail_after(10), pytest.raises(E2bError, match="other uploads") as refused:
            await one_more.run()
        assert refused.value.status == 429
        other = Upload(files, tenant_in(tmp_path / "other"), 1, length)
        other.finish(b"another tenant's")
        await other.run()
    one_more.finish(b"now there is room")
    await one_more.run()
    assert [path.name for path in prepare_folder(tenant).iterdir()] == [one_more.link.digest]


async def test_the_least_recently_used_archives_make_room_for_uploads_at_the_same_time(tmp_path: Path) -> None:
    files, tenant = TemplateFiles(), tenant_in(tmp_path)
    old = [make_archive(tenant, 100 + number, used=1e9 + number) for number in range(FITTING)]
    async with waiting(files, tenant, FITTING - 1, MAX_ARCHIVE_BYTES):
        assert [path.exists() for path in old] == [*[False] * (FITTING - 1), True]


async def test_an_upload_that_ended_gives_its_share_back(tmp_path: Path) -> None:
    files, tenant = TemplateFiles(), tenant_in(tmp_path)
    for number in range(2 * FITTING):
        upload = Upload(files, tenant, number, MAX_ARCHIVE_BYTES)
        upload.finish(b"x")
        await upload.run()
    assert len(list(prepare_folder(tenant).iterdir())) == 2 * FITTING


async def test_an_archive_that_is_longer_than_announced_is_refused(tmp_path: Path) -> None:
    upload = Upload(TemplateFiles(), tenant_in(tmp_path), 1, length=2)
    upload.finish(b"four")
    with pytest.raises(E2bError, match="Content-Length"):
        await upload.run()


async def test_what_an_earlier_server_received_in_part_is_removed(tmp_path: Path) -> None:
    files, tenant = TemplateFiles(), tenant_in(tmp_path)
    left = prepare_folder(tenant) / ".0123456789abcdef"
    left.touch()
    async with waiting(files, tenant, 2, MAX_ARCHIVE_BYTES):
        assert set(prepare_folder(tenant).iterdir()) == set(files.reserved)
        assert len(files.reserved) == 2
