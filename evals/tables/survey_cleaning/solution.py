"""The reference solution: one program cleans and summarises. This script runs outside the desk."""

from __future__ import annotations

from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

PROGRAM = Path(__file__).with_name("solve.py")


async def clean(hands: Hands) -> Done:
    """Clean both waves by the rules, and write table and summary."""
    await hands.write("solve.py", PROGRAM.read_bytes())
    return await hands.run(["python3", "solve.py"], timeout=120)


PLAN = (step(clean, files=["TASK.md", "wave1.xlsx", "wave2.csv"], makes=["clean.csv", "summary.csv"]),)
