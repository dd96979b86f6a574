"""The reference solution, a written script: fill the form, read what the program says, export by the menu."""

from __future__ import annotations

import csv

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.tool import Observation

READ = '''"""Read the program's message, in the light box of a picture: `python3 read.py PICTURE`."""

import subprocess
import sys

import numpy as np
from PIL import Image

picture = Image.open(sys.argv[1]).convert("RGB")
light = (np.asarray(picture) == (0xFF, 0xFF, 0xF0)).all(axis=2)
rows, columns = np.flatnonzero(light.sum(axis=1) > 300), np.flatnonzero(light.sum(axis=0) > 20)
if not len(rows) or not len(columns):
    sys.exit("the window is not there")
box = picture.crop((columns[0] + 4, rows[0] + 2, columns[-1] - 4, rows[-1] - 2)).convert("L")
box.resize((box.width * 3, box.height * 3), Image.Resampling.LANCZOS).save("box.png", dpi=(288, 288))
argv = ["tesseract", "box.png", "-", "--psm", "7"]
print(subprocess.run(argv, capture_output=True, check=True, text=True).stdout.strip())
'''
LOOKS = 40


async def enter(hands: Hands) -> str:
    """Book each request at the first berth that the program accepts, then export all bookings."""
    await hands.write("read.py", READ.encode())
    requests = await read_table(hands, "requests.csv")
    berths = await read_table(hands, "berths.csv")
    await use(hands, "screen_launch", argv=["python3", "harbour.pyz"])
    await message(hands, "Ready")
    booked: set[tuple[str, str]] = set()
    for number, boat, length, arrival, nights in requests:
        if (boat, arrival) in booked:
            continue
        booked.add((boat, arrival))
        year, month, day = arrival.split("-")
        for berth in (name for name, longest in berths if float(length) <= float(longest)):
            fields = (number, boat, berth, f"{day}/{month}/{year}", nights)
            await use(hands, "screen_type", text="\t".join(fields) + "\n")
            reply = await message(hands, f"Booked {berth} for request {number}", f"Refused: {berth} is taken")
            if reply == 0:
                break
    await use(hands, "screen_key", keys="alt+f")
    await use(hands, "screen_settle", quiet=0.5)
    await use(hands, "screen_key", keys="a")
    await message(hands, "Exported")
    return "All requests are entered, and the bookings are exported."


PLAN = (
    step(
        enter,
        files=["harbour.pyz", "harbour.dat", "requests.csv", "berths.csv", "TASK.md"],
        makes=["bookings.csv"],
    ),
)


async def read_table(hands: Hands, path: str) -> list[list[str]]:
    """Return the rows of a table without its head."""
    return list(csv.reader((await hands.read(path)).decode().splitlines()))[1:]


async def message(hands: Hands, *expected: str) -> int:
    """Wait until the program shows one of the expected messages; return its index."""
    text = ""
    for _ in range(LOOKS):
        await use(hands, "screen_settle", quiet=0.4)
        await hands.write("window.png", (await use(hands, "screen_screenshot")).image)
        done = await hands.run(["python3", "read.py", "window.png"], timeout=60)
        text = done.text.strip() if done.ok else ""
        for place, each in enumerate(expected):
            if plain(each) in plain(text):
                return place
    raise ValueError(f"The program says {text!r}, and not {' or '.join(expected)}.")


def plain(text: str) -> str:
    """Replace letters and digits that look alike by one of them."""
    return "".join(text.split()).translate(str.maketrans("Il|OoB", "111008"))


async def use(hands: Hands, tool: str, **arguments: object) -> Observation:
    """Use a tool that must succeed."""
    seen = await hands.use(tool, **arguments)
    if not seen.ok:
        raise ValueError(seen.text)
    return seen
