"""The reference solution's program at its desk: recognise each scan, upside down if need be, and write the register."""

from __future__ import annotations

import csv
import re
import subprocess
from datetime import date, datetime
from pathlib import Path

from PIL import Image

FORMATS = ("%d %B %Y", "%d.%m.%Y", "%Y-%m-%d", "%B %d, %Y")


def main() -> None:
    """Write register.csv."""
    rows, references = [], set()
    for path in sorted(Path("letters").glob("*.pdf")):
        text = recognise(path)
        sender = text.strip().splitlines()[0].removesuffix(" Ltd").strip()
        reference = find(r"Our reference: ?(\S+)", text)
        if reference in references:
            continue
        references.add(reference)
        amount = read_amount(find(r"Amount payable: ?(.+)", text))
        day, due = read_date(find(r"Date: ?(.+)", text)), read_date(find(r"Please pay by (.+?)\.?\n", text + "\n"))
        rows.append((path.name, sender, reference, day, amount, due))
    with Path("register.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("File", "Sender", "Reference", "Date", "Amount", "Due"))
        table.writerows(rows)


def recognise(path: Path) -> str:
    """Return the text of all pages of a scan."""
    subprocess.run(["pdftoppm", "-r", "200", "-gray", "-png", str(path), path.stem], check=True)
    texts = []
    for page in sorted(Path().glob(f"{path.stem}-*.png")):
        text = read_picture(page)
        if not re.search(r"reference|payable", text):
            Image.open(page).transpose(Image.Transpose.ROTATE_180).save(page)
            text = read_picture(page)
        texts.append(text)
        page.unlink()
    return "\n".join(texts)


def read_picture(page: Path) -> str:
    """Recognise the text of one picture."""
    argv = ["tesseract", str(page), "-", "--psm", "6"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def find(pattern: str, text: str) -> str:
    """Return what the pattern's group matches; fail if there is no match."""
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f"no {pattern} in {text!r}")
    return match[1].strip()


def read_amount(text: str) -> str:
    """Read an amount whose last two digits are cents."""
    digits = re.sub(r"\D", "", text)
    return f"{int(digits[:-2])}.{digits[-2:]}"


def read_date(text: str) -> date:
    """Read a date in any of the ways the letters use."""
    for shape in FORMATS:
        try:
            return datetime.strptime(text.strip(" ."), shape).date()
        except ValueError:
            continue
    raise ValueError(f"{text!r} is no date")


if __name__ == "__main__":
    main()
