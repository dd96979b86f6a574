"""A worker that needs no thinking: three steps, each a program that runs in the desk. This script runs outside."""

from __future__ import annotations

from pathlib import Path

from hotdesk.brain.seam import Hands
from hotdesk.desk.seam import Done

PROGRAM = Path(__file__).with_name("reconcile.py")


async def read(hands: Hands) -> Done:
    """Read number, order, vendor and total of each invoice."""
    await hands.write("reconcile.py", PROGRAM.read_bytes())
    return await hands.run(["python3", "reconcile.py", "read"], timeout=60)


async def ask(hands: Hands) -> Done:
    """Ask the ERP what was ordered."""
    return await hands.run(["python3", "reconcile.py", "ask"], timeout=60)


async def write(hands: Hands) -> Done:
    """Write the report."""
    return await hands.run(["python3", "reconcile.py", "write"], timeout=60)


PLAN = (read, ask, write)
