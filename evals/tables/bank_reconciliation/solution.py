"""The reference solution: one program reads and compares all files. This script runs outside the desk."""

from __future__ import annotations

from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

PROGRAM = Path(__file__).with_name("solve.py")
INPUTS = ["atlantic.csv", "northbank.csv", "sparbank.csv", "ledger.xlsx"]


async def reconcile(hands: Hands) -> Done:
    """Compare the statements with the ledger, and write the workbook."""
    await hands.write("solve.py", PROGRAM.read_bytes())
    return await hands.run(["python3", "solve.py"], timeout=120)


PLAN = (step(reconcile, files=INPUTS, makes=["Reconciliation.xlsx"]),)
