"""A test shop: an API over HTTPS on loopback that needs a token. An order cannot be taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hmac import compare_digest
from pathlib import Path

from examples import website
from examples.order.storeroom import Article, storeroom

HOST = "shop.example.test"
ORDERS = "/orders/EUR/"


@dataclass
class Shop:
    """The state of a running shop."""

    token: str
    ca: Path
    """The authority of its certificate."""
    articles: dict[str, Article]
    port: int = 0
    requests: list[tuple[str, str, int]] = field(default_factory=list)
    """Method, path and status of every request."""
    orders: list[dict[str, object]] = field(default_factory=list)


class Handler(website.SiteHandler):
    """Answers the requests of one connection."""

    shop: Shop

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Send articles or orders."""
        articles = [{"article": a.number, "pack": a.pack, "cents": a.cents} for a in self.shop.articles.values()]
        values: dict[str, object] = {"/articles": articles, "/orders": self.shop.orders}
        self.answer(200, values[self.path]) if self.path in values else self.answer(404, None)

    def do_POST(self) -> None:  # noqa: N802
        """Take an order. Its sum is in the path, so that the person who approves the request sees it."""
        body = self.read_body()
        if not self.path.startswith(ORDERS) or not self.is_known():
            return self.answer(404, None)
        packs: dict[str, int] = json.loads(body)["packs"]
        cents = sum(self.shop.articles[number].cents * count for number, count in packs.items())
        if self.path != f"{ORDERS}{cents / 100:.2f}":
            return self.answer(409, {"error": f"that costs {cents / 100:.2f}"})
        order = {"order": f"SO-{5001 + len(self.shop.orders)}", "packs": packs, "total": cents / 100, "currency": "EUR"}
        self.shop.orders.append(order)
        return self.answer(201, order)

    def is_known(self) -> bool:
        """Return whether the request has the token."""
        return compare_digest(self.headers.get("Authorization", ""), f"Bearer {self.shop.token}")

    def answer(self, status: int, value: object) -> None:
        """Send a value as JSON, if the request has the token."""
        if not self.is_known():
            status, value = 401, {"error": "unknown token"}
        self.shop.requests.append((self.command, self.path, status))
        self.send(status, json.dumps(value).encode(), ("Content-Type", "application/json"))


@contextmanager
def serve_shop(folder: Path, token: str, seed: int = 0) -> Iterator[Shop]:
    """Serve during the block."""
    ca, chain = website.certify_hosts(folder, HOST)
    shop = Shop(token, ca, {article.number: article for article in storeroom(seed)})
    with website.serve_website(type("Handler", (Handler,), {"shop": shop}), chain) as port:
        shop.port = port
        yield shop
