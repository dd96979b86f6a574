"""The requests of a step that may have changed something outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path

from hotdesk.brief import READ
from hotdesk.drive.journal import read
from hotdesk.event import Exchange, RequestAdmitted

_SWITCHED = 101
"""Status of a request that became a WebSocket."""
_TOO_MANY = 429
_KINDS = (RequestAdmitted.__name__, Exchange.__name__)


def list_writes(journal: Path, desks: Collection[str], step: str, since: int) -> list[str]:
    """List the requests of a step at its desks that may have written since a time in milliseconds.

    Where a node records requests before they are sent, one without an outcome may have been sent.
    """
    writes: list[str] = []
    for desk in desks:
        unfinished: Counter[str] = Counter()
        for row in read(journal, desk, names=_KINDS):
            event = row.read_event()
            if row.at < since or not isinstance(event, RequestAdmitted | Exchange) or event.step != step:
                continue
            request = f"{event.method} {event.scheme}://{event.host}{event.path}"
            if isinstance(event, Exchange):
                unfinished[request] -= unfinished[request] > 0 and not _is_refused(event)
                writes += [request] if may_write(event) else []
            elif event.method not in READ or event.body:
                unfinished[request] += 1
        writes += unfinished.elements()
    return writes


def may_write(event: Exchange) -> bool:
    """Return whether a request that was sent may have changed something: also a GET with a body or a WebSocket."""
    return event.up > 0 and (event.method not in READ or event.body > 0 or event.status == _SWITCHED)


def _is_refused(event: Exchange) -> bool:
    """Return whether the door refused a request and may have done so before it recorded the request's admission."""
    return event.refused or (event.status == _TOO_MANY and not event.up)
