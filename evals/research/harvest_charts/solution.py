"""The reference solution, a written script: fetch the bulletins that count, measure bars against the grid."""

from __future__ import annotations

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

PROGRAM = '''import csv
import io
import re
from urllib.request import urlopen

import pdfplumber

SITE = "https://statistics.example.test"


def fetch(path):
    with urlopen(SITE + path, timeout=30) as reply:
        return reply.read()


def list_bulletins():
    """Return the path of each region's bulletin of 2024; a revised edition replaces the first."""
    found = {}
    for page in ("/bulletins", "/bulletins/revisions"):
        for path, region in re.findall(r"<a href=(\\S+)>(\\w+), harvest of 2024", fetch(page).decode()):
            found[region] = path
    return found


def read_chart(data):
    """Return thousand tonnes by crop, in the order of the chart."""
    with pdfplumber.open(io.BytesIO(data)) as file:
        page = file.pages[1]
        text, words, lines, bars = page.extract_text(), page.extract_words(), page.lines, page.rects
        factor = 1000 if "In million tonnes" in text else 1
        ticks = []
        for line in lines:
            near = [word for word in words if word["x1"] < line["x0"] and abs(middle(word) - line["top"]) < 5]
            ticks.append((line["top"], float(near[0]["text"].replace(",", "")) * factor))
        (top, high), (foot, low) = min(ticks), max(ticks)
        values = {}
        for bar in sorted(bars, key=lambda each: each["x0"]):
            below = [word for word in words if bar["x0"] - 15 < (word["x0"] + word["x1"]) / 2 < bar["x1"] + 15]
            name = next(word["text"] for word in below if 0 < word["top"] - foot < 30)
            values[name.strip("*")] = low + (foot - bar["top"]) / (foot - top) * (high - low)
        for crop, figure in re.findall(r"\\* (\\w+): corrected after .* to ([\\d,]+) thousand", text):
            values[crop] = float(figure.replace(",", ""))
    return values


def middle(word):
    return (word["top"] + word["bottom"]) / 2


with open("harvest.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["Region", "Crop", "Tonnes", "Source"])
    for region, path in sorted(list_bulletins().items()):
        for crop, value in read_chart(fetch(path)).items():
            writer.writerow([region, crop, f"{value:.1f}", SITE + path])
'''


async def read(hands: Hands) -> Done:
    """Fetch the bulletins and read their charts."""
    await hands.write("read.py", PROGRAM.encode())
    return await hands.run(["python3", "read.py"], timeout=200)


PLAN = (step(read, files=["TASK.md"], makes=["harvest.csv"]),)
