"""A worker that carries a table from one site to another by their pages. This script runs outside."""

from __future__ import annotations

import csv
import io
import os
import re
from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done
from hotdesk.tool import Observation

PROGRAM = Path(__file__).with_name("transform.py")
SHOP, BOARD = "https://shop.example.test/", "https://board.example.test/"
ORDERS = "orders.csv"


async def download(hands: Hands) -> Done:
    """Choose year and quarter in the shop's lists, and download the orders."""
    await use(hands, "browser_goto", url=SHOP)
    page = (await use(hands, "browser_snapshot")).text
    await use(hands, "browser_select", ref=reference(page, 'combobox "Year'), values=["2025"])
    await use(hands, "browser_select", ref=reference(page, 'combobox "Quarter'), values=["Q3"])
    await use(hands, "browser_click", ref=reference(page, 'button "Download'))
    told = (await use(hands, "browser_downloads", wait=True)).text
    found = re.search(r"^- (/[^\n]*): completed, (\d+) of \2 bytes$", told, re.MULTILINE)
    if found is None:
        raise ValueError(f"no download was completed: {told}")
    return await hands.run(["mv", found[1], ORDERS])


async def transform(hands: Hands) -> Done:
    """Add the orders up by region."""
    await hands.write("transform.py", PROGRAM.read_bytes())
    return await hands.run(["python3", "transform.py", "sums", ORDERS], timeout=60)


async def upload(hands: Hands) -> Done:
    """Upload the sums by the board's form, and see that its dashboard shows them."""
    await use(hands, "browser_goto", url=BOARD)
    page = (await use(hands, "browser_snapshot")).text
    await use(hands, "browser_upload", ref=reference(page, "Table"), paths=["sums.csv"])
    await use(hands, "browser_click", ref=reference(page, 'button "Upload'))
    await use(hands, "browser_wait_for", what="url", value=f"{BOARD}dashboard")
    shown = (await use(hands, "browser_read")).text
    for row in csv.DictReader(io.StringIO((await hands.read("sums.csv")).decode())):
        if not re.search(rf"\b{re.escape(row['Region'])}\b[^\n]*\b{re.escape(row['Total'])}\b", shown):
            return Done(1, stderr=f"the dashboard does not show {row['Total']} for {row['Region']}".encode())
    await use(hands, "screen_settle")
    picture = (await use(hands, "screen_screenshot")).image
    await hands.write("dashboard.png", picture)
    if folder := os.environ.get("PICTURES"):
        Path(folder, "dashboard.png").write_bytes(picture)
    return Done(0)


async def report(hands: Hands) -> Done:
    """Write the sums as a workbook, with a picture of the dashboard."""
    return await hands.run(["python3", "transform.py", "report"], timeout=60)


PLAN = (
    step(download, makes=["orders.csv"]),
    step(transform, files=["orders.csv"], makes=["sums.csv"]),
    step(upload, files=["sums.csv"], makes=["dashboard.png"]),
    step(report, files=["sums.csv", "dashboard.png"], makes=["Sums.xlsx"]),
)


async def use(hands: Hands, tool: str, **arguments: object) -> Observation:
    """Use a tool that must succeed."""
    seen = await hands.use(tool, **arguments)
    if not seen.ok:
        raise ValueError(seen.text)
    return seen


def reference(page: str, what: str) -> str:
    """Give the reference of what stands in a page's snapshot."""
    found = re.search(rf"{re.escape(what)}[^\n]*?\[(e\d+)\]", page)
    if found is None:
        raise ValueError(f"the page has no {what}")
    return found[1]
