"""A supplier to try things on: an API over HTTPS on loopback, for whoever brings its token."""

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
    """A supplier that runs."""

    token: str
    ca: Path
    """The authority its certificate is from."""
    orders: dict[str, int]
    """What was ordered, in cents."""
    port: int = 0
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    """Method and path of every request, and what was answered."""
    confirmations: list[dict[str, object]] = field(default_factory=list)
    heard: list[bytes] = field(default_factory=list)
    """Every request whole: what a thief would have sent."""


class Talk(website.SiteHandler):
    """Answers one request after the other."""

    supplier: Supplier

    def do_GET(self) -> None:  # noqa: N802 - so it is called
        """Tell orders or confirmations."""
        told = {"/orders": self.supplier.orders, "/confirmations": self.supplier.confirmations}
        self.answer(self.read_body(), told.get(self.path))

    def do_POST(self) -> None:  # noqa: N802
        """Take a confirmation."""
        body = self.read_body()
        if self.path != "/confirmations" or not self.is_known():
            return self.answer(body, None)
        made = {"id": f"C-{hashlib.sha256(body).hexdigest()[:8]}", **json.loads(body)}
        self.supplier.confirmations.append(made)
        return self.answer(body, made, 201)

    def is_known(self) -> bool:
        """Say whether the caller brings the token."""
        return compare_digest(self.headers.get("Authorization", ""), f"Bearer {self.supplier.token}")

    def answer(self, body: bytes, value: object, status: int = 200) -> None:
        """Send a value to whoever may have it."""
        if not self.is_known():
            status, value = 401, {"error": "who are you?"}
        elif value is None:
            status, value = 404, {"error": "there is no such thing"}
        self.supplier.asked.append((self.command, self.path, status))
        self.supplier.heard.append(f"{self.command} {self.path}\n{self.headers}".encode() + body)
        self.send(status, json.dumps(value).encode(), ("Content-Type", "application/json"))


@contextmanager
def serving(folder: Path, token: str, seed: int = 0) -> Iterator[Supplier]:
    """Serve for the length of a block."""
    ca, chain = website.certify_hosts(folder, HOST)
    supplier = Supplier(token, ca, {each.order: each.ordered for each in invoices(seed)})
    with website.serve_website(type("Talking", (Talk,), {"supplier": supplier}), chain) as port:
        supplier.port = port
        yield supplier
