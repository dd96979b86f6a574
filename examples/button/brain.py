"""A worker that finds what is off by looking: it takes a picture, measures, mends, and looks again. Runs outside."""

from __future__ import annotations

import json
from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.tool import Observation

HERE = Path(__file__).parent
PLANS = ("small", "medium", "large")
"""What the cards are, from the left."""
SERVE = "setsid python3 -m http.server 8000 --bind 127.0.0.1 --directory page >/dev/null 2>&1 &"
WAIT = "curl --silent --show-error --retry 100 --retry-connrefused --retry-delay 1 --output /dev/null"
PAGE = "http://127.0.0.1:8000/"
FRESH = "fetch('style.css', {cache: 'reload'}).then(answer => answer.ok)"
"""A page that is loaded again may take its stylesheet from the browser's cache, so that is fetched first."""


async def look(hands: Hands) -> str:
    """Serve the page in the desk, take a picture of it, and measure which button is off."""
    for name in ("measure.py", "mend.py"):
        await hands.write(name, (HERE / name).read_bytes())
    await run(hands, "sh", "-c", f"{SERVE} {WAIT} {PAGE}")
    await use(hands, "browser_goto", url=PAGE)
    places = await seen(hands, "before.png")
    off = [(plan, *place) for plan, place in zip(PLANS, places, strict=True) if place != [0, 0]]
    if len(off) != 1:
        raise ValueError(f"one button should be off, and these are: {off}")
    [(plan, across, down)] = off
    await hands.write("found.json", json.dumps({"button": plan, "across": across, "down": down}).encode())
    return f"the button of {plan} is off by {across:+d} pixels across and {down:+d} down"


async def mend(hands: Hands) -> str:
    """Take out of the stylesheet what moves that button."""
    found = json.loads(await hands.read("found.json"))
    await run(hands, "cp", "page/style.css", "style.css")
    await run(hands, "python3", "mend.py", "style.css", str(found["across"]), str(found["down"]))
    return "the stylesheet is mended"


async def look_again(hands: Hands) -> str:
    """Take a picture of the page with the mended stylesheet; every button must be in its place."""
    await run(hands, "cp", "style.css", "page/style.css")
    await use(hands, "browser_evaluate", expression=FRESH)
    await use(hands, "browser_history", go="reload")
    places = await seen(hands, "after.png")
    if places != [[0, 0]] * len(PLANS):
        raise ValueError(f"the buttons are {places} from their places")
    return "every button is where it belongs"


PLAN = (
    step(look, files=["page"], makes=["before.png", "found.json"]),
    step(mend, files=["page", "found.json"], makes=["style.css"], keeps=True),
    step(look_again, files=["page", "style.css"], makes=["after.png"], keeps=True),
)


async def seen(hands: Hands, name: str) -> list[list[int]]:
    """Take a picture of the screen, and have it measured in the desk."""
    await use(hands, "screen_settle")
    await hands.write(name, (await use(hands, "screen_screenshot")).image)
    told: list[list[int]] = json.loads(await run(hands, "python3", "measure.py", name))
    return told


async def run(hands: Hands, *argv: str) -> bytes:
    """Run a program that must succeed; give what it said."""
    done = await hands.run(argv, timeout=60)
    if not done.ok:
        raise ValueError(f"{argv[0]} failed: {done.stderr.decode(errors='replace')[-300:]}")
    return done.stdout


async def use(hands: Hands, tool: str, **arguments: object) -> Observation:
    """Use a tool that must succeed."""
    told = await hands.use(tool, **arguments)
    if not told.ok:
        raise ValueError(told.text)
    return told
