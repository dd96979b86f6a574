"""The HTML page of a swarm: a coloured map of all items, each with its record. No script, no external resources."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping

from hotdesk.event import ItemEnded
from hotdesk.job.report.markup import Markup, isolate, render_block, tag
from hotdesk.swarm.results import SwarmState

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
.map { display: flex; flex-wrap: wrap; gap: 2px; }
.map a { display: block; width: 12px; height: 12px; border-radius: 2px; }
.done { background: #2e8b57; } .quarantined { background: #c0392b; } .wrong { background: #8e44ad; }
table { border-collapse: collapse; } td, th { padding: 2px 10px 2px 0; text-align: left; vertical-align: top; }
details { border-top: 1px solid #8884; padding: 4px 0; } details:target { background: #ffd70033; }
code, .words { font-family: ui-monospace, monospace; font-size: 13px; overflow-wrap: anywhere; }
"""
_POLICY = "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'"
MAX_QUOTED = 500
"""Maximum items whose results are quoted, those in quarantine first. The archive has the others."""
_MAX_CHARS = 1500


def make_page(job: str, goal: str, state: SwarmState, files: Mapping[str, str]) -> bytes:
    """Return the page as HTML. `files` has the text of results by item, for the items that are quoted."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY.format(digest)),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"Swarm {job}"),
        tag("style", Markup(STYLE)),
    )
    records = state.list_in_order()
    body = tag(
        "body",
        tag("h1", f"Swarm {job}"),
        tag("p", isolate(goal, 400)),
        _describe(state),
        tag("h2", "Items"),
        tag("div", *(_render_square(each, state) for each in records), class_="map"),
        _list_failures(state),
        tag("h2", "Records"),
        *(_render_record(each, files.get(each.item, "")) for each in records),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en').html}\n".encode()


def choose_quoted(state: SwarmState) -> list[ItemEnded]:
    return sorted(state.list_in_order(), key=lambda each: each.outcome == "done")[:MAX_QUOTED]


def _describe(state: SwarmState) -> Markup:
    records = state.items.values()
    wrong = sum(each.verdict == "wrong" for each in state.reviews.values())
    facts = {
        "items": f"{len(records):,}",
        "passed": f"{state.done:,}",
        "in quarantine": f"{len(state.quarantined):,}",
        "reviewed by a person": f"{len(state.reviews):,}, {wrong:,} wrong",
        "cost": f"${sum(each.dollars for each in records):,.2f}, {sum(each.tokens for each in records):,} tokens",
        "report": ", ".join(state.reduced.paths) if state.reduced is not None else "none",
    }
    return tag("table", *(tag("tr", tag("th", name), tag("td", isolate(text))) for name, text in facts.items()))


def _render_square(record: ItemEnded, state: SwarmState) -> Markup:
    reviewed = state.reviews.get(record.item)
    kind = "wrong" if reviewed is not None and reviewed.verdict == "wrong" else record.outcome
    return tag("a", "", class_=kind, href=f"#item-{record.index}", aria_label=f"{record.item}: {kind}")


def _list_failures(state: SwarmState) -> Markup | None:
    if not state.quarantined:
        return None
    rows = (
        tag("tr", tag("td", count), tag("td", cause), tag("td", isolate(why)))
        for cause, why, count in state.group_failures()
    )
    head = tag("tr", *(tag("th", name) for name in ("Items", "Cause", "Why")))
    return tag("section", tag("h2", "In quarantine, by cause"), tag("table", head, *rows))


def _render_record(record: ItemEnded, text: str) -> Markup:
    facts = {
        "outcome": f"{record.outcome} at attempt {record.attempt}" + (f": {record.why}" if record.why else ""),
        "input": f"sha256 {record.input}",
        "worker's desk": f"desk {record.desk}, {record.ms / 1000:.1f} s, {record.acts} acts"
        if record.desk
        else "no desk",
        "checked in": f"clean desk {record.clean} by {', '.join(record.checks)}" if record.checks else "nothing passed",
        **{
            path: f"{size:,} bytes, sha256 {sha256}"
            for path, size, sha256 in zip(record.paths, record.sizes, record.digests, strict=True)
        },
    }
    rows = (tag("tr", tag("th", isolate(name, 100)), tag("td", isolate(words))) for name, words in facts.items())
    shown = render_block(text, _MAX_CHARS) if text else None
    return tag("details", tag("summary", f"{record.item} "), tag("table", *rows), shown, id=f"item-{record.index}")
