"""The reference solution: one program reads the report and writes the summary. This script runs outside the desk."""

from __future__ import annotations

from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

PROGRAM = Path(__file__).with_name("solve.py")


async def summarise(hands: Hands) -> Done:
    """Read the report, and write the summary under its five headings."""
    await hands.write("solve.py", PROGRAM.read_bytes())
    return await hands.run(["python3", "solve.py"], timeout=120)


PLAN = (step(summarise, files=["report.pdf"], makes=["Summary.docx"]),)
