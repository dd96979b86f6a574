"""Tests of watched folders with E2B's own SDK: by polling (sync), by callbacks (async)."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest
from e2b import (
    AsyncSandbox,
    FileNotFoundException,
    FilesystemEventType,
    InvalidArgumentException,
    Sandbox,
    SandboxException,
)
from e2b.sandbox.filesystem.watch_handle import FilesystemEvent

from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
Type = FilesystemEventType
UPLOAD = [Type.CREATE, Type.CHMOD, Type.WRITE]


@pytest.fixture(scope="module")
def sandbox(server: Served) -> Iterator[Sandbox]:
    made = Sandbox.create(**server.e2b)
    yield made
    made.kill()


def test_an_upload_is_exactly_three_events(sandbox: Sandbox) -> None:
    sandbox.files.make_dir("up")
    watch = sandbox.files.watch_dir("up")
    sandbox.files.write("up/new.txt", "x")
    assert [(one.name, one.type) for one in watch.get_new_events()] == [("new.txt", kind) for kind in UPLOAD]
    assert watch.get_new_events() == []
    watch.stop()
    with pytest.raises(SandboxException, match="already stopped"):
        watch.get_new_events()


def test_moving_and_removing_are_reported(sandbox: Sandbox) -> None:
    sandbox.files.write("mv/a", "x")
    watch = sandbox.files.watch_dir("mv")
    sandbox.files.rename("mv/a", "mv/b")
    sandbox.files.remove("mv/b")
    told = [(one.name, one.type) for one in watch.get_new_events()]
    assert told == [("a", Type.RENAME), ("b", Type.CREATE), ("b", Type.REMOVE)]
    watch.stop()


def test_folders_made_later_are_watched_too(sandbox: Sandbox) -> None:
    sandbox.files.make_dir("deep")
    shallow, deep = sandbox.files.watch_dir("deep"), sandbox.files.watch_dir("deep", recursive=True)
    sandbox.files.write("deep/x/y/file", "x")
    assert "x/y/file" in {one.name for one in deep.get_new_events()}
    assert {one.name for one in shallow.get_new_events()} == {"x"}
    shallow.stop()
    deep.stop()


def test_an_event_has_its_entry_on_request(sandbox: Sandbox) -> None:
    sandbox.files.make_dir("info")
    watch = sandbox.files.watch_dir("info", include_entry=True)
    sandbox.files.write("info/f", "123")
    entries = [one.entry for one in watch.get_new_events()]
    assert [one.path for one in entries if one is not None] == ["/home/user/info/f"] * 3
    sandbox.files.remove("info/f")
    assert [(one.type, one.entry) for one in watch.get_new_events()] == [(Type.REMOVE, None)]
    watch.stop()


def test_only_an_existing_folder_can_be_watched(sandbox: Sandbox) -> None:
    sandbox.files.write("file", "x")
    with pytest.raises(FileNotFoundException):
        sandbox.files.watch_dir("nowhere")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.watch_dir("file")


async def test_async_watching_reports_changes_as_they_happen(server: Served) -> None:
    remote = await AsyncSandbox.create(**server.e2b)
    await remote.files.make_dir("w")
    heard: list[FilesystemEvent] = []
    ended: list[Exception | None] = []
    watch = await remote.files.watch_dir("w", heard.append, on_exit=ended.append, include_entry=True)
    await remote.files.write("w/f", "x")
    with anyio.fail_after(20):
        while len(heard) < 3:
            await anyio.sleep(0.05)
    assert [one.type for one in heard] == UPLOAD
    assert heard[0].entry is not None
    await watch.stop()  # type: ignore[no-untyped-call]
    for path, error in (("nowhere", FileNotFoundException), ("w/f", InvalidArgumentException)):
        with pytest.raises(error):
            await remote.files.watch_dir(path, heard.append)
    await remote.kill()
