"""A test ERP: pages over HTTPS on loopback, after signing in. It has no API."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hmac import compare_digest
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs

from examples import website

HOST = "erp.example.test"
ORDERS = {"PO-7001": 1140.00, "PO-7002": 779.00, "PO-7003": 885.00, "PO-7004": 980.00, "PO-7005": 476.00}
"""The ordered amounts. The invoice of PO-7004 says 1080.00."""
USER = "clerk"
PAGE = "<!doctype html><meta charset=utf-8><title>ERP</title><link rel=icon href=data:,>{page}"
LOGIN = """<h1>Sign in</h1><form method=post action=/login>
<p><label>User <input name=user autocomplete=off></label>
<p><label>Password <input name=password type=password></label>
<p><button>Sign in</button></form>"""
ORDER = """<h1>Order {order}</h1><table>
<tr><th>Amount<td id=amount>{amount:,.2f} EUR
</table><a href=/orders>All orders</a>"""


@dataclass
class Erp:
    """The state of a running ERP."""

    port: int
    ca: Path
    """The authority of its certificate."""
    requests: list[tuple[str, int]] = field(default_factory=list)
    """Path and status of every request."""
    sessions: set[str] = field(default_factory=set)
    """The session of each signed-in member."""


class Handler(website.SiteHandler):
    """Answers the requests of one connection."""

    password: str
    erp: Erp

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Send a page, to a signed-in caller."""
        if self.path == "/login":
            self.answer(200, LOGIN)
        elif not self.is_signed_in():
            self.answer(303, "", ("Location", "/login"))
        elif self.path == "/orders":
            self.answer(200, "<h1>Orders</h1>" + "".join(f"<a href='/orders/{order}'>{order}</a> " for order in ORDERS))
        elif (order := self.path.removeprefix("/orders/")) in ORDERS:
            self.answer(200, ORDER.format(order=order, amount=ORDERS[order]))
        else:
            self.answer(404, "<h1>There is no such order</h1>")

    def do_POST(self) -> None:  # noqa: N802
        """Sign the caller in."""
        form = {name: values[0] for name, values in parse_qs(self.read_body().decode()).items()}
        is_right = compare_digest(form.get("password", "").encode(), self.password.encode())
        if self.path != "/login" or form.get("user") != USER or not is_right:
            self.answer(403, LOGIN)
        else:
            session = secrets.token_urlsafe(24)
            self.erp.sessions.add(session)
            cookie = f"session={session}; Secure; HttpOnly; SameSite=Lax; Path=/"
            self.answer(303, "", ("Location", "/orders"), ("Set-Cookie", cookie))

    def is_signed_in(self) -> bool:
        """Return whether the request has a session's cookie."""
        cookies = SimpleCookie(self.headers.get("Cookie", ""))
        return "session" in cookies and cookies["session"].value in self.erp.sessions

    def answer(self, status: int, page: str, *headers: tuple[str, str]) -> None:
        """Send a page."""
        self.erp.requests.append((self.path, status))
        self.send(status, PAGE.format(page=page).encode(), *headers)


@contextmanager
def serve_erp(folder: Path, password: str) -> Iterator[Erp]:
    """Serve during the block."""
    ca, chain = website.certify_hosts(folder, HOST)
    erp = Erp(0, ca)
    with website.serve_website(type("Handler", (Handler,), {"password": password, "erp": erp}), chain) as port:
        erp.port = port
        yield erp
