"""Takes pictures of charts at the worker's desk: renders pages, and cuts the charts out of them.

python3 capture.py    reads reports/*.pdf, writes charts/*.png and charts.json
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pypdfium2 as pdfium  # type: ignore[import-not-found]
from PIL import Image

DOTS = 200
"""Dots per inch of a page."""
CAPTION = re.compile(r"Figure \d+\. (.+) \((.+)\)")
CHARTS = Path("charts")


def main() -> None:
    """Cut every chart out of every report."""
    CHARTS.mkdir(exist_ok=True)
    found = [chart for path in sorted(Path("reports").glob("*.pdf")) for chart in charts(path)]
    Path("charts.json").write_text(json.dumps(found, indent=1))
    print(f"{len(found)} charts")


def charts(path: Path) -> list[dict[str, object]]:
    """Cut the charts out of one report, and read the captions below them."""
    found = []
    for number, page in enumerate(pdfium.PdfDocument(path), 1):
        text = page.get_textpage().get_text_range()
        title, publisher = text.splitlines()[:2]
        caption = CAPTION.search(text)
        pictures = list(page.get_objects(filter=[pdfium.raw.FPDF_PAGEOBJ_IMAGE]))
        if caption is None or len(pictures) != 1:
            raise SystemExit(f"{path}, page {number}: there is no chart with a caption")
        name = f"{path.stem}-figure-{number}.png"
        cut(page, pictures[0].get_bounds()).save(CHARTS / name, compress_level=1)
        told = {"report": path.stem, "title": title.strip(), "publisher": publisher.strip(), "page": number}
        found.append({"chart": name, "figure": caption[1], "unit": caption[2], **told})
    return found


def cut(page: pdfium.PdfPage, bounds: tuple[float, float, float, float]) -> Image.Image:
    """Render a page, and cut a chart out of it; a page's coordinates begin at its bottom."""
    left, bottom, right, top = bounds
    dots, high = DOTS / 72, page.get_height()
    drawn: Image.Image = page.render(scale=dots).to_pil().convert("RGB")
    return drawn.crop(
        (round(left * dots), round((high - top) * dots), round(right * dots), round((high - bottom) * dots))
    )


if __name__ == "__main__":
    main()
