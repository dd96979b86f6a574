"""Who reads contracts: a worker at each, and one that builds the register of all. Runs outside."""

from __future__ import annotations

from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

HERE = Path(__file__).parent


async def read(hands: Hands) -> Done:
    """Find the six clauses of one contract, each with its page and the sentence that says so."""
    await hands.together(
        hands.write("shapes.py", (HERE.parent / "contract/read.py").read_bytes()),
        hands.write("extract.py", (HERE / "extract.py").read_bytes()),
    )
    return await hands.run(["python3", "extract.py", "item.pdf", f"{hands.item}.json"], timeout=60)


async def build(hands: Hands) -> Done:
    """Build the register of all contracts."""
    await hands.write("register.py", (HERE / "register.py").read_bytes())
    return await hands.run(["python3", "register.py"], timeout=600)


PLAN = (step(read, files=["item.pdf"], makes=["{item}.json"]),)
REDUCE = (step(build, files=["results.jsonl", "quarantine.jsonl"], makes=["register.xlsx"]),)
