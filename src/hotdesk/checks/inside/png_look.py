"""Inspects a picture. Runs inside a clean desk of the office image, with its Python. Prints JSON, then pixels."""

from __future__ import annotations

import json
import sys
import zlib

from PIL import Image

WIDEST = 1000
"""Maximum pixels of the longest side of the returned picture."""
MAX_PIXELS = 64_000_000
"""Maximum pixels of a picture that is decoded."""


def look(path: str) -> tuple[dict[str, object], bytes]:
    """Return a picture's properties and its pixels, or why it cannot be read."""
    try:
        Image.MAX_IMAGE_PIXELS = MAX_PIXELS
        with Image.open(path, formats=["PNG"]) as checked:
            checked.verify()
        with Image.open(path, formats=["PNG"]) as picture:
            width, height = picture.size
            if width * height > MAX_PIXELS:
                raise ValueError(f"the picture has more than {MAX_PIXELS} pixels")
            drawn = Image.new("RGBA", picture.size, "white")
            drawn.alpha_composite(picture.convert("RGBA"))
        small = drawn.convert("RGB")
        small.thumbnail((WIDEST, WIDEST))
        pixels = zlib.compress(small.tobytes(), 6)
        report: dict[str, object] = {"width": width, "height": height, "format": "PNG"}
        return {**report, "drawn": [[*small.size, len(pixels)]]}, pixels
    except Exception as e:  # noqa: BLE001 - whatever a broken file does to the decoder, it is a broken file
        return {"unreadable": f"{type(e).__name__}: {e}"[:200]}, b""


if __name__ == "__main__":
    report, pixels = look(json.load(sys.stdin)["path"])
    sys.stdout.buffer.write(json.dumps(report).encode() + b"\n" + pixels)
