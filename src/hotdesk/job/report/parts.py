"""Building blocks shared by the sections of a report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from hotdesk.job.event_text import Tone
from hotdesk.job.people.wait import format_utc
from hotdesk.job.report.markup import Child, Markup, join_markup, tag
from hotdesk.job.report.pictures import ReportPicture

SIGNS: dict[Tone, str] = {"good": "✓", "bad": "✕", "wait": "•", "plain": "·"}
"""Sign of each tone, so that colour is never the only signal."""
MANY = 4
"""Number of columns from which a table does not fit a phone."""


def render_section(name: str, title: str, *children: Markup | None) -> Markup:
    head = tag("h2", title, id=f"{name}-title")
    return tag("section", head, *children, id=name, aria_labelledby=f"{name}-title")


def render_pill(text: str, tone: Tone) -> Markup:
    return tag("span", tag("span", SIGNS[tone], aria_hidden="true"), " ", text, class_=f"pill {tone}")


def note(tone: Tone, *children: Child) -> Markup:
    return tag("p", *children, class_=f"note {tone}")


def render_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Child]], class_: str = "") -> Markup:
    """Render a table; the first cell of each row is its header."""
    top = tag("tr", *(tag("th", each, scope="col") for each in head))
    lines = [
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows
    ]  # fmt: skip
    element = tag(
        "table",
        tag("caption", caption),
        tag("thead", top),
        tag("tbody", *lines),
        class_=class_ or ("many" if len(head) >= MANY else None),
    )
    return tag("div", element, class_="wide")


def render_facts(*pairs: tuple[str, Child], class_: str = "facts") -> Markup:
    rows = (tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs if value not in (None, ""))
    return tag("dl", *rows, class_=class_)


def render_bullets(items: Iterable[Child], class_: str = "") -> Markup:
    return tag("ul", *(tag("li", each) for each in items), class_=class_ or None)


def render_time(at: int) -> Markup:
    """Render a time of day in UTC, with the full timestamp as an attribute."""
    return tag("time", format_utc(at)[11:19], datetime=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at / 1000)))


def render_picture(shown: ReportPicture, alt: str, caption: Child) -> Markup:
    image = tag("img", src=shown.source, alt=alt, width=shown.width, height=shown.height)
    return tag("figure", image, tag("figcaption", caption))


def render_hash(sha256: str) -> Markup:
    return tag("code", sha256, class_="hash")


def render_collapsed(summary: Child, *children: Markup | None) -> Markup:
    return tag("details", tag("summary", summary), join_markup(*children))
