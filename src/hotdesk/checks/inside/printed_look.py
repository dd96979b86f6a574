"""Inspects a document or slides as an office program prints them. Runs inside a clean desk."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import drawn_look  # type: ignore[import-not-found]
import office  # type: ignore[import-not-found]

_CHOSEN = {"ExportHiddenSlides": True, "UseLosslessCompression": True, "ReduceImageResolution": False}


def render_document(path: str) -> tuple[dict[str, Any], list[bytes]]:
    with tempfile.TemporaryDirectory() as folder:
        target = str(Path(folder) / "printed.pdf")
        with office.open_document(path) as document:
            office.as_pdf(document, target, **_CHOSEN)
        report, packed = drawn_look.read_pages(target)
    for page in report["pages"]:
        page["fonts"] = []  # the office program chose these; the file's own inspection reports the fonts it names
    return {**report, "tools": {**drawn_look.describe_tools(), "LibreOffice": office.read_version()}}, packed
