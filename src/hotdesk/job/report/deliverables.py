"""The deliverables section: preview, checks, what was not checked, and certificate of each file."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import PurePosixPath
from urllib.parse import quote

from hotdesk.checks.verdict_json import StoredVerdict
from hotdesk.job.format import format_size
from hotdesk.job.report.facts import Delivered, JobReport, Looked
from hotdesk.job.report.markup import Child, Markup, is_near, isolate, join_markup, tag
from hotdesk.job.report.parts import (
    note,
    render_bullets,
    render_collapsed,
    render_facts,
    render_hash,
    render_picture,
    render_pill,
    render_section,
    render_table,
)
from hotdesk.job.report.summary import anchor

MAX_ITEMS = 40
"""Maximum items of a list whose length depends on a file or a check."""
MAX_LINE_CHARS = 1000


def render_deliverables(report: JobReport) -> Markup:
    cards = [_render_card(report, each) for each in report.delivered.values()]
    if not cards:
        return render_section("deliverables", "Deliverables", note("wait", "The job delivered no file."))
    return render_section("deliverables", "Deliverables", *cards)


def _render_card(report: JobReport, item: Delivered) -> Markup:
    looks = item.looks
    passed = bool(looks) and all(each.event.outcome == "passed" for each in looks)
    stand = render_pill("passed every check", "good") if passed else render_pill("did not pass", "bad")
    head = tag(
        "div",
        tag("h3", _render_name(report, item)),
        stand if looks else render_pill("not checked", "wait"),
        class_="title",
    )
    pages = [(look, place, page) for look in looks for place, page in enumerate(look.pages, 1)]
    shown = [
        render_picture(
            page, f"Picture {place} of {item.path}, as rendered for the check {look.event.check}", f"Picture {place}"
        )
        for look, place, page in pages
    ]
    return tag(
        "div",
        head,
        _render_identity(item),
        tag("div", *shown, class_="pages") if shown else None,
        *(_render_check(each) for each in looks),
        _render_certificate(report, item, passed),
        class_="card",
        id=anchor(report, item.path),
    )


def _render_name(report: JobReport, item: Delivered) -> Markup:
    """Render a deliverable's name, as a link if the report is written beside the file."""
    link = f"./{quote(item.path)}"
    shown = isolate(item.path)
    return tag("a", shown, href=link) if report.beside and item.stored is not None and is_near(link) else shown


def _render_identity(item: Delivered) -> Markup:
    looked = next((each.event.sha256 for each in item.looks), "")
    stored = (
        f"version {item.stored.version} in the drive, {format_size(item.stored.size)}" if item.stored else "not stored"
    )
    return render_facts(("Kept", stored), ("SHA-256", render_hash(item.stored.sha256 if item.stored else looked)))


def _render_check(look: Looked) -> Markup:
    event, verdict = look.event, look.verdict
    good = event.outcome == "passed"
    head = tag(
        "div",
        tag("h4", "Check: ", isolate(event.check, 80)),
        render_pill(event.outcome, "good" if good else "bad"),
        class_="title",
    )
    if verdict is None:
        gone = note(
            "wait", "The full verdict was deleted with the job's stored data; this is the journal's summary of it."
        )
        return tag(
            "div",
            head,
            render_faults(event.findings) if not good else render_bullets(map(isolate, event.findings[:MAX_ITEMS])),
            gone,
            class_="check",
        )
    return tag(
        "div",
        head,
        render_faults(verdict.findings) if verdict.faults else None,
        _render_list("Requirements met", verdict.held),
        _render_list("Not checked", verdict.not_checked),
        render_collapsed("What the check looked for and found", _render_details(verdict)),
        class_="check",
    )


def _render_list(title: str, lines: Iterable[str]) -> Markup | None:
    """Render a titled list, or nothing if it is empty."""
    items = list(lines)
    if not items:
        return None
    rest = f"… and {len(items) - MAX_ITEMS} more" if len(items) > MAX_ITEMS else None
    children: list[Child] = [isolate(each) for each in items[:MAX_ITEMS]]
    return join_markup(tag("p", title, class_="label"), render_bullets([*children, *([rest] if rest else [])]))


def render_faults(lines: Iterable[str]) -> Markup:
    return join_markup(
        tag("p", "Faults", class_="label"), render_bullets(isolate(each, MAX_LINE_CHARS) for each in lines)
    )


def _render_details(verdict: StoredVerdict) -> Markup:
    values = [(isolate(name, 80), isolate(str(value))) for name, value in list(verdict.values.items())[:MAX_ITEMS]]
    tools = ", ".join(f"{name} {version}" for name, version in list(verdict.tools.items())[:MAX_ITEMS])
    return join_markup(
        render_facts(
            ("Looked for", isolate(", ".join(verdict.looked_for[: 2 * MAX_ITEMS]) or "nothing", 2000)),
            ("Tools used", isolate(tools or "not recorded", 600)),
            ("Image of the desk", isolate(verdict.image, 80)),
        ),
        render_table("Measured values", ("Name", "Value"), values) if values else None,
    )


def _render_certificate(report: JobReport, item: Delivered, passed: bool) -> Markup:
    """Render the certificate and the command that verifies it, or why there is none."""
    name = PurePosixPath(item.path).name
    if item.certified is not None:
        rows = render_facts(
            ("File", tag("code", f"{name}.certificate.json")),
            ("SHA-256", render_hash(item.certified.certificate)),
            ("Verify it with", tag("code", f"hotdesk verify {shlex.quote(name)}")),
        )
        return tag("div", tag("h4", "Certificate"), rows, class_="check")
    if not passed:
        why = "the file did not pass its checks."
    elif item.stored is None:
        why = "the file was not stored."
    else:
        why = "the file was not signed in this job."
    return tag("div", tag("h4", "Certificate"), tag("p", "No certificate: ", why), class_="check")
