"""A library with a search, articles, and a resolver of identifiers: pages that the generator wrote."""

from __future__ import annotations

from typing import Any

from examples import website

HOSTS = ("library.example.test", "doi.example.test")


class LibraryTalk(website.SiteHandler):
    """Serves pages by host and path, and redirects identifiers."""

    pages: dict[str, str] = {}  # noqa: RUF012 - set once, by `talk`
    redirects: dict[str, str] = {}  # noqa: RUF012

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Send a page or a redirect."""
        place = self.headers.get("Host", "").partition(":")[0] + self.path
        if place in self.redirects:
            self.send(302, b"", ("Location", self.redirects[place]))
        else:
            page = self.pages.get(place)
            self.send(200 if page else 404, (page or "<h1>There is no such page</h1>").encode())


def talk(hidden: dict[str, Any]) -> type[website.SiteHandler]:
    """Return the handler that serves both hosts."""
    return type("Talking", (LibraryTalk,), {"pages": hidden["pages"], "redirects": hidden["redirects"]})
