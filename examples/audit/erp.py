"""An ERP to audit against: a sign-in page over HTTPS on loopback, orders, and their export as a workbook."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hmac import compare_digest
from html import escape
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs

from examples import website
from examples.audit import ledger
from examples.audit.invoices import Invoice

HOST = "erp.example.test"
USER = "auditor"
SHOWN = 25
PAGE = """<!doctype html><html lang=en><meta charset=utf-8><title>ERP</title><link rel=icon href=data:,>
<style>body {{ font: 16px sans-serif; margin: 3em }} td, th {{ padding: .2em 1em; text-align: left }}
td:last-child {{ text-align: right }}</style>{page}"""
LOGIN = """<h1>Sign in</h1><form method=post action=/login>
<p><label>User <input name=user autocomplete=off></label>
<p><label>Password <input name=password type=password></label>
<p><button>Sign in</button></form>"""
EXPORT = "orders.xlsx"


@dataclass
class Erp:
    """The state of a running ERP."""

    ca: Path
    """The authority of its certificate."""
    orders: tuple[Invoice, ...]
    password: str
    port: int = 0
    log: list[tuple[str, str, int]] = field(default_factory=list)
    """Method, path and status of every request."""
    requests: list[bytes] = field(default_factory=list)
    """Every request with its headers and body, to look for stolen data."""
    sessions: set[str] = field(default_factory=set)


class ErpHandler(website.SiteHandler):
    """Answers the requests of one connection."""

    erp: Erp

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Send a page, to a signed-in caller."""
        if self.path == "/login":
            self.send_page(200, LOGIN)
        elif not self.is_signed_in():
            self.send_page(303, "", ("Location", "/login"))
        elif self.path == "/orders":
            self.send_page(200, render_orders(self.erp.orders))
        elif self.path == "/orders/export":
            self.record(b"", 200)
            kind = ("Content-Type", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")
            name = ("Content-Disposition", f'attachment; filename="{EXPORT}"')
            self.send(200, ledger.write_workbook(self.erp.orders), kind, name)
        else:
            self.send_page(404, "<h1>There is no such page</h1>")

    def do_POST(self) -> None:  # noqa: N802
        """Sign the caller in."""
        body = self.read_body()
        form = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        is_right = compare_digest(form.get("password", "").encode(), self.erp.password.encode())
        if self.path != "/login" or form.get("user") != USER or not is_right:
            self.send_page(403, LOGIN, body=body)
        else:
            session = secrets.token_urlsafe(24)
            self.erp.sessions.add(session)
            cookie = f"session={session}; Secure; HttpOnly; SameSite=Lax; Path=/"
            self.send_page(303, "", ("Location", "/orders"), ("Set-Cookie", cookie), body=body)

    def is_signed_in(self) -> bool:
        """Return whether the request has a session's cookie."""
        cookies = SimpleCookie(self.headers.get("Cookie", ""))
        return "session" in cookies and cookies["session"].value in self.erp.sessions

    def send_page(self, status: int, page: str, *headers: tuple[str, str], body: bytes = b"") -> None:
        """Record the request, and send a page."""
        self.record(body, status)
        self.send(status, PAGE.format(page=page).encode(), *headers)

    def record(self, body: bytes, status: int) -> None:
        """Record a request and its status."""
        self.erp.log.append((self.command, self.path, status))
        self.erp.requests.append(f"{self.command} {self.path}\n{self.headers}".encode() + body)


def render_orders(orders: tuple[Invoice, ...]) -> str:
    """Return the page of orders: the first ones, and a link to the export."""
    rows = "".join(
        f"<tr><td>{each.order}<td>{escape(each.vendor.name)}<td>{each.total / 100:,.2f}" for each in orders[:SHOWN]
    )
    head = f"<h1>Orders</h1><p>{len(orders)} orders; the first {SHOWN} are shown. "
    return f"{head}<a href=/orders/export>Export to Excel</a><table><tr><th>Order<th>Vendor<th>EUR{rows}</table>"


@contextmanager
def serve_erp(erp: Erp, chain: Path) -> Iterator[Erp]:
    """Serve during the block, at the port of an earlier run if `erp` has one."""
    with website.serve_website(type("Handler", (ErpHandler,), {"erp": erp}), chain, erp.port) as port:
        erp.port = port
        yield erp
