"""The reference solution, a written script: measure needles and alarm ranges by colour, read the rest by OCR."""

from __future__ import annotations

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

PROGRAM = '''"""Read the dials of all panels, and write readings.csv."""

import csv
import math
import subprocess
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

CENTRES, RADIUS = ((300, 230), (900, 230), (300, 570), (900, 570)), 150


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


def read_number(picture, box):
    """Read a number by comparing its digits with those of the font; a red needle is as light as paper in red light."""
    part = picture.crop(tuple(map(round, box))).getchannel("R")
    edges = np.flatnonzero(np.diff(np.pad((np.asarray(part) < 128).any(axis=0).astype(int), 1))).tolist()
    glyphs = [normalise(part.crop((left, 0, right, part.height))) for left, right in zip(edges[::2], edges[1::2])]
    digits = [min(DIGITS, key=lambda digit: ((DIGITS[digit] - glyph) ** 2).sum()) for glyph in glyphs]
    return float("".join(digits) or "nan")


def read_text(picture, box):
    """Read the text in a part of a picture."""
    part = picture.crop(tuple(map(round, box))).getchannel("R")
    part = part.resize((part.width * 4, part.height * 4), Image.Resampling.LANCZOS)
    padded = Image.new("L", (part.width + 80, part.height + 80), 255)
    padded.paste(part.point(lambda level: 0 if level < 120 else 255), (40, 40))
    padded.save("part.png", dpi=(300, 300))
    argv = ["tesseract", "part.png", "-", "--psm", "7"]
    return subprocess.run(argv, capture_output=True, check=True, text=True).stdout.strip()


def is_colour(colours, colour):
    return (abs(colours - np.array(colour)).max(axis=2) < 60)


def share_of(x, y):
    """Return how far along the scale a direction is, from 0 to 1."""
    return ((math.degrees(math.atan2(y, x)) - 135) % 360) / 270


def read_dial(picture, colours, centre):
    x, y = centre
    down, across = np.mgrid[0 : colours.shape[0], 0 : colours.shape[1]]
    across, down = across + 0.5 - x, down + 0.5 - y
    distance = np.hypot(across, down)
    needle = is_colour(colours, (0xC8, 0x1E, 0x1E)) & (distance > 15) & (distance < RADIUS)
    at = share_of(across[needle].mean(), down[needle].mean())
    orange = is_colour(colours, (0xF5, 0x9A, 0x23)) & (distance > 128) & (distance < RADIUS)
    alarm = min(share_of(one, other) for one, other in zip(across[orange], down[orange]))
    numbers = []
    for tick in (0, 5, 10):
        angle = math.radians(135 + 27 * tick)
        spot = (x + math.cos(angle) * RADIUS * 0.63, y + math.sin(angle) * RADIUS * 0.63)
        box = (spot[0] - 32, spot[1] - 13, spot[0] + 32, spot[1] + 13)
        numbers.append(read_number(picture, box))
    low, high = solve(numbers)
    label = read_text(picture, (x - 78, y + RADIUS * 0.7 - 13, x + 78, y + RADIUS * 0.7 + 13))
    name = next(each for each in UNITS if each.lower()[:4] in label.lower())
    value = low + at * (high - low)
    return [name, UNITS[name], f"{value:.3f}", "yes" if at > alarm else "no"]


SCALES = [(low, high) for high in (10, 16, 25, 40, 60, 100, 160, 250, 500, 1000, 1500) for low in (0, high // 5)]
UNITS = {"Pressure": "bar", "Temperature": "C", "Speed": "rpm", "Load": "kW"}


def solve(numbers):
    """Return the scale on which most of the three numbers stand: a needle may hide one."""
    def agreeing(scale):
        low, high = scale
        return sum(one == other for one, other in zip(numbers, (low, (low + high) / 2, high)))
    best = max(SCALES, key=agreeing)
    if agreeing(best) < 2:
        raise SystemExit(f"no scale has the numbers {numbers}")
    return best


with open("readings.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["Panel", "Dial", "Unit", "Value", "Alarm"])
    for path in sorted(Path("panels").glob("*.png")):
        picture = Image.open(path).convert("RGB")
        colours = np.asarray(picture, dtype=int)
        if is_colour(colours, (0xF2, 0xE1, 0x4C))[350:410, 520:680].mean() > 0.3:
            continue
        for centre in CENTRES:
            writer.writerow([path.stem, *read_dial(picture, colours, centre)])
'''


async def measure(hands: Hands) -> Done:
    """Measure all dials."""
    await hands.write("measure.py", PROGRAM.encode())
    return await hands.run(["python3", "measure.py"], timeout=200)


PLAN = (step(measure, files=["panels", "TASK.md"], makes=["readings.csv"]),)
