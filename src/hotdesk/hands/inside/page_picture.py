"""Runs in a desk: draws a picture file, or one page of a document, small enough for a model.

Reads a request as JSON on standard input; prints a line of JSON, then the picture as PNG or JPEG.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any

QUALITY = (90, 75, 55)
CONVERT_TIMEOUT_S = 100
DRAW_TIMEOUT_S = 60
CACHE = "hotdesk-pages"
"""Folder of converted documents, below the temporary folder: the next page needs no conversion."""


class PageError(Exception):
    """The picture cannot be drawn; the text says why."""


def main() -> None:
    request = json.loads(sys.stdin.buffer.read())
    try:
        header, picture = draw(request)
    except PageError as e:
        header, picture = {"error": str(e)[:300]}, b""
    except Exception as e:  # noqa: BLE001 - whatever a hostile file does to a decoder is one answer
        header, picture = {"error": f"{type(e).__name__}: {e}"[:300]}, b""
    sys.stdout.buffer.write(json.dumps(header).encode() + b"\n" + picture)


def draw(request: dict[str, Any]) -> tuple[dict[str, object], bytes]:
    path, kind, page = request["path"], request["kind"], request["page"]
    if kind == "picture":
        return {}, draw_picture(path, request["side"], request["bytes"])
    document = path if kind == "pdf" else convert(path)
    pages = _count_pages(document)
    if page > pages:
        raise PageError(f"page {page} does not exist: the last page of the document is {pages}")
    return {"page": page, "pages": pages}, draw_page(document, page, request["side"], request["bytes"])


def draw_picture(path: str, side: int, most: int) -> bytes:
    """Decode the first frame of a picture, and encode it again, scaled down if it is large."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        return pass_on(path, side, most)
    with Image.open(path) as opened:
        exact = opened.format in ("PNG", "GIF", "BMP")
        image = ImageOps.exif_transpose(opened)
        image.thumbnail((side, side))
        has_alpha = "A" in image.getbands() or "transparency" in image.info
        image = image.convert("RGBA" if has_alpha else "RGB")
    encoded = io.BytesIO()
    if exact or has_alpha:
        image.save(encoded, "PNG", optimize=True)
        if encoded.tell() <= most:
            return encoded.getvalue()
    flat = Image.new("RGB", image.size, "white")
    flat.paste(image, mask=image.getchannel("A") if has_alpha else None)
    for quality in QUALITY:
        encoded = io.BytesIO()
        flat.save(encoded, "JPEG", quality=quality)
        if encoded.tell() <= most:
            break
    return encoded.getvalue()


def pass_on(path: str, side: int, most: int) -> bytes:
    """Return a picture as it is, because nothing here can decode it; the host checks its size."""
    with open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most or not data.startswith((b"\x89PNG", b"\xff\xd8\xff")):
        raise PageError(
            "this desk has no Pillow (a Python library) to convert the picture; the images office and desktop have it"
        )
    return data


def _count_pages(document: str) -> int:
    output = run(["pdfinfo", "--", document], DRAW_TIMEOUT_S).decode("utf-8", "replace")
    found = re.search(r"^Pages:\s+(\d+)$", output, re.MULTILINE)
    if found is None or not int(found[1]):
        raise PageError("the document has no pages")
    return int(found[1])


def draw_page(document: str, page: int, side: int, most: int) -> bytes:
    which = ["-f", str(page), "-l", str(page), "-scale-to", str(side)]
    picture = run(["pdftoppm", "-png", *which, document], DRAW_TIMEOUT_S)
    if len(picture) > most:
        picture = run(["pdftoppm", "-jpeg", *which, document], DRAW_TIMEOUT_S)
    return picture


def convert(path: str) -> str:
    """Return an office document as a PDF, converted once for each version of the file."""
    folder = os.path.join(tempfile.gettempdir(), f"{CACHE}-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    status = os.stat(path)
    version = f"{path}\0{status.st_ino}\0{status.st_size}\0{status.st_mtime_ns}"
    cached = os.path.join(folder, hashlib.sha256(version.encode("utf-8", "replace")).hexdigest()[:32] + ".pdf")
    if os.path.exists(cached):
        return cached
    with tempfile.TemporaryDirectory() as work:
        copy = os.path.join(work, "document" + os.path.splitext(path)[1].lower())
        shutil.copyfile(path, copy)
        profile = f"-env:UserInstallation=file://{folder}/profile-{os.getpid()}"
        program = shutil.which("soffice") or "soffice"
        try:
            run([program, profile, "--headless", "--convert-to", "pdf", "--outdir", work, copy], CONVERT_TIMEOUT_S)
        finally:
            shutil.rmtree(f"{folder}/profile-{os.getpid()}", ignore_errors=True)
        pages = os.path.join(work, "document.pdf")
        if not os.path.exists(pages):
            raise PageError("LibreOffice could not open the document")
        shutil.move(pages, cached)
    return cached


def run(argv: list[str], seconds: float) -> bytes:
    try:
        done = subprocess.run(argv, check=False, capture_output=True, timeout=seconds, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise PageError(f"this desk has no {os.path.basename(argv[0])}") from None
    except subprocess.TimeoutExpired:
        raise PageError(f"{os.path.basename(argv[0])} did not finish within {seconds:g} seconds") from None
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip()[-200:]
        raise PageError(f"{os.path.basename(argv[0])} ended with exit code {done.returncode}: {words}")
    return done.stdout


if __name__ == "__main__":
    main()
