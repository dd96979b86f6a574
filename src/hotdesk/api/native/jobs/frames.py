"""Screenshots of a job's acts, encoded again by the server."""

from __future__ import annotations

import base64
import binascii
import io

from hotdesk.api.native.problems import ProblemError
from hotdesk.config import Config
from hotdesk.drive.journal import read
from hotdesk.event import Acted, Observed
from hotdesk.job.record.decisions import JOBS, get_journal_path
from hotdesk.job.report.paper_text import PaperReader
from hotdesk.job.report.pictures import OURS as DRAWN_HERE
from hotdesk.job.report.pictures import read_screen

WIDTH = 1280


def frame(settings: Config, job: str, act: int) -> bytes:
    paper = _find_paper(settings, job, act)
    content = PaperReader(settings.lib / JOBS, job).read_json(paper) if paper else {}
    try:
        image = read_screen(base64.b64decode(str(content.get("image", "")), validate=True))
    except (binascii.Error, ValueError):
        image = None
    if image is None:
        raise ProblemError(
            404,
            "frame.missing",
            f"act {act} of job {job} has no stored screenshot; GET /jobs/{job}/story shows which acts have one",
        )
    image.thumbnail((WIDTH, 2 * WIDTH))
    output = io.BytesIO()
    image.save(output, "JPEG", quality=85)
    return output.getvalue()


def _find_paper(settings: Config, job: str, act: int) -> str:
    """Return the paper with an act's result if its tool draws the screen outside the desk, else an empty string."""
    drawn, paper = False, ""
    for row in read(get_journal_path(settings), job, names=[Acted.__name__, Observed.__name__]):
        match row.read_event():
            case Acted(act=number, tool=tool) if number == act:
                drawn = tool.startswith(DRAWN_HERE)
            case Observed(act=number, paper=name) if number == act:
                paper = name
    return paper if drawn else ""
