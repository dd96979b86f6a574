"""Verdicts as stored JSON, with rendered pages as PNG files that are encoded on the host."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Annotated

from PIL import Image

from hotdesk.checks.seam import DrawnPixels, Fault, Value, Verdict
from hotdesk.checks.summary import summarize
from hotdesk.dataclass import dataclass
from hotdesk.strict import ROW, read


@dataclass(frozen=True, slots=True)
class PagePicture:
    """A rendered page as a PNG file."""

    width: int
    height: int
    png: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.png).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """A verdict as stored."""

    check: str
    image: str
    """Image of the desk that was used."""
    expect: Mapping[str, object]
    """Options of the check in the brief."""
    looked_for: tuple[str, ...]
    not_checked: tuple[str, ...]
    faults: tuple[Fault, ...]
    held: tuple[str, ...]
    values: Mapping[str, Value]
    tools: Mapping[str, str]
    pictures: tuple[Annotated[PagePicture, ROW], ...]
    beside: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the check's extra inputs by name, such as its own program or files to compare with."""
    more: int = 0
    """Number of faults that are not listed."""

    @property
    def passed(self) -> bool:
        return bool(self.looked_for) and not self.faults

    @property
    def findings(self) -> tuple[str, ...]:
        """The faults as instructions, or the facts that were found to be in order."""
        return tuple(summarize(self.faults, self.more)) or self.held


def make_stored_verdict(
    verdict: Verdict, check: str, image: str, expect: Mapping[str, object], not_checked: tuple[str, ...]
) -> StoredVerdict:
    pictures = tuple(_encode_picture(page) for page in verdict.pages)
    return StoredVerdict(
        check, image, expect, verdict.looked_for, not_checked, verdict.faults, verdict.held, verdict.values,
        verdict.tools, pictures, more=verdict.more,
    )  # fmt: skip


def _encode_picture(page: DrawnPixels) -> PagePicture:
    """Encode a page as PNG. Its raw pixels need no decoding, so nothing the desk encoded is parsed."""
    png = io.BytesIO()
    Image.frombytes("RGB", (page.width, page.height), page.rgb).save(png, "PNG", optimize=False, compress_level=6)
    return PagePicture(page.width, page.height, png.getvalue())


def to_json(verdict: StoredVerdict) -> bytes:
    record = {
        **{name: getattr(verdict, name) for name in ("check", "image", "looked_for", "not_checked", "held")},
        "expect": dict(verdict.expect),
        "faults": [asdict(fault) for fault in verdict.faults],
        "values": dict(verdict.values),
        "tools": dict(verdict.tools),
        "beside": dict(verdict.beside),
        "more": verdict.more,
        "pictures": [[each.width, each.height, base64.b64encode(each.png).decode()] for each in verdict.pictures],
    }
    return json.dumps(record).encode()


def from_json(data: bytes) -> StoredVerdict:
    """Read a stored verdict, which hotdesk wrote and sealed."""
    return read(StoredVerdict, json.loads(data))
