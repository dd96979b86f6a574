"""Draw the page with the delivered stylesheet at both widths, and compare with the designs; print one JSON object."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

BROWSER = ["chromium", "--headless", "--hide-scrollbars", "--user-data-dir=profile"]
MAX_SHARE = 0.0005
"""Share of a picture that may differ: the edge of a letter, not a word."""


def main() -> None:
    """Print the verdict."""
    faults = list(find_faults())
    print(json.dumps({"passed": not faults, "faults": faults}))


def find_faults() -> Iterator[str]:
    """Compare pixel by pixel."""
    if not Path("delivered/style.css").is_file():
        yield "style.css is missing."
        return
    Path("work").mkdir()
    shutil.copy("hidden/index.html", "work/index.html")
    shutil.copy("delivered/style.css", "work/style.css")
    text = Path("work/style.css").read_text(errors="replace")
    if "url(" in text or "@import" in text:
        yield "style.css loads something else."
        return
    for width in (1280, 640):
        target = Path(f"drawn-{width}.png")
        address = Path("work/index.html").absolute().as_uri()
        argv = [*BROWSER, f"--window-size={width},1000", f"--screenshot={target}", address]
        subprocess.run(argv, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=120, check=False)
        if not target.is_file():
            yield f"The page cannot be drawn {width} pixels wide."
            continue
        drawn, design = (load(path) for path in (target, Path(f"hidden/design-{width}.png")))
        if drawn.shape != design.shape:
            yield f"The picture {width} pixels wide has another size."
            continue
        differs = abs(drawn - design).max(axis=2) > 32
        if float(differs.mean()) > MAX_SHARE:
            rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
            yield (
                f"In a window {width} pixels wide {differs.mean():.2%} differs from the design, "
                f"between {columns[0]}, {rows[0]} and {columns[-1]}, {rows[-1]}."
            )


def load(path: Path) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the colours of a picture's upper 800 rows; a busy browser may leave the bottom undrawn."""
    return np.asarray(Image.open(path).convert("RGB"), dtype=int)[:800]


if __name__ == "__main__":
    main()
