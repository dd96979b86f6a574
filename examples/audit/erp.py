"""An ERP to audit against: pages over HTTPS on loopback, for whoever signs in, and its orders as a workbook."""

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
    """An ERP that runs."""

    ca: Path
    """The authority its certificate is from."""
    orders: tuple[Invoice, ...]
    password: str
    port: int = 0
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    """Every method and path it was asked for, and what it answered."""
    heard: list[bytes] = field(default_factory=list)
    """Every request whole: what a thief would have sent."""
    sessions: set[str] = field(default_factory=set)


class Talk(website.Talk):
    """Answers one request after the other."""

    erp: Erp

    def do_GET(self) -> None:  # noqa: N802 - so it is called
        """Show a page to whoever may see it."""
        if self.path == "/login":
            self.answer(200, LOGIN)
        elif not self.is_signed_in():
            self.answer(303, "", ("Location", "/login"))
        elif self.path == "/orders":
            self.answer(200, listed(self.erp.orders))
        elif self.path == "/orders/export":
            self.note(b"", 200)
            kind = ("Content-Type", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")
            named = ("Content-Disposition", f'attachment; filename="{EXPORT}"')
            self.send(200, ledger.workbook(self.erp.orders), kind, named)
        else:
            self.answer(404, "<h1>There is no such page</h1>")

    def do_POST(self) -> None:  # noqa: N802
        """Let somebody in."""
        body = self.told()
        told = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        right = compare_digest(told.get("password", "").encode(), self.erp.password.encode())
        if self.path != "/login" or told.get("user") != USER or not right:
            self.answer(403, LOGIN, body=body)
        else:
            session = secrets.token_urlsafe(24)
            self.erp.sessions.add(session)
            cookie = f"session={session}; Secure; HttpOnly; SameSite=Lax; Path=/"
            self.answer(303, "", ("Location", "/orders"), ("Set-Cookie", cookie), body=body)

    def is_signed_in(self) -> bool:
        """Say whether the caller brings a session of ours."""
        cookies = SimpleCookie(self.headers.get("Cookie", ""))
        return "session" in cookies and cookies["session"].value in self.erp.sessions

    def answer(self, status: int, page: str, *headers: tuple[str, str], body: bytes = b"") -> None:
        """Send a page."""
        self.note(body, status)
        self.send(status, PAGE.format(page=page).encode(), *headers)

    def note(self, body: bytes, status: int) -> None:
        """Remember what was asked."""
        self.erp.asked.append((self.command, self.path, status))
        self.erp.heard.append(f"{self.command} {self.path}\n{self.headers}".encode() + body)


def listed(orders: tuple[Invoice, ...]) -> str:
    """Write the page of orders: the first few, and a button for all."""
    rows = "".join(
        f"<tr><td>{each.order}<td>{escape(each.vendor.name)}<td>{each.total / 100:,.2f}" for each in orders[:SHOWN]
    )
    head = f"<h1>Orders</h1><p>{len(orders)} orders; the first {SHOWN} are shown. "
    return f"{head}<a href=/orders/export>Export to Excel</a><table><tr><th>Order<th>Vendor<th>EUR{rows}</table>"


@contextmanager
def serving(erp: Erp, chain: Path) -> Iterator[Erp]:
    """Serve for the length of a block, at the port it had before if it had one."""
    with website.serving(type("Talking", (Talk,), {"erp": erp}), chain, erp.port) as port:
        erp.port = port
        yield erp
