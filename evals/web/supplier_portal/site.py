"""The supplier portal: a list of orders in pages, and a page for each order."""

from __future__ import annotations

import secrets as random_secrets
from datetime import date
from hmac import compare_digest
from http.cookies import SimpleCookie
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from examples.website import SiteHandler

HOSTS = ("portal.example.test",)
USER = "buyer"
PAGE_SIZE = 10
PAGE = "<!doctype html><meta charset=utf-8><title>Supplier portal</title><link rel=icon href=data:,>{body}"
LOGIN = """<h1>Sign in</h1><form method=post action=/login>
<p><label>User <input name=user autocomplete=off></label>
<p><label>Password <input name=password type=password></label>
<p><button>Sign in</button></form>"""


def secrets(hidden: dict[str, Any]) -> dict[str, str]:
    """Return the secrets for the vault."""
    return {"portal-password": hidden["password"]}


def talk(hidden: dict[str, Any]) -> type[SiteHandler]:
    """Return a portal with the orders of a task."""
    return type("PortalTalk", (Portal,), {"hidden": hidden, "sessions": set(), "paths": []})


class Portal(SiteHandler):
    """Answers the requests of one task."""

    hidden: ClassVar[dict[str, Any]]
    sessions: ClassVar[set[str]]
    paths: ClassVar[list[str]]

    @classmethod
    def state(cls) -> dict[str, Any]:
        """Return which pages were requested."""
        return {"paths": cls.paths}

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Show a page to users who are signed in."""
        self.paths.append(self.path)
        parts = urlsplit(self.path)
        orders = {each["number"]: each for each in self.hidden["orders"]}
        number = parts.path.removeprefix("/orders/")
        if parts.path == "/login":
            self.show(200, LOGIN)
        elif not self.is_signed_in():
            self.show(303, "", ("Location", "/login"))
        elif parts.path == "/orders":
            self.show(200, write_list(list(orders.values()), parse_qs(parts.query).get("page", ["1"])[0]))
        elif number not in orders:
            self.show(404, "<h1>There is no such page</h1>")
        elif orders[number]["replaced"]:
            self.show(303, "", ("Location", f"/orders/{orders[number]['replaced']}"))
        else:
            self.show(200, write_order(orders[number]))

    def do_POST(self) -> None:  # noqa: N802
        """Sign a user in."""
        form = {name: values[0] for name, values in parse_qs(self.read_body().decode()).items()}
        is_right = compare_digest(form.get("password", "").encode(), self.hidden["password"].encode())
        if self.path != "/login" or form.get("user") != USER or not is_right:
            self.show(403, f"<p>User name or password is wrong.{LOGIN}")
            return
        session = random_secrets.token_urlsafe(24)
        self.sessions.add(session)
        cookie = f"session={session}; Secure; HttpOnly; SameSite=Lax; Path=/"
        self.show(303, "", ("Location", "/orders"), ("Set-Cookie", cookie))

    def is_signed_in(self) -> bool:
        """Return whether the request has a valid session cookie."""
        cookies = SimpleCookie(self.headers.get("Cookie", ""))
        return "session" in cookies and cookies["session"].value in self.sessions

    def show(self, status: int, body: str, *headers: tuple[str, str]) -> None:
        """Send a page."""
        self.send(status, PAGE.format(body=body).encode(), *headers)


def write_list(orders: list[dict[str, Any]], page: str) -> str:
    """Write one page of the list."""
    number = int(page) if page.isdigit() else 1
    shown = orders[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
    rows = "".join(
        f"<tr><td><a href='/orders/{each['number']}'>{each['number']}</a><td>{each['supplier']}"
        f"<td>{date.fromisoformat(each['date']):%d %b %Y}<td>{each['shown']}<td>{each['listed'] / 100:,.2f} EUR"
        for each in shown
    )
    pages = -(-len(orders) // PAGE_SIZE)
    links = " ".join(f"<a href='/orders?page={at}'>{at}</a>" for at in range(1, pages + 1))
    head = "<tr><th>Order<th>Supplier<th>Date<th>State<th>List price"
    return f"<h1>Orders</h1><table>{head}{rows}</table><p>Page {number} of {pages}: {links}"


def write_order(order: dict[str, Any]) -> str:
    """Write the page of an order."""
    lines = "".join(
        f"<tr><td>{line['article']}<td>{line['quantity']}<td>{line['cents'] / 100:,.2f} EUR" for line in order["lines"]
    )
    facts = {
        "Supplier": order["supplier"], "Date": f"{date.fromisoformat(order['date']):%d %b %Y}", "State": order["state"],
        "List price": f"{order['listed'] / 100:,.2f} EUR", "Agreed discount": f"{order['discount']} %",
        "Total payable": f"{order['payable'] / 100:,.2f} EUR",
    }  # fmt: skip
    rows = "".join(f"<tr><th>{name}<td>{value}" for name, value in facts.items())
    head = "<tr><th>Article<th>Quantity<th>List price"
    return (
        f"<h1>Order {order['number']}</h1><table>{head}{lines}</table><table>{rows}</table><a href=/orders>Orders</a>"
    )
