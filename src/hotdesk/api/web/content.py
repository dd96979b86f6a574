"""Serves content of desks at a separate origin: by links that last a minute, without cookies and scripts.

A link needs no other authorization: anyone who has it can read one file until it expires. Only pictures, plain text and
our own report are displayed; anything else is downloaded.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import PurePosixPath
from urllib.parse import quote

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hotdesk.dataclass import dataclass

LINK_LIFETIME_S = 60.0
"""Seconds a link is valid."""
MAX_LINKS, MAX_LINK_BYTES = 256, 64 << 20
"""Links of one tenant, and the bytes they hold: the oldest end first."""
LABEL = "content"
PICTURES = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
}  # fmt: skip
TEXTS = frozenset({
    ".txt", ".md", ".csv", ".tsv", ".log", ".json", ".toml", ".yaml", ".yml", ".xml", ".html", ".htm", ".svg", ".css",
    ".js", ".py", ".sh", ".sql", ".patch", ".diff", ".ini", ".cfg",
})  # fmt: skip
"""Types that are displayed as plain text, even if a browser could render them."""
REPORT = "text/html; charset=utf-8"
RULES = {
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "cross-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True)
class ContentLink:
    """The content behind one link."""

    tenant: str
    data: bytes
    name: str
    report: bool
    """Whether it is our own report, which is displayed as a page."""
    until: float


class Content:
    """The links that are valid, and their content."""

    def __init__(self, domain: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.domain = domain
        self.clock = clock
        self.links: dict[str, ContentLink] = {}

    def offer(self, tenant: str, data: bytes, name: str, report: bool = False) -> str:
        now = self.clock()
        for key in [key for key, link in self.links.items() if link.until <= now]:
            del self.links[key]
        own = {key: len(link.data) for key, link in self.links.items() if link.tenant == tenant}
        while own and (len(own) >= MAX_LINKS or sum(own.values()) + len(data) > MAX_LINK_BYTES):
            oldest = next(iter(own))
            del self.links[oldest], own[oldest]
        key = secrets.token_urlsafe(32)
        self.links[key] = ContentLink(tenant, data, name, report, now + LINK_LIFETIME_S)
        return f"/content/{key}"

    def find(self, path: str) -> ContentLink | None:
        link = self.links.get(path.removeprefix("/content/"))
        return link if link is not None and link.until > self.clock() else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        link = self.find(scope["path"]) if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") else None
        answer = Response(
            "This link has expired. Open it again from the page.", 404, RULES, "text/plain; charset=utf-8"
        )
        await (answer if link is None else link_to_response(link))(scope, receive, send)


def link_to_response(link: ContentLink) -> Response:
    media, inline = choose_media_type(link.name, link.report)
    how = "inline" if inline else "attachment"
    headers = {**RULES, "content-disposition": f"{how}; filename*=UTF-8''{quote(link.name, safe='')}"}
    return Response(link.data, 200, headers, media)


def choose_media_type(name: str, report: bool) -> tuple[str, bool]:
    suffix = PurePosixPath(name).suffix.lower()
    if report:
        return REPORT, True
    if suffix in PICTURES:
        return PICTURES[suffix], True
    if suffix in TEXTS:
        return "text/plain; charset=utf-8", True
    return "application/octet-stream", False


def get_content_name(domain: str) -> str:
    return f"{LABEL}.{domain}"


def get_content_origin(scheme: str, host: str, domain: str) -> str:
    _, colon, port = host.rpartition(":")
    return f"{scheme}://{get_content_name(domain)}{f':{port}' if colon and port.isdecimal() else ''}"
