"""A worker that mends a program: what it thinks of first is wrong, and the tests say so. This script runs outside."""

from __future__ import annotations

import re

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

TESTS = ["env", "-C", "repo", "python3", "-B", "-m", "unittest", "-v"]
RED = re.compile(r"^(?:FAIL|ERROR): (\w+) \(tests\.test_(\w+)\.", re.MULTILINE)
FIXES = {
    "shares": (
        "    return [cents // count] * count\n",
        "    share, rest = divmod(cents, count)\n    return [share] * (count - 1) + [share + rest]\n",
        "    share, rest = divmod(cents, count)\n    return [share + 1] * rest + [share] * (count - rest)\n",
    ),
    "months": (
        "    return date(year, month, day.day)\n",
        "    return date(year, month, min(day.day, 28))\n",
        "    return date(year, month, min(day.day, monthrange(year, month)[1]))\n",
    ),
    "prices": (
        "        if below < pieces <= end:\n            total = pieces * cents\n",
        "        if below < pieces <= end:\n            total += (pieces - below) * cents\n",
        "        total += max(min(pieces, end) - below, 0) * cents\n",
    ),
}
"""By module: what is wrong, what it thinks of first, what it thinks of when that was wrong, too."""


async def reproduce(hands: Hands) -> str:
    """Run the tests as they are, and keep what they say."""
    done = await hands.run(TESTS, timeout=60)
    if done.ok:
        raise ValueError("every test is green: there is nothing to mend")
    await hands.write("red.txt", done.stderr)
    return f"red: {', '.join(name for name, _ in RED.findall(heard(done)))}"


async def mend(hands: Hands) -> str:
    """Find what the red test is about, fix it, and try again until every test is green."""
    [(test, module), *_] = RED.findall((await hands.read("red.txt")).decode())
    path = f"repo/billing/{module}.py"
    hands.say(f"{test} is red, so I read {path}.")
    source = (await hands.read(path)).decode()
    wrong, *fixes = FIXES[module]
    for fix in fixes:
        hands.say("I change what I take for the cause, and run every test.")
        await hands.write(path, source.replace(wrong, fix).encode())
        done = await hands.run(TESTS, timeout=60)
        if done.ok:
            return "every test is green"
        hands.say(f"Still red: {', '.join(name for name, _ in RED.findall(heard(done)))}. That was not the cause.")
    raise ValueError("no change makes the tests green")


async def write(hands: Hands) -> Done:
    """Write the difference down, and see that it goes on to what was there before."""
    done = await hands.run(["git", "-C", "repo", "diff", "--output=../fix.patch"])
    if not done.ok:
        return done
    return await hands.run(["git", "-C", "repo", "apply", "--reverse", "--check", "../fix.patch"])


PLAN = (
    step(reproduce, files=["repo"], makes=["red.txt"]),
    step(mend, files=["repo", "red.txt"], makes=["repo"], check="env -C repo python3 -B -m unittest"),
    step(write, files=["repo"], makes=["fix.patch"]),
)


def heard(done: Done) -> str:
    """Give what the tests said."""
    return done.stderr.decode("utf-8", "replace")
