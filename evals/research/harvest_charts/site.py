"""A statistical office that publishes bulletins as PDF: files that the generator wrote."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from examples import website

HOSTS = ("statistics.example.test",)


class BulletinTalk(website.SiteHandler):
    """Serves pages and files by path."""

    pages: dict[str, str] = {}  # noqa: RUF012 - set once, by `talk`
    files: dict[str, str] = {}  # noqa: RUF012

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Send a page or a PDF."""
        if self.path in self.files:
            self.send(200, b64decode(self.files[self.path]), ("Content-Type", "application/pdf"))
        elif self.path in self.pages:
            self.send(200, self.pages[self.path].encode())
        else:
            self.send(404, b"<h1>There is no such page</h1>")


def talk(hidden: dict[str, Any]) -> type[website.SiteHandler]:
    """Return the handler that serves the office's pages and bulletins."""
    return type("Talking", (BulletinTalk,), {"pages": hidden["pages"], "files": hidden["files"]})
