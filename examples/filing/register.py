"""A register of companies' filings, on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples import website

HOST, NAME = "filings.example.test", "2025-q3.pdf"


class Talk(website.SiteHandler):
    """Gives the latest filing."""

    filing: bytes
    asked: list[str]

    def do_GET(self) -> None:  # noqa: N802 - so it is called
        """Say which filing is the latest, or send it."""
        self.asked.append(self.path)
        if self.path == "/latest":
            self.send(200, NAME.encode(), ("Content-Type", "text/plain"))
        elif self.path == f"/filings/{NAME}":
            self.send(200, self.filing, ("Content-Type", "application/pdf"))
        else:
            self.send(404, b"there is no such filing")


@contextmanager
def serving(folder: Path, filing: bytes) -> Iterator[tuple[list[str], str]]:
    """Serve for the length of a block; give what was asked, and the settings by which the door finds it."""
    ca, chain = website.certify_hosts(folder, HOST)
    asked: list[str] = []
    with website.serve_website(type("Talking", (Talk,), {"filing": filing, "asked": asked}), chain) as port:
        yield asked, website.format_door_settings(ca, {HOST: port})
