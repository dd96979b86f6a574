"""Test that neither a server nor its helper processes grow while sandboxes come and go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from e2b import AsyncSandbox

from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.container, pytest.mark.long, pytest.mark.anyio, pytest.mark.timeout(7200)]
CYCLES = int(os.environ.get("HOTDESK_SOAK_CYCLES", "300"))
"""Sandboxes of the whole soak; a day's worth is 10,000."""
WARM = max(50, CYCLES // 5)
"""Sandboxes after which all processes have reached their full size."""
AT_ONCE = 4
GROWTH = 16 << 20
"""Bytes of memory by which a process may vary."""
SPARE = 16
"""Descriptors that may be open temporarily."""
PARTS = {
    "hotdesk.api.launch.launcher": "launcher",
    "keeper.main()": "keeper",
    "hotdesk.keys.": "keys",
    "hotdesk.door.": "door",
}
"""A server's helper processes, by a part of their command line."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a process."""

    memory: int
    """Bytes of private memory."""
    files: int

    def __add__(self, other: Size) -> Size:
        return Size(self.memory + other.memory, self.files + other.files)


def children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from children(child)


def part_of(pid: int) -> str | None:
    """Return which part of a server a process is, or None if it belongs to a desk."""
    command = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return next((part for word, part in PARTS.items() if word in command), None)


def size_of(pid: int) -> Size:
    told = Path(f"/proc/{pid}/status").read_text()
    return Size(int(told.partition("RssAnon:")[2].split()[0]) << 10, len(os.listdir(f"/proc/{pid}/fd")))


def sizes(server: Served) -> dict[str, Size]:
    found = {"server": size_of(server.process.pid)}
    for pid in children(server.process.pid):
        if (part := part_of(pid)) is not None:
            found[part] = size_of(pid) + found.get(part, Size(0, 0))
    return found


async def live(server: Served, count: int) -> None:
    left = iter(range(count))

    async def one_after_another() -> None:
        for _ in left:
            sandbox = await AsyncSandbox.create(**server.e2b)
            await sandbox.commands.run("true")
            await sandbox.kill()

    async with anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):
            tasks.start_soon(one_after_another)


async def test_a_server_and_its_helpers_do_not_grow_with_sandboxes_that_come_and_go(server: Served) -> None:
    await live(server, WARM)
    before = sizes(server)
    await live(server, CYCLES - WARM)
    after = sizes(server)
    print(*(f"{part}: {before[part]} -> {after[part]}" for part in before), sep="\n")
    assert before.keys() == after.keys() == {"server", *PARTS.values()}
    assert {part: size for part, size in after.items() if size.memory > before[part].memory + GROWTH} == {}
    assert {part: size for part, size in after.items() if size.files > before[part].files + SPARE} == {}
