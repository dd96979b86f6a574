"""A worker for tests of the form "In your words": it reads a file and makes a workbook, with the tools of its desk."""

from __future__ import annotations

from hotdesk.brain.models.scripted import Hands, step

MAKE = """
import openpyxl
book = openpyxl.Workbook()
sheet = book.active
sheet.title = "Numbers"
sheet.append(["Thing", "Amount"])
for line in open("numbers.csv").read().splitlines():
    thing, amount = line.split(",")
    sheet.append([thing, float(amount)])
book.save("Report.xlsx")
"""


async def make(hands: Hands) -> None:
    await hands.run(["python3", "-c", MAKE])


PLAN = (step(make, tools=["run"], files=["numbers.csv"], makes=["Report.xlsx"]),)
