"""A template for tests of the page: a worker that fails once, and makes files with pages. No model is needed."""

from __future__ import annotations

from pathlib import Path

FOUND = "3 of 9 rows differ from the books"
"""The finding that the worker reports."""
TEMPLATE = """
title = "Files with pages"
text = "Makes a workbook, a letter and a paper."
"""
BRIEF = """
goal = "Compare the rows with the books."
image = "office"
egress = ["POST https://shop.example/orders up=4K"]
seconds = 240

[[deliverables]]
path = "out/Totals.xlsx"
check = "xlsx"

[[deliverables]]
path = "out/Letter.docx"
check = "docx"

[[deliverables]]
path = "out/Paper.pdf"
check = "pdf"

[[deliverables]]
path = "out/rows.csv"
check = "csv"
"""
BRAIN = f'''"""A worker that fails once, and makes files."""

from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step

MAKE = Path(__file__).with_name("make.py")


async def make(hands: Hands):
    """Make the files."""
    await hands.run(["sh", "-c", "echo half of it is done; echo the printer is on fire >&2; exit 3"])
    hands.say("That did not work. Once more, without a printer.")
    await hands.write("make.py", MAKE.read_bytes())
    await hands.run(["python3", "make.py"])
    return {FOUND!r}


FILES = [f"out/{{name}}" for name in ("Totals.xlsx", "Letter.docx", "Paper.pdf", "rows.csv")]
PLAN = (step(make, makes=FILES),)
'''
MAKE = '''"""Makes the files, inside a desk."""

import os

import docx
import openpyxl
from reportlab.pdfgen.canvas import Canvas

os.mkdir("out")
book = openpyxl.Workbook()
for row in [("row", "amount"), *((n, 10 * n) for n in range(1, 10))]:
    book.active.append(row)
book.save("out/Totals.xlsx")
letter = docx.Document()
letter.add_paragraph("Three of nine rows differ from the books.")
letter.save("out/Letter.docx")
paper = Canvas("out/Paper.pdf")
for page in (1, 2):
    paper.drawString(72, 700, f"Page {page} of the paper")
    paper.showPage()
paper.save()
with open("out/rows.csv", "w") as file:
    file.write("row,amount\\n1,10\\n")
print("made")
'''


def install(templates: Path, name: str = "files") -> None:
    folder = templates / name
    folder.mkdir(parents=True)
    for file, text in (("template.toml", TEMPLATE), ("brief.toml", BRIEF), ("brain.py", BRAIN), ("make.py", MAKE)):
        (folder / file).write_text(text)
