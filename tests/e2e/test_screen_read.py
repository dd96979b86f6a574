"""Tests of a real desk's programs that are read by their accessibility trees, and used by reference, not by pixels."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import FileError
from hotdesk.hands.toolbox import Toolbox
from hotdesk.host import Host
from tests.conftest import settings_in

pytestmark = pytest.mark.container
FORM = Path(__file__).with_name("screen_form.py")
BOOK = """
from openpyxl import Workbook
book = Workbook()
book.active.append(["Month", "Sales"])
book.active.append(["May", 17])
book.save("sales.xlsx")
"""


@dataclass
class Place:
    """A desk, used by its tools."""

    desk: Desk
    toolbox: Toolbox

    async def use(self, name: str, **arguments: object) -> str:
        seen = await self.toolbox.use(name, arguments)
        assert seen.ok, seen.text
        return seen.text

    async def find(self, shape: str) -> str:
        """Read the screen until a line matches; return its reference."""
        text = ""
        with anyio.move_on_after(90):
            while True:
                text = await self.use("screen_read")
                for line in text.splitlines():
                    if re.search(shape, line) and (ref := re.search(r"\[(a\d+)\]", line)):
                        return ref[1]
                await anyio.sleep(0.3)
        pytest.fail(f"no line is like {shape}:\n{text}")

    async def close(self, program: str) -> None:
        await self.desk.run(["pkill", "-f", program])
        with anyio.fail_after(30):
            while (await self.desk.run(["pgrep", "-f", program])).ok:
                await anyio.sleep(0.2)


@pytest.fixture(scope="module")
async def place(home: Path) -> AsyncIterator[Place]:
    async with Host(settings_in(home / "read"), control=False) as host, host.open_desk(Spec(image="desktop")) as desk:
        yield Place(desk, await host.hands(desk))


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_text_is_written_and_saved_by_references(place: Place) -> None:
    await place.use("screen_launch", argv=["mousepad"])
    await place.use("screen_type", text="Grüße\nby reference", ref=await place.find(r"- text \(focused\)"))
    await place.use("screen_click", ref=await place.find(r'- menu "File"'))
    await place.use("screen_click", ref=await place.find(r'- menu item "Save As'))
    await place.use("screen_type", text="note.txt", ref=await place.find(r'- text "Name:"'))
    save = await place.find(r'- button "Save" \[')
    await place.use("screen_click", ref=save)
    with anyio.fail_after(60):
        while True:
            try:
                if (await place.desk.read("note.txt")).decode().strip() == "Grüße\nby reference":
                    break
            except FileError:
                pass
            await anyio.sleep(0.1)
    await place.find(r"- text .*Grüße")
    gone = await place.toolbox.use("screen_click", {"ref": save})
    assert (gone.ok, "no longer on the screen: use screen_read again" in gone.text) == (False, True), gone.text
    await place.close("mousepad")


@pytest.mark.timeout(300)
async def test_a_cell_of_a_sheet_is_changed_by_reference(place: Place) -> None:
    assert (await place.desk.run(["python3", "-c", BOOK])).ok
    await place.use("screen_launch", argv=["libreoffice", "--norestore", "--calc", "sales.xlsx"])
    await place.find(r'- table cell "B2": 17')
    await place.use("screen_settle", quiet=1)  # it continues to start after its window is up
    await place.use("screen_type", text="18\n", ref=await place.find(r'- table cell "B2": 17'))
    await place.find(r'- table cell "B2": 18')
    assert 'table cell "A2": May' in await place.use("screen_read", window="sales.xlsx")
    await place.close("soffice")


@pytest.mark.timeout(120)
async def test_a_program_without_an_accessibility_tree_is_used_by_pixels(place: Place) -> None:
    await place.desk.write("form.py", FORM.read_bytes())
    await place.use("screen_launch", argv=["python3", "form.py"])
    with anyio.fail_after(60):
        while "No window has the focus" in (seen := await place.toolbox.use("screen_read", {})).text:
            await anyio.sleep(0.2)
    assert (seen.ok, seen.fallback) == (True, "coordinates")
    assert "shows no widgets to other programs" in seen.text
    assert "screen_screenshot" in seen.text
    both = await place.toolbox.use("screen_click", {"ref": "a1", "x": 1, "y": 1})
    assert (both.ok, "not both" in both.text) == (False, True)
    await place.close("form.py")
