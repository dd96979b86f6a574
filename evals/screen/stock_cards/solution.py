"""The reference solution, a written script: go through the cards, read each picture, write the table."""

from __future__ import annotations

import json

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.tool import Observation

READ = '''"""Read the light boxes of a picture of the window, from the top: `python3 read.py PICTURE` prints a list.

Words are read by Tesseract; it loses digits of short numbers, so these are compared with the digits of the font.
"""

import json
import subprocess
import sys

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

NUMBERS = (0, 3, 5, 6)
FONT = ImageFont.truetype("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", 80)


def draw_digit(digit):
    picture = Image.new("L", (160, 160), 255)
    ImageDraw.Draw(picture).text((40, 30), digit, 0, FONT)
    return normalise(picture)


def normalise(picture):
    """Cut a digit out, and make all digits the same size."""
    ink = picture.point(lambda level: 255 if level < 128 else 0).getbbox()
    return np.asarray(picture.crop(ink).resize((20, 30), Image.Resampling.LANCZOS), dtype=float)


DIGITS = {digit: draw_digit(digit) for digit in "0123456789"}


def read_number(box):
    dark = (np.asarray(box) < 128).any(axis=0)
    edges = np.flatnonzero(np.diff(np.pad(dark.astype(int), 1))).tolist()
    glyphs = [normalise(box.crop((left, 0, right, box.height))) for left, right in zip(edges[::2], edges[1::2])]
    return "".join(min(DIGITS, key=lambda digit: ((DIGITS[digit] - glyph) ** 2).sum()) for glyph in glyphs)


def read_words(boxes):
    names = []
    for number, box in enumerate(boxes):
        names.append(f"box{number}.png")
        box.resize((box.width * 3, box.height * 3), Image.Resampling.LANCZOS).save(names[-1], dpi=(300, 300))
    with open("boxes.txt", "w") as file:
        file.write("\\n".join(names))
    argv = ["tesseract", "boxes.txt", "-", "--psm", "7"]
    pages = subprocess.run(argv, capture_output=True, check=True, text=True).stdout.split("\\f")
    return [" ".join(page.split()) for page in pages[: len(boxes)]]


picture = Image.open(sys.argv[1]).convert("RGB")
light = (np.asarray(picture) == (0xFF, 0xFF, 0xF0)).all(axis=2)
rows = np.flatnonzero(np.diff(np.pad((light.sum(axis=1) > 200).astype(int), 1))).tolist()
boxes = []
for top, bottom in zip(rows[::2], rows[1::2]):
    columns = np.flatnonzero(light[top:bottom].any(axis=0))
    box = picture.crop((columns[0] + 4, top + 2, columns[-1] - 4, bottom - 2)).convert("L")
    ink = box.point(lambda level: 255 if level < 128 else 0).getbbox()
    boxes.append(ImageOps.expand(box.crop(ink), 10, 254) if ink else box)
texts = read_words(boxes)
for place in NUMBERS if len(boxes) == 9 else ():
    texts[place] = read_number(boxes[place])
print(json.dumps(texts))
'''
WRITE = """import csv
import json

with open("cards.json") as file:
    cards = json.load(file)
with open("reorder.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["Item", "Name", "Free", "Missing"])
    for item, name, _, hand, unit, reserved, level, status, _ in cards:
        free = int(hand) * {"pieces": 1, "dozen": 12}[unit] - int(reserved)
        if {"active": True, "discontinued": False}[status] and free < int(level):
            writer.writerow([item, name, free, int(level) - free])
"""
WINDOW = [100, 0, 1200, 760]
"""The screen without the clock, whose picture changes by itself."""
LOOKS, FIRST_LOOKS = 5, 40


async def read_cards(hands: Hands) -> str:
    """Start the program, and read card after card from its window until there are no more."""
    await hands.write("read.py", READ.encode())
    await use(hands, "screen_launch", argv=["python3", "storeroom.pyz"])
    await use(hands, "screen_move", x=1270, y=10)  # the pointer hides what is below it
    cards: list[list[str]] = []
    misses, before = 0, b""
    while misses < (LOOKS if cards else FIRST_LOOKS):
        await use(hands, "screen_settle", quiet=0.3 + min(misses, LOOKS) / 5)
        picture = (await use(hands, "screen_screenshot", region=WINDOW)).image
        await hands.write("window.png", picture)
        done = await hands.run(["python3", "read.py", "window.png"], timeout=60) if picture != before else None
        card = json.loads(done.stdout) if done is not None and done.ok else []
        if len(card) != 9:  # no window yet, or still the previous card
            misses += 1
            continue
        cards.append(card)
        misses, before = 0, picture
        await use(hands, "screen_key", keys="Right")
    await hands.write("cards.json", json.dumps(cards).encode())
    return f"{len(cards)} cards were read."


async def list_items(hands: Hands) -> object:
    """List what must be reordered."""
    await hands.write("write.py", WRITE.encode())
    return await hands.run(["python3", "write.py"], timeout=60)


PLAN = (
    step(read_cards, files=["storeroom.pyz", "storeroom.dat"], makes=["cards.json"]),
    step(list_items, files=["cards.json"], makes=["reorder.csv"]),
)


async def use(hands: Hands, tool: str, **arguments: object) -> Observation:
    """Use a tool that must succeed."""
    seen = await hands.use(tool, **arguments)
    if not seen.ok:
        raise ValueError(seen.text)
    return seen
