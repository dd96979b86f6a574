"""What desks wrote, at an origin of its own: as what it is served, and for how long."""

from __future__ import annotations

import httpx
import pytest
from httpx import ASGITransport

from hotdesk.api.web.content import LINK_LIFETIME_S, Content

TEXT, RAW = "text/plain; charset=utf-8", "application/octet-stream"


class Clock:
    """A clock that stands until it is set."""

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
async def test_what_a_desk_wrote_is_no_page(name: str, report: bool, media: str, how: str) -> None:
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


async def test_a_link_that_was_not_given_out_leads_nowhere() -> None:
    assert (await asked(Content("localhost"), "/content/guess")).status_code == 404
