"""Draw control panels with dials, and write the task: `python3 generate.py SEED`."""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, ImageDraw, ImageFont

FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
DIALS = (("Pressure", "bar", (10, 16, 25)), ("Temperature", "C", (100, 160, 250)), ("Speed", "rpm", (500, 1000, 1500)),
         ("Load", "kW", (40, 60, 100)))  # fmt: skip
SIZE, RADIUS = (1200, 760), 150
CENTRES = ((300, 230), (900, 230), (300, 570), (900, 570))
SUPERSAMPLING = 2
TASK = """# Read the panels

panels/ has a picture of each control panel, taken at the same moment. Every panel has four dials; the name of a
dial and its unit stand below it. A needle (red) points at the value. The scale runs clockwise from the lower left
to the lower right, over three quarters of the circle, evenly from the first number to the last. The orange arc at
the end of a scale is the alarm range: it begins at a mark of the scale.

Mind that not all dials of the same name have the same scale, and that not every scale begins at 0.

A panel with the sign TEST on it shows no real values: leave it out.

Deliver readings.csv with the columns Panel, Dial, Unit, Value, Alarm: a row for each dial of each panel that is not
under test, panels in the order of their file names, dials from left to right and from top to bottom. Panel is the
file name without .png. Value is a number, which may be off by 1.5 % of what the scale spans. Alarm is yes if the
needle is in the alarm range, no if not.
"""
GOAL = """
Read the dials in the pictures of panels/ and write readings.csv. TASK.md says what the pictures show and what the table
must look like.
"""


class Dial(NamedTuple):
    """One dial and what it shows."""

    name: str
    unit: str
    low: int
    high: int
    value: float
    alarm_from: float


def main() -> None:
    """Write brief/ and hidden/."""
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - the same seed gives the same panels
    Path("brief/panels").mkdir(parents=True)
    Path("hidden").mkdir()
    names = sorted(chance.sample([f"{letter}{number}" for letter in "ABCDE" for number in range(1, 10)], 6))
    test = chance.choice(names)
    rows: list[list[Any]] = []
    for name in names:
        dials = [make_dial(chance, place) for place in chance.sample(range(4), 4)]
        draw_panel(name, dials, name == test).save(f"brief/panels/{name}.png")
        for dial in dials:
            alarm = "yes" if dial.value > dial.alarm_from else "no"
            rows.append([name, dial.name, dial.unit, round(dial.value, 3), alarm, dial.high - dial.low])
    truth = {"rows": [row for row in rows if row[0] != test], "test": [row for row in rows if row[0] == test]}
    Path("hidden/truth.json").write_text(json.dumps(truth))
    Path("brief/TASK.md").write_text(TASK)
    Path("brief/brief.toml").write_text(
        f'goal = """{GOAL}"""\ninputs = ["panels", "TASK.md"]\nimage = "office"\nseconds = 900\n\n'
        '[[deliverables]]\npath = "readings.csv"\ncheck = "csv"\n\n[deliverables.expect]\n'
        'columns = ["Panel", "Dial", "Unit", "Value", "Alarm"]\nrows = {min = 4}\nnumeric = ["Value"]\n'
    )


def make_dial(chance: random.Random, place: int) -> Dial:
    """Choose a scale, and a value clearly inside or clearly outside the alarm range."""
    name, unit, ends = DIALS[place]
    high = chance.choice(ends)
    low = high // 5 if chance.random() < 0.25 else 0
    alarm_step = chance.choice([7, 8])
    at = chance.uniform(0.04, 0.96)
    while abs(at - alarm_step / 10) < 0.03:
        at = chance.uniform(0.04, 0.96)
    return Dial(name, unit, low, high, low + at * (high - low), low + alarm_step / 10 * (high - low))


def draw_panel(name: str, dials: list[Dial], test: bool) -> Image.Image:
    """Draw a panel at twice its size, and shrink it."""
    big = SUPERSAMPLING
    image = Image.new("RGB", (SIZE[0] * big, SIZE[1] * big), "#c9cdd2")
    canvas = ImageDraw.Draw(image)
    canvas.text((20 * big, 14 * big), f"Panel {name}", "#202020", ImageFont.truetype(FONT, 26 * big))
    if test:
        box = [big * each for each in (520, 350, 680, 410)]
        canvas.rectangle(box, "#f2e14c", "#202020", 3 * big)
        canvas.text((600 * big, 380 * big), "TEST", "#202020", ImageFont.truetype(FONT, 34 * big), anchor="mm")
    for dial, centre in zip(dials, CENTRES, strict=True):
        draw_dial(canvas, dial, centre, big)
    return image.resize(SIZE, Image.Resampling.LANCZOS)


def draw_dial(canvas: ImageDraw.ImageDraw, dial: Dial, centre: tuple[int, int], big: int) -> None:
    """Draw a dial: disc, alarm range, ticks with numbers, name, needle."""
    x, y = (big * each for each in centre)
    radius = RADIUS * big
    canvas.ellipse([x - radius, y - radius, x + radius, y + radius], "#ffffff", "#303030", 3 * big)
    arc = [x - radius + 8 * big, y - radius + 8 * big, x + radius - 8 * big, y + radius - 8 * big]
    share = (dial.alarm_from - dial.low) / (dial.high - dial.low)
    canvas.arc(arc, 135 + 270 * share, 405, "#f59a23", 9 * big)
    for tick in range(11):
        angle = math.radians(135 + 27 * tick)
        inner = 0.8 if tick % 5 == 0 else 0.86
        ends = [(x + math.cos(angle) * radius * far, y + math.sin(angle) * radius * far) for far in (inner, 0.94)]
        canvas.line(ends, "#202020", 3 * big)
        if tick % 5 == 0:
            number = dial.low + (dial.high - dial.low) * tick / 10
            place = (x + math.cos(angle) * radius * 0.63, y + math.sin(angle) * radius * 0.63)
            canvas.text(place, f"{number:g}", "#202020", ImageFont.truetype(FONT, 19 * big), anchor="mm")
    text = f"{dial.name} ({dial.unit})"
    canvas.text((x, y + radius * 0.7), text, "#202020", ImageFont.truetype(FONT, 17 * big), anchor="mm")
    angle = math.radians(135 + 270 * (dial.value - dial.low) / (dial.high - dial.low))
    tip = (x + math.cos(angle) * radius * 0.78, y + math.sin(angle) * radius * 0.78)
    canvas.line([(x, y), tip], "#c81e1e", 5 * big)
    canvas.ellipse([x - 9 * big, y - 9 * big, x + 9 * big, y + 9 * big], "#303030")


if __name__ == "__main__":
    main()
