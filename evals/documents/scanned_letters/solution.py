"""The reference solution: one program recognises all letters. This script runs outside the desk."""

from __future__ import annotations

from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

PROGRAM = Path(__file__).with_name("solve.py")


async def register(hands: Hands) -> Done:
    """Recognise every letter, and write the register."""
    await hands.write("solve.py", PROGRAM.read_bytes())
    return await hands.run(["python3", "solve.py"], timeout=600)


PLAN = (step(register, files=["letters"], makes=["register.csv"]),)
