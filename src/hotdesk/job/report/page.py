"""The page: its head and its sections, without script or external resources."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from hotdesk.job.report.deliverables import render_deliverables
from hotdesk.job.report.effort import render_effort
from hotdesk.job.report.facts import JobReport
from hotdesk.job.report.markup import Markup, tag
from hotdesk.job.report.network import render_door
from hotdesk.job.report.plan import render_plan
from hotdesk.job.report.receipt import render_about, render_receipt
from hotdesk.job.report.summary import render_header
from hotdesk.job.report.timeline import render_timeline

CSS = Path(__file__).with_name("style.css")
PLACES = {
    "deliverables": "Deliverables", "plan": "Plan", "timeline": "What happened", "effort": "Time and cost",
    "door": "Door", "receipt": "Receipt", "about": "About",
}  # fmt: skip


@cache
def _read_style() -> tuple[str, str]:
    text = CSS.read_text()
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return text, f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def render_page(report: JobReport) -> str:
    text, policy = _read_style()
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"Report of job {report.summary.job}"),
        tag("style", Markup(text)),
    )
    body = tag("body", render_header(report), _render_contents(), main(report), _render_footer())
    return f"<!doctype html>\n{tag('html', head, body, lang='en').html}\n"


def _render_contents() -> Markup:
    return tag("nav", *(tag("a", name, href=f"#{place}") for place, name in PLACES.items()), aria_label="Sections")


def main(report: JobReport) -> Markup:
    parts = (
        render_deliverables,
        render_plan,
        render_timeline,
        render_effort,
        render_door,
        render_receipt,
        render_about,
    )
    return tag("main", *(part(report) for part in parts))


def _render_footer() -> Markup:
    return tag("footer", tag("p", "hotdesk · a real computer for an AI worker, gone when the job is done"))
