"""Write letters as scans (PDF files of pictures), and the brief that asks for a register."""

from __future__ import annotations

import json
import random
import sys
import textwrap
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

FONTS = "/usr/share/fonts/truetype/liberation/Liberation{}-Regular.ttf"
SENDERS = (
    ("Alder Timber", "4 Mill Lane"), ("Birch Printing", "17 Harbour Street"), ("Cedar Lighting", "90 Park Road"),
    ("Dogwood Office", "2 Station Square"), ("Elm Catering", "31 Castle Hill"), ("Fir Plumbing", "8 Bridge Street"),
    ("Hazel Security", "55 Market Place"), ("Juniper Glass", "12 Chapel Lane"), ("Larch Heating", "6 River Walk"),
)  # fmt: skip
MONTHS = "January February March April May June July August September October November December".split()
BODY = (
    "thank you for your order. We have carried out the work as agreed and ask you to settle the following account. If"
    " you have questions about single items, please call our office; we are glad to help. Complaints must reach us"
    " within ten days.",
    "we refer to our conversation of last week and send you the account for the services of the past month. The"
    " details are listed on the delivery notes that your staff has signed. We look forward to working with you again.",
    "please find below the account for the delivery to your premises. All goods remain our property until they are"
    " paid in full. We hope that you are satisfied with our work and recommend us to others.",
)
SIZE, DPI = (1654, 2339), 200
BRIEF = """\
goal = \"\"\"
letters/ holds scanned letters as PDF files: pictures without text. Write register.csv with the columns File, Sender,
Reference, Date, Amount, Due and one row for each letter, sorted by File.
- File: the file name, such as scan-0412-1.pdf. A letter that was scanned twice is listed once, under the file name
  that comes first in the alphabet.
- Sender: the name of the company that wrote the letter.
- Reference: the sender's own reference ("Our reference").
- Date: the date of the letter; Due: the day by which payment is asked; both as YYYY-MM-DD. Dates such as 03.05.2025
  have the day first.
- Amount: the amount payable in EUR, with a point and two decimals and without separators of thousands.
\"\"\"
inputs = ["letters"]
image = "office"
seconds = 1500
approve = "auto"

[[deliverables]]
path = "register.csv"
check = "csv"

[deliverables.expect]
columns = ["File", "Sender", "Reference", "Date", "Amount", "Due"]
rows = {min = 1, max = 20}
numeric = ["Amount"]
unique = ["File"]
"""


def write_date(day: date, style: int) -> str:
    """Write a date in one of four ways."""
    month = MONTHS[day.month - 1]
    return (
        f"{day.day} {month} {day.year}", f"{day.day:02}.{day.month:02}.{day.year}", day.isoformat(),
        f"{month} {day.day}, {day.year}",
    )[style]  # fmt: skip


def write_amount(cents: int, style: int) -> str:
    """Write an amount; with a decimal comma where dates have points."""
    text = f"{cents / 100:,.2f}"
    return f"EUR {text}" if style != 1 else f"{text.translate(str.maketrans(',.', '.,'))} EUR"


def invent(chance: random.Random, place: int) -> dict[str, Any]:
    """Return the facts of a letter."""
    day, net = date(2025, 1, 5) + timedelta(days=chance.randint(0, 150)), chance.randint(20_000, 900_000) // 5 * 5
    return {
        "sender": SENDERS[place][0],
        "address": SENDERS[place][1],
        "reference": f"{''.join(chance.choices('AEHKMPRTX', k=2))}-{chance.randint(10_000, 99_999)}",
        "yours": f"HM-{chance.randint(1000, 9999)}",
        "date": day.isoformat(),
        "due": (day + timedelta(days=chance.choice((14, 20, 30)))).isoformat(),
        "net": net,
        "amount": net + net // 5,
        "style": place % 4,
    }


def write_text(chance: random.Random, letter: dict[str, Any], two_pages: bool) -> list[list[str]]:
    """Return the lines of each page."""
    style, net, amount = letter["style"], letter["net"], letter["amount"]
    first = [
        f"{letter['sender']} Ltd", letter["address"], "", "", "Harrow Museum Trust", "1 Museum Gardens", "", "",
        f"Date: {write_date(date.fromisoformat(letter['date']), style)}",
        f"Our reference: {letter['reference']}", f"Your reference: {letter['yours']}", "", "",
        "Dear Sir or Madam,", "", *textwrap.wrap(chance.choice(BODY), 62), "",
        f"Net amount: {write_amount(net, style)}",
    ]  # fmt: skip
    last = [
        f"VAT 20 %: {write_amount(amount - net, style)}",
        f"Amount payable: {write_amount(amount, style)}",
        "",
        f"Please pay by {write_date(date.fromisoformat(letter['due']), style)}.",
        "",
        "Yours faithfully",
        f"{letter['sender']} Ltd",
    ]
    return [[*first, "", "continued on page 2"], ["Page 2", "", *last]] if two_pages else [[*first, *last]]


def draw(chance: random.Random, lines: list[str], font_name: str) -> Image.Image:
    """Draw a page as a scanner sees it: a little askew, with specks."""
    page = Image.new("L", SIZE, 250)
    pen, font = ImageDraw.Draw(page), ImageFont.truetype(FONTS.format(font_name), 36)
    for row, line in enumerate(lines):
        pen.text((200, 180 + 56 * row), line, font=font, fill=25)
    page = page.rotate(chance.uniform(-0.7, 0.7), fillcolor=250, resample=Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(page)
    for _ in range(120):
        x, y = chance.randrange(SIZE[0]), chance.randrange(SIZE[1])
        pen.point((x, y), fill=chance.randint(90, 200))
    return page


def main() -> None:
    """Write brief and truth."""
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - the same seed gives the same letters
    folder = Path("brief/letters")
    folder.mkdir(parents=True)
    Path("hidden").mkdir()
    places = chance.sample(range(len(SENDERS)), len(SENDERS))
    turned, long, twice = chance.sample(places, 3)
    letters = []
    for number, place in enumerate(places, 1):
        letter = invent(chance, place)
        texts, font_name = write_text(chance, letter, place == long), chance.choice(("Serif", "Sans"))
        names = [f"scan-06{10 + number}-1.pdf"] + [f"scan-06{10 + number}-2.pdf"] * (place == twice)
        for name in names:
            pages = [draw(chance, lines, font_name) for lines in texts]
            if place == turned:
                pages = [page.transpose(Image.Transpose.ROTATE_180) for page in pages]
            pages[0].save(folder / name, save_all=True, append_images=pages[1:], resolution=DPI)
        letters.append({**letter, "file": names[0], "twice": names[1:]})
    Path("brief/brief.toml").write_text(BRIEF)
    Path("hidden/truth.json").write_text(json.dumps({"letters": letters}, indent=1))


if __name__ == "__main__":
    main()
