"""The last sections of a report: the receipt, and what is missing or unknown."""

from __future__ import annotations

from collections.abc import Sequence

from hotdesk.job.format import format_count
from hotdesk.job.people.wait import format_utc
from hotdesk.job.report.facts import JobReport
from hotdesk.job.report.markup import Markup, isolate, tag
from hotdesk.job.report.parts import note, render_bullets, render_hash, render_section

MAX_ITEMS = 60
SOURCE = (
    "Made from the job's journal and its stored data. It is a view of them and proves nothing by itself: a "
    "certificate proves a file, and "
)


def render_receipt(report: JobReport) -> Markup:
    cleanup = report.summary.receipt
    if cleanup is None:
        return render_section(
            "receipt", "Receipt", note("wait", "The receipt was not recorded, so it is unknown what was left behind.")
        )
    leftovers = _render_column("Left behind", cleanup.left, "Nothing.")
    columns = (
        _render_column("Destroyed", cleanup.destroyed, "Nothing."),
        _render_column("Kept on purpose, and until when", cleanup.kept, "Nothing."),
        leftovers,
        *([_render_column("Walls, as verified", _list_walls(report), "")] if report.walls else []),
    )
    return render_section("receipt", "Receipt", tag("div", *columns, class_="columns"))


def _list_walls(report: JobReport) -> list[str]:
    return [f"desk {desk}: {proof.describe()}" for desk, proof in report.walls.items()]


def _render_column(title: str, lines: Sequence[str], none: str) -> Markup:
    rest = len(lines) - MAX_ITEMS
    more = [f"… and {rest:,} more"] if rest > 0 else []
    content = render_bullets([*map(isolate, lines[:MAX_ITEMS]), *more]) if lines else tag("p", none, class_="quiet")
    return tag("div", tag("h3", title), content)


def _list_unknowns(report: JobReport) -> list[str]:
    summary, sentences = report.summary, []
    if summary.forgotten is not None:
        sentences.append(
            f"The job's stored data was deleted by {summary.forgotten.by}: model replies, tool calls and results "
            "are not available."
        )
    elif report.missing:
        sentences.append(
            f"{format_count(report.missing, 'stored file')} could not be read; the content is missing here."
        )
    if summary.course.unknown or summary.course.running:
        acts = [*summary.course.unknown, *(f"{act} {tool}" for act, (tool, _) in summary.course.running.items())]
        listed = ", ".join(acts[:MAX_ITEMS])
        sentences.append(f"Acts that were started, but have no recorded outcome: {listed}.")
    if summary.strange:
        sentences.append(f"{format_count(summary.strange, 'event')} of a newer version of hotdesk could not be read.")
    if report.left_out:
        sentences.append(f"{format_count(report.left_out, 'picture')} are omitted, to keep this file small.")
    if report.unread:
        sentences.append(
            f"{format_count(report.unread, 'picture')} made inside a desk are not shown: files made in a desk are "
            "not opened on this machine."
        )
    return sentences


def render_about(report: JobReport) -> Markup:
    found = _list_unknowns(report)
    brief = render_hash(report.summary.brief or "unknown")
    return render_section(
        "about",
        "About this report",
        tag("p", SOURCE, tag("code", "hotdesk journal verify"), " verifies the journal."),
        tag("p", "Output of desks and models is quoted as text; invisible characters are written as escapes."),
        render_bullets(map(isolate, found), "unknown") if found else tag("p", "The report is complete."),
        tag("p", "Job ", tag("code", report.summary.job), ", brief ", brief, class_="quiet"),
        tag("p", f"Made {format_utc(report.created)}. All times are UTC.", class_="quiet"),
    )
