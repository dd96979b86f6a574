"""Draw the output of `make demo` as the picture in the README.

make demo 2>&1 | tee demo.log; python tools/terminal_picture.py demo.log > docs/demo-terminal.svg

Set-up, the receipt, the table of times and the closing hints are left out.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

TITLE = "make demo, as printed; set-up, receipt and the table of times are cut"
FIRST, LAST = "Generating ", "Of the job: "
MAX_COLUMNS = 122
LINE_HEIGHT, FIRST_BASELINE, WIDTH = 18, 30, 1066
PLAIN = "#c9d1d9"
COLOURS = (
    (r"\$ ", "#ffffff"),
    (r"(export|read|report|verify)   ?|  (made by|NOT CHECKED) ", "#e3b341"),
    (r"(done|passed|signed)   ?|.*: VERIFIED$", "#7ee787"),
    (r"burnt ", "#8b949e"),
    (r".*\bfailed: ", "#ff7b72"),
    (r"judge: ", "#79c0ff"),
)


def choose_lines(text: str) -> Iterator[str]:
    """Yield the lines of a run that the picture shows."""
    lines = text.splitlines()
    begin = next(place for place, line in enumerate(lines) if line.startswith(FIRST))
    end = max(place for place, line in enumerate(lines) if line.startswith(LAST))
    shown = True
    yield "$ make demo"
    for line in lines[begin : end + 1]:
        if line.startswith("receipt of job"):
            shown = False
            yield from (line, "  …")
        elif line.startswith(("  left behind:", "The worker's comments:", "The ERP's requests:")):
            shown = True
            yield line
        elif line.startswith(("phase ", "/")):
            shown = False
        elif shown and line:
            yield line
        if line.startswith("  left behind:"):
            shown = False


def draw(lines: list[str]) -> str:
    """Draw lines as an SVG, each in the colour of its meaning."""
    font = "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"
    height = FIRST_BASELINE + LINE_HEIGHT * len(lines)
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"',
        f'  font-family="{font}" font-size="14">',
        f"<title>{TITLE}</title>",
        '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>',
    ]
    for number, line in enumerate(lines):
        colour = next((each for pattern, each in COLOURS if re.match(pattern, line)), PLAIN)
        cut = line if len(line) <= MAX_COLUMNS else line[: MAX_COLUMNS - 1] + "…"
        place = FIRST_BASELINE + LINE_HEIGHT * number
        rows.append(f'<text x="18" y="{place}" fill="{colour}" xml:space="preserve">{escape(cut, quote=False)}</text>')
    return "\n".join([*rows, "</svg>", ""])


def main() -> None:
    sys.stdout.write(draw(list(choose_lines(Path(sys.argv[1]).read_text()))))


if __name__ == "__main__":
    main()
