"""Tests of copying files from a hostile desk: only plain files below the requested path."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from hotdesk.desk.seam import Desk, Entry, Spec
from hotdesk.desk.wall.local.runtime import local_runtime
from hotdesk.errors import DeskError, FileError
from hotdesk.job.desks import MAX_FILES, carry, find_path_below

pytestmark = pytest.mark.anyio


def entry(path: str, kind: str = "file", mode: int = 0o644, target: str | None = None) -> Entry:
    return Entry(path.rpartition("/")[2], path, kind, 4, mode, 1000, 1000, 0.0, target)  # type: ignore[arg-type]


@dataclass
class Hostile:
    """A desk that sends whatever a test wants."""

    top: Entry
    entries: list[Entry] = field(default_factory=list)
    home: str = "/home/user"
    read: list[str] = field(default_factory=list)
    """The paths it was asked for."""

    async def stat(self, path: str) -> Entry:
        return self.top

    async def list(self, path: str, *, depth: int, limit: int) -> list[Entry]:
        assert limit == MAX_FILES
        if len(self.entries) > limit:
            raise FileError(f"{path} has more than {limit} entries", "other")
        return self.entries

    async def read_stream(self, path: str) -> AsyncIterator[bytes]:
        self.read.append(path)
        yield b"da"
        yield b"ta"


@dataclass
class Target:
    """A desk that records what is written."""

    written: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)

    async def write(self, path: str, data: AsyncIterator[bytes], *, mode: int) -> int:
        pieces = [piece async for piece in data]
        self.written[path] = (b"".join(pieces), mode)
        return 0

    async def mkdir(self, path: str) -> bool:
        self.folders.append(path)
        return True


async def carried(source: Hostile, name: str = "docs") -> Target:
    """Copy a path; return what arrived."""
    target = Target()
    await carry(source, target, name)  # type: ignore[arg-type]
    return target


FOLDER = entry("/home/user/docs", "directory")


async def test_a_file_is_fetched_under_the_requested_name_and_without_special_bits() -> None:
    source = Hostile(entry("/etc/other", mode=0o7777))
    assert (await carried(source, "a.txt")).written == {"a.txt": (b"data", 0o755)}
    assert source.read == ["a.txt"]


async def test_a_folder_comes_with_its_files_and_folders_and_without_anything_else() -> None:
    listed = [
        entry("/home/user/docs/a.txt", mode=0o4000),
        entry("/home/user/docs/in", "directory"),
        entry("docs/in/b.txt"),
        entry("/home/user/docs/link", "symlink", target="/etc/passwd"),
        entry("/home/user/docs/pipe", "other"),
    ]
    found = await carried(Hostile(FOLDER, listed))
    assert found.written == {"docs/a.txt": (b"data", 0o600), "docs/in/b.txt": (b"data", 0o644)}
    assert found.folders == ["docs/in"]


@pytest.mark.parametrize(
    "path",
    [
        "/home/user/other.txt",
        "/home/user/docs/../.bashrc",
        "/home/user/docs/../../root/x",
        "docs/../x",
        "/etc/passwd",
        "/home/user/docsx/a",
        "/home/userx/docs/a",
        "..",
        "",
        "/",
    ],
)
async def test_a_desk_that_lists_what_lies_elsewhere_is_refused(path: str) -> None:
    source = Hostile(FOLDER, [entry(path)])
    with pytest.raises(DeskError, match="malformed listing of the folder 'docs'"):
        await carried(source)
    assert source.read == []


@pytest.mark.parametrize("kind", ["symlink", "other", "device", "anything"])
async def test_special_files_are_not_fetched(kind: str) -> None:
    found = await carried(Hostile(entry("/home/user/docs", kind, target="/etc"), [entry("/home/user/docs/a")]))
    assert (found.written, found.folders) == ({}, [])


async def test_a_listing_without_end_is_refused_and_nothing_comes() -> None:
    source = Hostile(FOLDER, [entry(f"/home/user/docs/{number}") for number in range(MAX_FILES + 1)])
    with pytest.raises(DeskError):
        await carried(source)
    assert source.read == []


def test_what_is_below_a_folder_may_be_named_either_way() -> None:
    source = Hostile(FOLDER)
    found = [find_path_below("docs", source, entry(path)) for path in ("/home/user/docs/a", "docs/a", "/docs/a")]  # type: ignore[arg-type]
    assert found == ["docs/a", "docs/a", None]


async def test_between_real_desks_links_are_not_copied_and_missing_paths_are_no_error() -> None:
    async with local_runtime() as runtime:
        one: Desk = await runtime.open(Spec())
        other: Desk = await runtime.open(Spec())
        await one.write("docs/in/a.txt", b"a", mode=0o750)
        await one.run(
            ["sh", "-c", "ln -s /etc/passwd docs/link; ln -s /etc docs/folder; mkfifo docs/pipe; ln -s docs l"]
        )
        for name in ("docs", "l", "missing"):
            await carry(one, other, name)
        found = {each.path.removeprefix(f"{other.home}/"): each.kind for each in await other.list(".", depth=9)}
        assert found == {"docs": "directory", "docs/in": "directory", "docs/in/a.txt": "file"}
        assert (await other.stat("docs/in/a.txt")).mode == 0o750
