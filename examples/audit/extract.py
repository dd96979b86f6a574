"""Extracts texts at the worker's desk: the text in a PDF, or the text recognised in the picture of a scan.

python3 extract.py FOLDER          a text for each invoice, in `text/`, and in `text/scans` the names of the scans
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

TEXTS = Path("text")
DPI = 200
CORES = os.cpu_count() or 1


def main() -> None:
    """Read every invoice, as many at once as there are cores."""
    TEXTS.mkdir(exist_ok=True)
    found = sorted(Path(sys.argv[1]).glob("*.pdf"))
    with ThreadPoolExecutor(CORES) as hands:
        scanned = list(hands.map(extract, found))
    scans = [path.name for path, is_scan in zip(found, scanned) if is_scan]  # noqa: B905
    (TEXTS / "scans").write_text("".join(f"{name}\n" for name in scans))
    print(f"{len(found)} invoices, {len(scans)} of them scans")


def extract(path: Path) -> bool:
    """Write one invoice's text; return whether it is a scan."""
    text = said("pdftotext", "-layout", "-enc", "UTF-8", str(path), "-")
    scanned = not text.strip()
    (TEXTS / f"{path.stem}.txt").write_text(recognised(path) if scanned else text)
    return scanned


def recognised(path: Path, how: int = 6, black: int = 150) -> str:
    """Return the recognised text of a scan's pages; spaces between columns stay."""
    with TemporaryDirectory() as folder:
        subprocess.run(["pdftoppm", "-gray", "-r", str(DPI), str(path), f"{folder}/page"], check=True)
        text = "\f".join(words(page, how, black) for page in sorted(Path(folder).iterdir()))
    return re.sub(r"(?<=[\d.,]) (?=\d)", "", text)  # tesseract sees spaces inside numbers


def words(page: Path, how: int, black: int) -> str:
    """Recognise one page as black and white; `black` is the brightness up to which a pixel is black."""
    with Image.open(page) as grey:
        grey.point([0] * black + [255] * (256 - black)).save(page)
    spaces = ("-c", "preserve_interword_spaces=1")
    return said("tesseract", str(page), "-", "--psm", str(how), "--dpi", str(DPI), "-l", "eng", *spaces)


def said(*argv: str) -> str:
    """Return a program's output."""
    one = {**os.environ, "OMP_THREAD_LIMIT": "1"}  # each on a core of its own
    return subprocess.run(argv, env=one, check=True, stdout=-1, stderr=subprocess.DEVNULL).stdout.decode()


if __name__ == "__main__":
    main()
