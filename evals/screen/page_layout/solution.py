"""The reference solution, a written script: draw, compare with the designs, repair, compare again."""

from __future__ import annotations

from hotdesk.brain.models.scripted import Hands, step

COMPARE = '''"""Print how much of the page differs from each design."""

import subprocess
from pathlib import Path

import numpy as np
from PIL import Image

for width in (1280, 640):
    argv = ["chromium", "--headless", "--hide-scrollbars", "--user-data-dir=profile", f"--window-size={width},1000"]
    argv += [f"--screenshot={width}.png", Path("page/index.html").absolute().as_uri()]
    subprocess.run(argv, stderr=subprocess.DEVNULL, timeout=120, check=True)
    paths = (f"{width}.png", f"design-{width}.png")
    pictures = [np.asarray(Image.open(path).convert("RGB"), dtype=int)[:800] for path in paths]
    print(round(float((abs(pictures[0] - pictures[1]).max(axis=2) > 32).mean()), 6))
'''
REPAIRS = (
    ("top: 96px; right: 148px;", "top: 16px; right: 16px;"),
    ("repeat(3, 1fr) 60px;", "repeat(3, 1fr);"),
    ("color: #1f73b6;", "color: #ffffff;"),
    ("justify-content: flex-start; align-items: flex-end;", "justify-content: space-between; align-items: center;"),
    ("380px 380px;", "1fr 1fr;"),
    ("top: 10px; left: 14px;", "top: 10px; right: auto; left: 14px;"),
    ("margin-top: 0; font-size: 16px;", "margin-top: 26px; font-size: 16px;"),
    ("font-size: 13px; text-align: right;", "font-size: 13px; text-align: center;"),
)


async def repair(hands: Hands) -> str:
    """Compare the page with the designs, repair the rules that make it differ, and compare again."""
    await hands.write("compare.py", COMPARE.encode())
    style, apart = (await hands.read("page/style.css")).decode(), await compare(hands)
    for wrong, right in REPAIRS:
        style = style.replace(wrong, right)
    await hands.write("page/style.css", style.encode())
    if rest := await compare(hands):
        raise ValueError(f"The page differed from the designs by {apart:.2%}, and still does by {rest:.2%}.")
    await hands.write("style.css", style.encode())
    return "The page looks like both designs."


PLAN = (step(repair, files=["page", "design-1280.png", "design-640.png"], makes=["style.css"]),)


async def compare(hands: Hands) -> float:
    """Return the share of both pictures that differs."""
    done = await hands.run(["python3", "compare.py"], timeout=240)
    if not done.ok:
        raise ValueError(done.stderr.decode(errors="replace")[-300:])
    return sum(float(line) for line in done.stdout.split())
