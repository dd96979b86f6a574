"""A register of dams, a newspaper and an operator: pages that the generator wrote."""

from __future__ import annotations

from typing import Any

from examples import website

HOSTS = ("register.example.test", "herald.example.test", "waterboard.example.test")


class PageTalk(website.SiteHandler):
    """Serves pages by host and path."""

    pages: dict[str, str] = {}  # noqa: RUF012 - set once, by `talk`

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Send a page."""
        page = self.pages.get(self.headers.get("Host", "").partition(":")[0] + self.path)
        self.send(200 if page else 404, (page or "<h1>There is no such page</h1>").encode())


def talk(hidden: dict[str, Any]) -> type[website.SiteHandler]:
    """Return the handler that serves the pages of all hosts."""
    return type("Talking", (PageTalk,), {"pages": hidden["pages"]})
