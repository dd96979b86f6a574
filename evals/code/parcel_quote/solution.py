"""The reference solution, a written script: reproduce, follow the quote to its inputs, repair, write the patch."""

from __future__ import annotations

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

TESTS = ["env", "-C", "repo", "python3", "-B", "-m", "unittest", "-v"]
REPAIRS = (
    ("units", "total = float(number)", "total += float(number)"),
    ("zones", "for size in range(1, len(postcode) + 1):", "for size in range(len(postcode), 0, -1):"),
    ("units", '"in": 25.0}', '"in": 25.4}'),
)


async def reproduce(hands: Hands) -> str:
    """Run the tests; one of them must fail."""
    done = await hands.run(TESTS, timeout=60)
    if done.ok:
        raise ValueError("Every test passes.")
    return "One test fails."


async def repair(hands: Hands) -> str:
    """Read the inputs of a quote, and repair the line that contradicts its docstring."""
    for module, wrong, right in REPAIRS:
        path = f"repo/freight/{module}.py"
        source = (await hands.read(path)).decode()
        if wrong in source:
            await hands.write(path, source.replace(wrong, right).encode())
            done = await hands.run(TESTS, timeout=60)
            if done.ok:
                return f"Repaired {module}.py; every test passes."
    raise ValueError("No known cause was found.")


async def write(hands: Hands) -> Done:
    """Write the patch."""
    return await hands.run(["git", "-C", "repo", "diff", "--output=../fix.patch"])


PLAN = (
    step(reproduce, files=["repo"]),
    step(repair, files=["repo"], makes=["repo"]),
    step(write, files=["repo"], makes=["fix.patch"]),
)
