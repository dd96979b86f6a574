"""Previews of a stored file: the pages that a check rendered in a clean desk, as pictures encoded here."""

from __future__ import annotations

import io

from PIL import Image
from pydantic import Field
from starlette.responses import Response

from hotdesk.api.native.problems import ProblemError
from hotdesk.api.native.schema import Model, clean
from hotdesk.api.web.content import choose_media_type
from hotdesk.checks.verdict_json import PagePicture
from hotdesk.config import Config
from hotdesk.drive.catalog import Version
from hotdesk.drive.journal import read
from hotdesk.event import Verified
from hotdesk.job.record.decisions import JOBS, get_journal_path
from hotdesk.job.report.paper_text import PaperReader

MAX_PAGES = 100
WIDTH = 1280
RULES = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Content-Disposition": "inline",
    "Cache-Control": "private",
}
"""A file's author chooses what its pages show, so a browser must treat them as pictures and nothing else."""


class PageShown(Model):
    """One page of a file."""

    page: int = Field(description="The page's number; pass it as `page` to GET /drive/PATH to get the picture.")
    width: int
    height: int
    check: str = Field(description="The check that rendered the page.")


class PagesShown(Model):
    """The pages of a file that a check rendered."""

    inline: bool = Field(description="Whether POST /content can display the file itself (a picture or text).")
    items: list[PageShown] = Field(description="Empty: no check rendered the file, or its pages were deleted.")


def describe_pages(settings: Config, version: Version) -> PagesShown:
    found = enumerate(_find_pictures(settings, version), 1)
    return PagesShown(
        inline=choose_media_type(version.name, False)[1],
        items=[PageShown(page=n, width=each.width, height=each.height, check=clean(by)) for n, (by, each) in found],
    )


def respond_with_page(settings: Config, version: Version, number: int) -> Response:
    found = _find_pictures(settings, version)
    if not 1 <= number <= len(found):
        raise ProblemError(
            404,
            "page.missing",
            f"{version.name}@{version.number} has no stored page {number}; the number of its pages is {len(found)}",
        )
    return Response(encode_jpeg(found[number - 1][1]), 200, RULES, "image/jpeg")


def _find_pictures(settings: Config, version: Version) -> list[tuple[str, PagePicture]]:
    """Return the pages that checks of the file's job rendered from exactly these bytes, each with the check's name."""
    journal, last = get_journal_path(settings), dict[str, str]()
    for row in read(journal, version.job, names=[Verified.__name__]) if version.job and journal.exists() else ():
        match row.read_event():
            case Verified(sha256=sha256, check=check, paper=paper) if sha256 == version.sha256:
                last[check] = paper
    reading = PaperReader(settings.lib / JOBS, version.job)
    verdicts = ((check, reading.read_verdict(paper)) for check, paper in last.items())
    return [(check, each) for check, verdict in verdicts if verdict is not None for each in verdict.pictures][
        :MAX_PAGES
    ]


def encode_jpeg(picture: PagePicture) -> bytes:
    output = io.BytesIO()
    with Image.open(io.BytesIO(picture.png), formats=["PNG"]) as image:
        page = image.convert("RGB")
    page.thumbnail((WIDTH, 2 * WIDTH))
    page.save(output, "JPEG", quality=85)
    return output.getvalue()
