"""Three vendors, one with a price list for partners only, and a page of exchange rates."""

from __future__ import annotations

from typing import Any

from examples import website

HOSTS = ("alto.example.test", "borealis.example.test", "cirrus.example.test", "rates.example.test")
PARTNERS = "borealis.example.test/partners/prices"


class VendorTalk(website.SiteHandler):
    """Serves pages by host and path; the price list for partners needs a token."""

    pages: dict[str, str] = {}  # noqa: RUF012 - set once, by `talk`
    token = ""

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Send a page."""
        place = self.headers.get("Host", "").partition(":")[0] + self.path
        if place == PARTNERS and self.headers.get("Authorization") != f"Bearer {self.token}":
            self.send(401, b"<h1>For partners only</h1>")
        else:
            page = self.pages.get(place)
            self.send(200 if page else 404, (page or "<h1>There is no such page</h1>").encode())


def secrets(hidden: dict[str, Any]) -> dict[str, str]:
    """Return the partners' token for the vault."""
    return {"borealis-token": hidden["token"]}


def talk(hidden: dict[str, Any]) -> type[website.SiteHandler]:
    """Return the handler that serves all hosts."""
    return type("Talking", (VendorTalk,), {"pages": hidden["pages"], "token": hidden["token"]})
