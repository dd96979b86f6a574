"""Write a page with a broken stylesheet, and pictures of how it should look: `python3 generate.py SEED`."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

from PIL import Image

STYLE = """/* The shop's page. Narrow windows have rules of their own at the end. */
* { box-sizing: border-box; }
body { margin: 0; font: 16px "DejaVu Sans"; color: #1c2733; background: #eef2f6; }
header { display: flex; justify-content: space-between; align-items: center; padding: 18px 40px; background: #12395c; }
header h1 { margin: 0; font-size: 26px; color: #ffffff; }
header nav a { margin-left: 24px; color: #cfe3f5; text-decoration: none; }
main { padding: 28px 40px; }
.grid { display: grid; grid-template-columns: repeat(3, 1fr); gap: 24px; }
.card { position: relative; padding: 20px; border: 1px solid #c3ceda; border-radius: 8px; background: #ffffff; }
.card h2 { margin: 0 0 10px; padding-right: 72px; font-size: 19px; }
.card p { margin: 0 0 14px; line-height: 1.4; }
.badge { position: absolute; top: 16px; right: 16px; padding: 4px 10px; background: #b3261e; color: #ffffff; }
.badge { font-size: 13px; }
.price { display: block; margin-bottom: 14px; font-size: 22px; font-weight: bold; }
.card button { width: 100%; padding: 10px; border: 0; border-radius: 6px; background: #1769aa; color: #ffffff; }
.card button { font: inherit; }
footer { padding: 16px 40px; border-top: 1px solid #c3ceda; font-size: 13px; text-align: center; }

@media (max-width: 700px) {
  header { padding: 14px 20px; }
  header nav a { margin-left: 12px; font-size: 14px; }
  main { padding: 20px; }
  .grid { grid-template-columns: 1fr 1fr; gap: 14px; }
  .card { padding: 14px; }
  .card h2 { padding-right: 0; margin-top: 26px; font-size: 16px; }
  .badge { top: 10px; right: auto; left: 14px; }
}
"""
DEFECTS = (
    ("top: 16px; right: 16px; padding: 4px 10px;", "top: 96px; right: 148px; padding: 4px 10px;"),
    ("repeat(3, 1fr); gap: 24px;", "repeat(3, 1fr) 60px; gap: 24px;"),
    (
        "border-radius: 6px; background: #1769aa; color: #ffffff;",
        "border-radius: 6px; background: #1769aa; color: #1f73b6;",
    ),
    ("justify-content: space-between; align-items: center;", "justify-content: flex-start; align-items: flex-end;"),
    ("grid-template-columns: 1fr 1fr; gap: 14px;", "grid-template-columns: 380px 380px; gap: 14px;"),
    (".badge { top: 10px; right: auto; left: 14px; }", ".badge { top: 10px; left: 14px; }"),
    ("margin-top: 26px; font-size: 16px;", "margin-top: 0; font-size: 16px;"),
    ("font-size: 13px; text-align: center;", "font-size: 13px; text-align: right;"),
)
"""Correct rules, and the wrong ones that a seed may choose; the fifth to seventh differ only in narrow windows."""
ITEMS = ("Lantern", "Kettle", "Hammock", "Compass", "Tent peg set", "Rain cape", "Camp stove", "Folding chair", "Rope")
LOOKS = '''"""A check: does the page look like the designs when it is drawn with this stylesheet?"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

BROWSER = ["chromium", "--headless", "--hide-scrollbars", "--user-data-dir=profile"]
shutil.copy(sys.argv[1], "beside/page/style.css")
address = Path("beside/page/index.html").absolute().as_uri()
faults = []
for width in json.load(sys.stdin)["widths"]:
    argv = [*BROWSER, f"--window-size={width},1000", f"--screenshot={width}.png", address]
    subprocess.run(argv, stderr=subprocess.DEVNULL, timeout=120, check=True)
    drawn, design = (np.asarray(Image.open(path).convert("RGB"), dtype=int)[:800]
                     for path in (f"{width}.png", f"beside/design-{width}.png"))
    share = float((abs(drawn - design).max(axis=2) > 32).mean())
    if share > 0.01:
        faults.append({"where": f"{width} wide", "expected": "as in the design", "found": f"{share:.1%} of it differs"})
held = [] if faults else ["the page looks like the designs"]
print(json.dumps({"faults": faults, "held": held, "values": {}}))
'''
GOAL = """
The page in page/ (index.html, style.css) no longer looks as it was designed: somebody changed several things in its
stylesheet. design-1280.png shows how it must look in a window of 1280 by 800 pixels, design-640.png in one of 640
by 800 pixels. Compare it with the page, find what is wrong, and repair the stylesheet: afterwards the page must
look exactly so in both windows. Deliver style.css. index.html stays as it is, and the fonts are those of this
computer.
"""
WIDTHS = (1280, 640)


def main() -> None:
    """Write brief/ and hidden/."""
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - the same seed gives the same page
    defects = [*chance.sample(DEFECTS[:4], 2), *chance.sample(DEFECTS[4:7], 2), DEFECTS[7]]
    broken = STYLE
    for right, wrong in defects:
        if broken.count(right) != 1:
            raise ValueError(f"the stylesheet does not contain {right!r} once")
        broken = broken.replace(right, wrong)
    page = Path("brief/page")
    page.mkdir(parents=True)
    Path("hidden").mkdir()
    (page / "index.html").write_text(make_page(chance))
    (page / "style.css").write_text(STYLE)
    for width in WIDTHS:
        draw(page / "index.html", width, Path(f"brief/design-{width}.png"))
        Path(f"hidden/design-{width}.png").write_bytes(Path(f"brief/design-{width}.png").read_bytes())
    (page / "style.css").write_text(broken)
    Path("brief/looks.py").write_text(LOOKS)
    Path("hidden/index.html").write_text((page / "index.html").read_text())
    Path("hidden/truth.json").write_text(json.dumps({"defects": defects, "style": STYLE, "broken": broken}))
    Path("brief/brief.toml").write_text(
        f'goal = """{GOAL}"""\ninputs = ["page", "design-1280.png", "design-640.png"]\nimage = "desktop"\n'
        "seconds = 900\n\n"
        '[[deliverables]]\npath = "style.css"\ncheck = "custom"\n\n[deliverables.expect]\nfile = "looks.py"\n'
        'beside = ["page/index.html", "design-1280.png", "design-640.png"]\nimage = "desktop"\n'
        "given = {widths = [1280, 640]}\nseconds = 240\n"
    )


def make_page(chance: random.Random) -> str:
    """Return the page with six cards."""
    cards = "".join(
        f'<article class="card"><h2>{name}</h2>'
        + ('<span class="badge">Sale</span>' if place in (0, 3, 4) else '<span class="badge">New</span>')
        + f"<p>Made for long days outside. Weighs {chance.randint(200, 1900)} grams.</p>"
        f'<span class="price">EUR {chance.randint(900, 9900) / 100:.2f}</span>'
        "<button>Add to basket</button></article>\n"
        for place, name in enumerate(chance.sample(ITEMS, 6))
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Outdoor shop</title>'
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="style.css"></head><body>\n'
        '<header><h1>Outdoor shop</h1><nav><a href="#">Sale</a><a href="#">Help</a><a href="#">Basket</a></nav>'
        "</header>\n"
        f'<main><div class="grid">\n{cards}</div></main>\n<footer>Prices include tax. We deliver within three '
        "working days; returns are free for thirty days.</footer>\n</body></html>\n"
    )


def draw(page: Path, width: int, target: Path) -> None:
    """Render a page in a window that is higher than needed, as a busy browser may leave the bottom undrawn."""
    argv = ["chromium", "--headless", "--hide-scrollbars", "--user-data-dir=profile", f"--window-size={width},1000"]
    argv += [f"--screenshot={target}", page.absolute().as_uri()]
    subprocess.run(argv, stderr=subprocess.DEVNULL, timeout=120, check=True)
    with Image.open(target) as image:
        image.crop((0, 0, width, 800)).save(target)


if __name__ == "__main__":
    main()
