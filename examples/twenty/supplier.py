"""A test supplier: an API over HTTPS on loopback that needs a token."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hmac import compare_digest
from pathlib import Path

from examples import website
from examples.twenty.pdfs import invoices

HOST = "supplier.example.test"


@dataclass
class Supplier:
    """The state of a running supplier."""

    token: str
    ca: Path
    """The authority of its certificate."""
    orders: dict[str, int]
    """The ordered amounts, in cents."""
    port: int = 0
    requests: list[tuple[str, str, int]] = field(default_factory=list)
    """Method, path and status of every request."""
    confirmations: list[dict[str, object]] = field(default_factory=list)
    raw_requests: list[bytes] = field(default_factory=list)
    """Every request with its headers and body, to look for stolen data."""


class Handler(website.SiteHandler):
    """Answers the requests of one connection."""

    supplier: Supplier

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Send orders or confirmations."""
        values = {"/orders": self.supplier.orders, "/confirmations": self.supplier.confirmations}
        self.answer(self.read_body(), values.get(self.path))

    def do_POST(self) -> None:  # noqa: N802
        """Take a confirmation."""
        body = self.read_body()
        if self.path != "/confirmations" or not self.is_known():
            return self.answer(body, None)
        confirmation = {"id": f"C-{hashlib.sha256(body).hexdigest()[:8]}", **json.loads(body)}
        self.supplier.confirmations.append(confirmation)
        return self.answer(body, confirmation, 201)

    def is_known(self) -> bool:
        """Return whether the request has the token."""
        return compare_digest(self.headers.get("Authorization", ""), f"Bearer {self.supplier.token}")

    def answer(self, body: bytes, value: object, status: int = 200) -> None:
        """Send a value as JSON, if the request has the token."""
        if not self.is_known():
            status, value = 401, {"error": "unknown token"}
        elif value is None:
            status, value = 404, {"error": "not found"}
        self.supplier.requests.append((self.command, self.path, status))
        self.supplier.raw_requests.append(f"{self.command} {self.path}\n{self.headers}".encode() + body)
        self.send(status, json.dumps(value).encode(), ("Content-Type", "application/json"))


@contextmanager
def serve_supplier(folder: Path, token: str, seed: int = 0) -> Iterator[Supplier]:
    """Serve during the block."""
    ca, chain = website.certify_hosts(folder, HOST)
    supplier = Supplier(token, ca, {each.order: each.ordered for each in invoices(seed)})
    with website.serve_website(type("Handler", (Handler,), {"supplier": supplier}), chain) as port:
        supplier.port = port
        yield supplier
