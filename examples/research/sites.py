"""Two publishers' sites: one is public, one is for members."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hmac import compare_digest
from html import escape
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs

from examples import website
from examples.research.market import HARBOUR, MERIDIAN, NAMES, REPORTS

USER = "analyst"
PAGE = """<!doctype html><html lang=en><meta charset=utf-8><title>{name}</title><link rel=icon href=data:,>
<style>body {{ margin: 0; font: 17px sans-serif; color: #222 }} header {{ background: {colour}; color: white;
padding: 22px 48px; font-size: 26px }} main {{ padding: 28px 48px }} a {{ color: {colour} }} li {{ margin: 14px 0 }}
input, button {{ font: inherit; padding: 6px }}</style><header>{name}</header><main>{body}</main>"""
LOGIN = """<h1>Sign in</h1><form method=post action=/login>
<p><label>User <input name=user autocomplete=off></label>
<p><label>Password <input name=password type=password></label>
<p><button>Sign in</button></form>"""
COLOURS = {MERIDIAN: "#0b5c7a", HARBOUR: "#5a2a6b"}


@dataclass
class Publisher:
    """A publisher with reports."""

    host: str
    reports: Mapping[str, bytes]
    password: str = ""
    """The members' password; empty for a public site."""
    requests: list[tuple[str, int]] = field(default_factory=list)
    """Path and status of every request."""
    sessions: set[str] = field(default_factory=set)
    """The session of each signed-in member."""


class Handler(website.SiteHandler):
    """Answers the requests of one connection."""

    publisher: Publisher

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Send a page or a report, to a caller who may read it."""
        name = self.path.removeprefix("/reports/").removesuffix(".pdf")
        if self.path == "/login":
            self.answer(200, LOGIN)
        elif not self.may_read():
            self.answer(303, "", ("Location", "/login"))
        elif self.path in ("/", "/reports"):
            self.answer(200, f"<h1>Reports</h1><ul>{''.join(map(format_item, self.publisher.reports))}</ul>")
        elif self.path == f"/reports/{name}.pdf" and name in self.publisher.reports:
            self.publisher.requests.append((self.path, 200))
            kind = (("Content-Type", "application/pdf"), ("Content-Disposition", f"attachment; filename={name}.pdf"))
            self.send(200, self.publisher.reports[name], *kind)
        else:
            self.answer(404, "<h1>There is no such page</h1>")

    def do_POST(self) -> None:  # noqa: N802
        """Sign a member in."""
        form = {name: values[0] for name, values in parse_qs(self.read_body().decode()).items()}
        is_right = compare_digest(form.get("password", "").encode(), self.publisher.password.encode())
        if self.path != "/login" or form.get("user") != USER or not is_right:
            return self.answer(403, LOGIN)
        session = secrets.token_urlsafe(24)
        self.publisher.sessions.add(session)
        cookie = f"session={session}; Secure; HttpOnly; SameSite=Lax; Path=/"
        return self.answer(303, "", ("Location", "/reports"), ("Set-Cookie", cookie))

    def may_read(self) -> bool:
        """Return whether the site is public or the request has a session's cookie."""
        cookies = SimpleCookie(self.headers.get("Cookie", ""))
        is_member = "session" in cookies and cookies["session"].value in self.publisher.sessions
        return is_member or not self.publisher.password

    def answer(self, status: int, body: str, *headers: tuple[str, str]) -> None:
        """Send a page."""
        host = self.publisher.host
        self.publisher.requests.append((self.path, status))
        self.send(status, PAGE.format(name=NAMES[host], colour=COLOURS[host], body=body).encode(), *headers)


def format_item(name: str) -> str:
    """Return a report's entry in the list."""
    return f"<li><a href='/reports/{name}.pdf'>{escape(REPORTS[name][1])}</a> (PDF)"


@contextmanager
def serve_publishers(
    folder: Path, reports: Mapping[str, bytes], password: str
) -> Iterator[tuple[list[Publisher], str]]:
    """Serve both during the block; yield them, and settings by which the door finds them."""
    ca, chain = website.certify_hosts(folder, MERIDIAN, HARBOUR)
    own = {host: {name: reports[name] for name in REPORTS if REPORTS[name][0] == host} for host in NAMES}
    both = [Publisher(MERIDIAN, own[MERIDIAN]), Publisher(HARBOUR, own[HARBOUR], password)]
    handlers = [type("Handler", (Handler,), {"publisher": publisher}) for publisher in both]
    with website.serve_website(handlers[0], chain) as first, website.serve_website(handlers[1], chain) as second:
        yield both, website.format_door_settings(ca, {MERIDIAN: first, HARBOUR: second})
