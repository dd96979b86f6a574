"""A shop to try things on: an API over HTTPS on loopback, for whoever brings its token. What is ordered is bought."""

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
    """A shop that runs."""

    token: str
    ca: Path
    """The authority its certificate is from."""
    articles: dict[str, Article]
    port: int = 0
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    """Method and path of every request, and what was answered."""
    orders: list[dict[str, object]] = field(default_factory=list)


class Talk(website.SiteHandler):
    """Answers one request after the other."""

    shop: Shop

    def do_GET(self) -> None:  # noqa: N802 - so it is called
        """Tell articles or orders."""
        articles = [{"article": a.number, "pack": a.pack, "cents": a.cents} for a in self.shop.articles.values()]
        told: dict[str, object] = {"/articles": articles, "/orders": self.shop.orders}
        self.answer(200, told[self.path]) if self.path in told else self.answer(404, None)

    def do_POST(self) -> None:  # noqa: N802
        """Take an order. Its sum stands in the address, so that whoever is asked about it sees what it costs."""
        body = self.read_body()
        if not self.path.startswith(ORDERS) or not self.is_known():
            return self.answer(404, None)
        packs: dict[str, int] = json.loads(body)["packs"]
        cents = sum(self.shop.articles[number].cents * count for number, count in packs.items())
        if self.path != f"{ORDERS}{cents / 100:.2f}":
            return self.answer(409, {"error": f"that costs {cents / 100:.2f}"})
        made = {"order": f"SO-{5001 + len(self.shop.orders)}", "packs": packs, "total": cents / 100, "currency": "EUR"}
        self.shop.orders.append(made)
        return self.answer(201, made)

    def is_known(self) -> bool:
        """Say whether the caller brings the token."""
        return compare_digest(self.headers.get("Authorization", ""), f"Bearer {self.shop.token}")

    def answer(self, status: int, value: object) -> None:
        """Send a value to whoever may have it."""
        if not self.is_known():
            status, value = 401, {"error": "who are you?"}
        self.shop.asked.append((self.command, self.path, status))
        self.send(status, json.dumps(value).encode(), ("Content-Type", "application/json"))


@contextmanager
def serving(folder: Path, token: str, seed: int = 0) -> Iterator[Shop]:
    """Serve for the length of a block."""
    ca, chain = website.certify_hosts(folder, HOST)
    shop = Shop(token, ca, {article.number: article for article in storeroom(seed)})
    with website.serve_website(type("Talking", (Talk,), {"shop": shop}), chain) as port:
        shop.port = port
        yield shop
