"""The network section: admitted requests by host, refused requests, alarms."""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from hotdesk.dataclass import dataclass
from hotdesk.event import Alarm, Exchange
from hotdesk.job.format import format_size
from hotdesk.job.people.approval_text import encode_punycode
from hotdesk.job.report.facts import JobReport
from hotdesk.job.report.markup import Markup, isolate, tag
from hotdesk.job.report.parts import note, render_section, render_table

_MAX_ROWS = 60
"""Maximum rows of a table: a desk may try any number of hosts."""


@dataclass(slots=True)
class HostTraffic:
    requests: int = 0
    up: int = 0
    down: int = 0
    methods: Counter[str] = field(default_factory=Counter)
    secrets: dict[str, None] = field(default_factory=dict)

    def take(self, event: Exchange) -> None:
        self.requests += 1
        self.up += event.up
        self.down += event.down
        self.methods[event.method] += 1
        self.secrets.update(dict.fromkeys(event.grants))


def render_door(report: JobReport) -> Markup:
    exchanges, alarmed = report.door.exchanges, _render_alarms(report.door.alarms)
    if not exchanges:
        nothing = tag("p", "The desks made no network requests.")
        return render_section("door", "Network", nothing, alarmed)
    refused = [each for each in exchanges if each.refused]
    return render_section("door", "Network", _render_admitted(exchanges), _render_refused(refused), alarmed)


def _render_admitted(exchanges: list[Exchange]) -> Markup:
    hosts: dict[str, HostTraffic] = {}
    for each in exchanges:
        if not each.refused:
            hosts.setdefault(each.host, HostTraffic()).take(each)
    if not hosts:
        return tag("p", "No request was admitted: no data left the desks.")
    rows = [
        (
            tag("code", isolate(encode_punycode(name[:253]))),
            f"{host.requests:,}",
            isolate(", ".join(f"{count} {method[:20]}" for method, count in host.methods.most_common(6))),
            format_size(host.up),
            format_size(host.down),
            isolate(", ".join(host.secrets) or "none"),
        )
        for name, host in sorted(hosts.items(), key=lambda each: -each[1].requests)[:_MAX_ROWS]
    ]
    caption = "Admitted requests. Secrets are shown by name only; desks have placeholders, never values"
    return render_table(
        caption + _describe_truncation(len(hosts)),
        ("Host", "Requests", "Methods", "Sent", "Received", "Secrets used"),
        rows,
    )


def _render_refused(refused: list[Exchange]) -> Markup:
    if not refused:
        return note("good", "No request was refused.")
    counted = Counter((each.method, each.host, each.path, _explain(each)) for each in refused)
    rows = [
        (
            tag("code", isolate(encode_punycode(host[:253]))),
            f"{count:,}",
            isolate(f"{method[:20]} {path}", 120),
            isolate(rule),
        )
        for (method, host, path, rule), count in counted.most_common(_MAX_ROWS)
    ]
    return render_table(
        "Refused requests" + _describe_truncation(len(counted)), ("Host", "Times", "Request", "Why"), rows
    )


def _explain(event: Exchange) -> str:
    return event.rule if event.verdict != "ask" else f"{event.rule}: not approved"


def _describe_truncation(count: int) -> str:
    return f" (the {_MAX_ROWS} most frequent of {count:,})" if count > _MAX_ROWS else ""


def _render_alarms(found: list[Alarm]) -> Markup | None:
    if not found:
        return None
    rows = [
        (each.what, isolate(each.secret), isolate(each.host[:253]), isolate(each.note)) for each in found[:_MAX_ROWS]
    ]
    return render_table(
        "Alarms: signs of an attack" + _describe_truncation(len(found)), ("What", "Secret", "Host", "Note"), rows
    )
