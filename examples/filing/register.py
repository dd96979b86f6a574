"""A register of companies' filings, on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples import website

HOST, NAME = "filings.example.test", "2025-q3.pdf"


class Handler(website.SiteHandler):
    """Sends the latest filing."""

    filing: bytes
    requests: list[str]

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Send the latest filing's name, or the filing."""
        self.requests.append(self.path)
        if self.path == "/latest":
            self.send(200, NAME.encode(), ("Content-Type", "text/plain"))
        elif self.path == f"/filings/{NAME}":
            self.send(200, self.filing, ("Content-Type", "application/pdf"))
        else:
            self.send(404, b"not found")


@contextmanager
def serve_register(folder: Path, filing: bytes) -> Iterator[tuple[list[str], str]]:
    """Serve during the block; yield the paths of requests, and settings by which the door finds the register."""
    ca, chain = website.certify_hosts(folder, HOST)
    requests: list[str] = []
    with website.serve_website(type("Handler", (Handler,), {"filing": filing, "requests": requests}), chain) as port:
        yield requests, website.format_door_settings(ca, {HOST: port})
