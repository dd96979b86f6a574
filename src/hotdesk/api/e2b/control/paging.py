"""Lists as E2B returns them: filtered, sorted as a whole, then cut into pages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import parse_qsl, unquote

from hotdesk.api.e2b.responses import E2bError
from hotdesk.dataclass import dataclass

MAX_PAGE_ITEMS = 100
"""Maximum items of one page."""
_MAX_FILTERS = 100
"""Maximum entries of one metadata filter."""
STATES = frozenset({"running", "paused"})
Item = TypeVar("Item")
Place = tuple[float, str]
"""The sort key of an item: when it was created, and its id."""


@dataclass(frozen=True, slots=True)
class PageRequested:
    limit: int = MAX_PAGE_ITEMS
    after: Place | None = None
    ascending: bool = False


def read_page_request(query: Mapping[str, str]) -> PageRequested:
    limit, order = query.get("limit", str(MAX_PAGE_ITEMS)), query.get("order", "desc")
    if not limit.isascii() or not limit.isdecimal() or len(limit) > 9 or not 0 < int(limit) <= MAX_PAGE_ITEMS:
        raise E2bError(400, f"limit must be a number from 1 to {MAX_PAGE_ITEMS}")
    if order not in ("asc", "desc"):
        raise E2bError(400, "order must be asc or desc")
    token = query.get("nextToken", "")
    return PageRequested(int(limit), _read_place(token) if token else None, order == "asc")


def cut(
    items: Iterable[Item], where: Callable[[Item], Place], page: PageRequested
) -> tuple[list[Item], dict[str, str]]:
    ordered = sorted(items, key=where, reverse=not page.ascending)
    if page.after is not None:
        after = page.after
        ordered = [item for item in ordered if (where(item) > after if page.ascending else where(item) < after)]
    found = ordered[: page.limit]
    more = len(ordered) > len(found)
    return found, {"x-next-token": _encode_token(where(found[-1]))} if more else {}


def _encode_token(place: Place) -> str:
    return base64.urlsafe_b64encode(f"{place[0]!r} {place[1]}".encode()).decode().rstrip("=")


def _read_place(token: str) -> Place:
    try:
        text = base64.urlsafe_b64decode(token[:200] + "=" * (-len(token) % 4)).decode()
        created, _, name = text.partition(" ")
        return float(created), name
    except (binascii.Error, ValueError):
        raise E2bError(400, "nextToken was not issued by this server; repeat the request without nextToken") from None


def parse_metadata(text: str) -> dict[str, str]:
    """Parse a metadata filter: a query string within a query string, with names and values encoded once more."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FILTERS)
    except ValueError:
        raise E2bError(400, f"metadata can filter by at most {_MAX_FILTERS} entries") from None
    return {unquote(key): unquote(value) for key, value in pairs}


def parse_states(values: Iterable[str]) -> frozenset[str]:
    """Parse the requested states; none means all."""
    named = {each for value in values for each in value.split(",") if each}
    if not named <= STATES:
        raise E2bError(400, "state must be running, paused, or both separated by a comma")
    return frozenset(named) or STATES


def parse_moment(text: str) -> float:
    """Parse an RFC 3339 time; without a time zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        raise E2bError(400, "startedAfter must be an RFC 3339 time, such as 2026-01-31T12:00:00Z") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
