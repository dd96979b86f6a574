"""The expense site: pending claims and an archive in pages, and decisions that are final."""

from __future__ import annotations

import re
import secrets as random_secrets
from hmac import compare_digest
from html import escape
from http.cookies import SimpleCookie
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from examples.website import SiteHandler

HOSTS = ("expenses.example.test",)
USER = "hannah"
PAGE_SIZE = 8
REASONS = ("DUPLICATE", "TOO_LATE", "NO_RECEIPT", "OVER_LIMIT")
PAGE = "<!doctype html><meta charset=utf-8><title>Expenses</title><link rel=icon href=data:,>{body}"
LOGIN = """<h1>Sign in</h1><form method=post action=/login>
<p><label>User <input name=user autocomplete=off></label>
<p><label>Password <input name=password type=password></label>
<p><button>Sign in</button></form>"""
BUTTONS = """<form method=post action=/claims/{number}/approve><button>Approve</button></form>
<form method=post action=/claims/{number}/reject>
<p><label>Reason <select name=reason>{reasons}</select></label> <button>Reject</button></form>"""


def secrets(hidden: dict[str, Any]) -> dict[str, str]:
    """Return the secrets for the vault."""
    return {"expenses-password": hidden["password"]}


def talk(hidden: dict[str, Any]) -> type[SiteHandler]:
    """Return the site of a task."""
    return type("ExpensesTalk", (Expenses,), {"hidden": hidden, "sessions": set(), "decisions": {}})


class Expenses(SiteHandler):
    """Answers the requests of one task."""

    hidden: ClassVar[dict[str, Any]]
    sessions: ClassVar[set[str]]
    decisions: ClassVar[dict[str, list[str]]]

    @classmethod
    def state(cls) -> dict[str, Any]:
        """Return the decisions that were made, each with its reason."""
        return {"decisions": cls.decisions}

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Show a page to users who are signed in."""
        parts = urlsplit(self.path)
        page = parse_qs(parts.query).get("page", ["1"])[0]
        pending = [each for each in self.hidden["pending"] if each["number"] not in self.decisions]
        claims = {each["number"]: each for each in [*self.hidden["archive"], *self.hidden["pending"]]}
        if parts.path == "/login":
            self.show(200, LOGIN)
        elif not self.is_signed_in():
            self.show(303, "", ("Location", "/login"))
        elif parts.path == "/claims":
            self.show(200, write_list("Pending claims", "/claims", pending, page))
        elif parts.path == "/archive":
            self.show(200, write_list("Archive", "/archive", self.hidden["archive"], page))
        elif (number := parts.path.removeprefix("/claims/")) in claims:
            self.show(200, write_claim(claims[number], is_pending=claims[number] in pending))
        else:
            self.show(404, "<h1>There is no such page</h1>")

    def do_POST(self) -> None:  # noqa: N802
        """Sign a user in, or decide a claim."""
        form = {name: values[0] for name, values in parse_qs(self.read_body().decode()).items()}
        match = re.fullmatch(r"/claims/(EX-\d+)/(approve|reject)", self.path)
        numbers = [each["number"] for each in self.hidden["pending"]]
        if self.path == "/login":
            self.sign_in(form)
        elif match is None or match[1] not in numbers or not self.is_signed_in():
            self.show(404, "<h1>There is no such claim</h1>")
        elif match[1] in self.decisions:
            self.show(409, "<h1>This claim is decided already</h1>")
        elif match[2] == "reject" and form.get("reason") not in REASONS:
            self.show(422, "<h1>Choose a reason</h1>")
        else:
            self.decisions[match[1]] = [match[2], form.get("reason", "") if match[2] == "reject" else ""]
            self.show(303, "", ("Location", "/claims"))

    def sign_in(self, form: dict[str, str]) -> None:
        """Start a session for a user with the right password."""
        is_right = compare_digest(form.get("password", "").encode(), self.hidden["password"].encode())
        if form.get("user") != USER or not is_right:
            self.show(403, f"<p>User name or password is wrong.{LOGIN}")
            return
        session = random_secrets.token_urlsafe(24)
        self.sessions.add(session)
        cookie = f"session={session}; Secure; HttpOnly; SameSite=Lax; Path=/"
        self.show(303, "", ("Location", "/claims"), ("Set-Cookie", cookie))

    def is_signed_in(self) -> bool:
        """Return whether the request has a valid session cookie."""
        cookies = SimpleCookie(self.headers.get("Cookie", ""))
        return "session" in cookies and cookies["session"].value in self.sessions

    def show(self, status: int, body: str, *headers: tuple[str, str]) -> None:
        """Send a page."""
        self.send(status, PAGE.format(body=body).encode(), *headers)


def write_list(title: str, path: str, claims: list[dict[str, Any]], page: str) -> str:
    """Write one page of a list."""
    number, pages = int(page) if page.isdigit() else 1, max(1, -(-len(claims) // PAGE_SIZE))
    shown = claims[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
    rows = "".join(
        f"<tr><td><a href='/claims/{each['number']}'>{each['number']}</a><td>{each['employee']}<td>{each['kind']}"
        f"<td>{each['day']}<td>{each['cents'] / 100:,.2f} EUR"
        for each in shown
    )
    links = " ".join(f"<a href='{path}?page={at}'>{at}</a>" for at in range(1, pages + 1))
    others = "<a href=/claims>Pending claims</a> <a href=/archive>Archive</a>"
    head = "<tr><th>Claim<th>Employee<th>Kind<th>Day<th>Amount"
    return f"<h1>{title}</h1><table>{head}{rows}</table><p>Page {number} of {pages}: {links}<p>{others}"


def write_claim(claim: dict[str, Any], *, is_pending: bool) -> str:
    """Write the page of a claim."""
    unit = {"Meal": "Persons", "Hotel": "Nights"}.get(claim["kind"], "Count")
    facts = {
        "Employee": claim["employee"], "Kind": claim["kind"], "Day of the expense": claim["day"], unit: claim["count"],
        "Submitted": claim["submitted"], "Receipt": "yes" if claim["receipt"] else "no",
        "Amount": f"{claim['cents'] / 100:,.2f} EUR", "Comment": claim["comment"] or "none",
    }  # fmt: skip
    rows = "".join(f"<tr><th>{name}<td>{escape(str(value))}" for name, value in facts.items())
    options = "".join(f"<option>{reason}" for reason in REASONS)
    buttons = BUTTONS.format(number=claim["number"], reasons=options) if is_pending else "<p>This claim is decided."
    return f"<h1>Claim {claim['number']}</h1><table>{rows}</table>{buttons}<a href=/claims>Pending claims</a>"
