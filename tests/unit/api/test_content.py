"""Tests of the origin that serves desk content: content types, headers and expiry of links."""

from __future__ import annotations

import httpx
import pytest
from httpx import ASGITransport

from hotdesk.api.web.content import LINK_LIFETIME_S, Content

TEXT, RAW = "text/plain; charset=utf-8", "application/octet-stream"


class Clock:
    """A clock that stands still until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def asked(content: Content, path: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=ASGITransport(content), base_url="http://content.localhost") as client:
        return await client.get(path)


@pytest.mark.parametrize(
    ("name", "report", "media", "how"),
    [
        ("a.html", False, TEXT, "inline"),
        ("a.svg", False, TEXT, "inline"),
        ("a.png", False, "image/png", "inline"),
        ("a.pdf", False, RAW, "attachment"),
        ("a.xhtml", False, RAW, "attachment"),
        ("a", False, RAW, "attachment"),
        ("report.html", True, "text/html; charset=utf-8", "inline"),
    ],
)
async def test_a_file_of_a_desk_is_not_served_as_a_page(name: str, report: bool, media: str, how: str) -> None:
    content = Content("localhost")
    told = await asked(content, content.offer("x", b"<b>", name, report))
    assert (told.headers["content-type"], told.headers["content-disposition"].partition(";")[0]) == (media, how)
    assert told.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert told.headers["x-content-type-options"] == "nosniff"


async def test_a_name_cannot_add_a_header() -> None:
    content = Content("localhost")
    told = await asked(content, content.offer("x", b"", 'a"\r\nSet-Cookie: x=1\u202e.txt'))
    assert "set-cookie" not in told.headers


async def test_a_link_lasts_a_minute() -> None:
    clock = Clock()
    content = Content("localhost", clock)
    path = content.offer("x", b"", "a.txt")
    assert (await asked(content, path)).status_code == 200
    clock.now = LINK_LIFETIME_S
    assert (await asked(content, path)).status_code == 404


async def test_an_unknown_link_is_not_found() -> None:
    assert (await asked(Content("localhost"), "/content/guess")).status_code == 404
