"""Have a misaligned button found by looking, and mended. Nothing is left but two pictures.

sudo .venv/bin/python examples/button/run.py [--out FOLDER] [--seed N]
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import replace
from pathlib import Path

import anyio

from hotdesk import Desk, Host, HotdeskError, Spec, config
from hotdesk.errors import DeskError, printable
from hotdesk.hands.toolbox import Toolbox
from hotdesk.tool import Observation

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import trial

HERE = Path(__file__).parent
PLANS = ("small", "medium", "large")
FARTHEST = 20
"""Pixels a button is off at most."""
SERVE = "setsid python3 -m http.server 8000 --bind 127.0.0.1 --directory page >/dev/null 2>&1 &"
WAIT = "curl --silent --show-error --retry 100 --retry-connrefused --retry-delay 1 --output /dev/null"
PAGE = "http://127.0.0.1:8000/"
FRESH = "fetch('style.css', {cache: 'reload'}).then(answer => answer.ok)"
"""A page that is loaded again may take its stylesheet from the browser's cache, so that is fetched first."""


async def give(seed: int, out: Path, home: Path) -> bool:
    """Open a desk with the page in it, look, mend, look again; say whether the button was off and no longer is."""
    settings = replace(config.load(), run=home / "run", lib=home / "lib")
    which, across, down = misaligned(seed)
    async with Host(settings, control=False) as host, host.open_desk(Spec(image="desktop")) as desk:
        hands = await host.hands(desk)
        await serve(desk, f"#{which} button {{ transform: translate({across}px, {down}px); }}\n")
        await use(hands, "browser_goto", url=PAGE)
        before = await measure(desk, hands, out / "before.png")
        off = [(plan, *place) for plan, place in zip(PLANS, before, strict=True) if place != [0, 0]]
        for plan, right, low in off:
            print(f"looked: the button of {plan} is off by {right:+d} pixels across and {low:+d} down")
            await run(desk, "python3", "mend.py", "page/style.css", str(right), str(low))
        print("mended the stylesheet; the page is loaded again")
        await use(hands, "browser_evaluate", expression=FRESH)
        await use(hands, "browser_history", go="reload")
        after = await measure(desk, hands, out / "after.png")
        print(f"looked: the buttons are {' and '.join(map(str, after))} from their places")
    return off == [(which, across, down)] and after == [[0, 0]] * len(PLANS)


def misaligned(seed: int) -> tuple[str, int, int]:
    """Choose which button is off, and how far: to the right, and down."""
    chance = random.Random(seed)  # noqa: S311 - the same seed gives the same page
    steps = [step for step in range(-FARTHEST, FARTHEST + 1) if step]
    return chance.choice(PLANS), chance.choice(steps), chance.choice(steps)


async def serve(desk: Desk, fault: str) -> None:
    """Put the page into the desk, with a fault in its stylesheet, and serve it there."""
    await desk.write("page/index.html", (HERE / "index.html").read_bytes())
    await desk.write("page/style.css", (HERE / "style.css").read_bytes() + fault.encode())
    for name in ("measure.py", "mend.py"):
        await desk.write(name, (HERE / name).read_bytes())
    await run(desk, "sh", "-c", f"{SERVE} {WAIT} {PAGE}")


async def measure(desk: Desk, hands: Toolbox, kept: Path) -> list[list[int]]:
    """Take a picture of the screen, keep it, and have it measured in the desk."""
    await use(hands, "screen_settle")
    picture = (await use(hands, "screen_screenshot")).image
    kept.write_bytes(picture)
    await desk.write("screen.png", picture)
    told: list[list[int]] = json.loads(await run(desk, "python3", "measure.py", "screen.png"))
    return told


async def run(desk: Desk, *argv: str) -> str:
    """Run a program that must succeed; give what it said."""
    done = await desk.run(argv, timeout=60)
    if not done.ok:
        raise DeskError(f"{argv[0]} failed: {done.stderr.decode(errors='replace')[-300:]!r}")
    return done.text


async def use(hands: Toolbox, tool: str, **arguments: object) -> Observation:
    """Use a tool that must succeed."""
    seen = await hands.use(tool, arguments)
    if not seen.ok:
        raise DeskError(seen.text)
    return seen


def main() -> int:
    """Try it in a state directory of its own."""
    told = trial.arguments("A misaligned button on a page is found by looking, and mended.")
    held = False
    try:
        with trial.state("button") as home:
            held = anyio.run(give, told.seed, told.out, home)
    except* HotdeskError as group:
        print(*(printable(str(error)) for error in group.exceptions), sep="\n", file=sys.stderr)
    except* KeyboardInterrupt:
        print("it was broken off", file=sys.stderr)
    print("the button was off, and is where it belongs" if held else "that is NOT what was to be found and mended")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
