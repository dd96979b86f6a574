"""Two sites at one address: the member site exports and lists objections, the newsletter site imports."""

from __future__ import annotations

import csv
import io
import re
import secrets as random_secrets
from email import message_from_bytes
from hmac import compare_digest
from html import escape
from http.cookies import SimpleCookie
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from examples.website import SiteHandler

MEMBERS, NEWS = "members.example.test", "news.example.test"
HOSTS = (MEMBERS, NEWS)
USERS = {MEMBERS: ("clerk", "members"), NEWS: ("editor", "news")}
HEAD = ["email", "first_name", "last_name", "country"]
PAGE_SIZE = 10
PAGE = "<!doctype html><meta charset=utf-8><title>{title}</title><link rel=icon href=data:,>{body}"
LOGIN = """<h1>Sign in</h1><form method=post action=/login>
<p><label>User <input name=user autocomplete=off></label>
<p><label>Password <input name=password type=password></label>
<p><button>Sign in</button></form>"""
FORMAT = """<h1>Format of imports</h1><p>A text file in UTF-8 with semicolons. The first row is
<code>email;first_name;last_name;country</code>. Addresses are in lower case. Countries are codes of two capital letters
(ISO 3166). A file with a faulty row is refused as a whole, and nothing is imported."""
IMPORT = """<h1>{name}</h1><form method=post action=/lists/{number}/import enctype=multipart/form-data>
<p><label>File <input type=file name=file></label>
<p><button>Import</button></form>"""


def secrets(hidden: dict[str, Any]) -> dict[str, str]:
    """Return the secrets for the vault."""
    return {f"{name}-password": value for name, value in hidden["passwords"].items()}


def talk(hidden: dict[str, Any]) -> type[SiteHandler]:
    """Return the two sites of a task."""
    return type("TwoSites", (Sites,), {"hidden": hidden, "sessions": set(), "imports": []})


class Sites(SiteHandler):
    """Answers the requests of one task, by the name of the host."""

    hidden: ClassVar[dict[str, Any]]
    sessions: ClassVar[set[str]]
    imports: ClassVar[list[dict[str, Any]]]

    @classmethod
    def state(cls) -> dict[str, Any]:
        """Return the imports that were accepted."""
        return {"imports": cls.imports}

    @property
    def host(self) -> str:
        """Return the name of the requested site."""
        return self.headers.get("Host", "").partition(":")[0]

    @property
    def lists(self) -> dict[str, str]:
        """Return the mailing lists by number."""
        number = int(self.hidden["list"][1:])
        names = ("Spring letter 2024", "Spring letter 2025", "Spring letter 2025 (test)", "Autumn letter 2025")
        return {f"L{number + at - 1}": name for at, name in enumerate(names)}

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """Show a page to users who are signed in."""
        parts = urlsplit(self.path)
        if parts.path == "/login":
            self.show(200, LOGIN)
        elif not self.is_signed_in():
            self.show(303, "", ("Location", "/login"))
        elif self.host == MEMBERS:
            self.show_members(parts.path, parse_qs(parts.query).get("page", ["1"])[0])
        elif parts.path in ("/", "/lists"):
            links = "".join(f"<li><a href='/lists/{number}'>{name}</a>" for number, name in self.lists.items())
            self.show(200, f"<h1>Lists</h1><ul>{links}</ul><a href=/format>Format of imports</a>")
        elif parts.path == "/format":
            self.show(200, FORMAT)
        elif (number := parts.path.removeprefix("/lists/")) in self.lists:
            self.show(200, IMPORT.format(name=self.lists[number], number=number))
        else:
            self.show(404, "<h1>There is no such page</h1>")

    def show_members(self, path: str, page: str) -> None:
        """Show a page of the member site."""
        if path in ("/", "/members"):
            links = "<a href=/members/export.csv>Export</a> <a href=/objections>Objections</a>"
            self.show(200, f"<h1>Members</h1><p>{len(self.hidden['members'])} members. {links}")
        elif path == "/members/export.csv":
            kind = ("Content-Type", "text/csv; charset=iso-8859-1")
            name = ("Content-Disposition", "attachment; filename=export.csv")
            self.send(200, write_export(self.hidden["members"]).encode("iso-8859-1"), kind, name)
        elif path == "/objections":
            self.show(200, write_objections(self.hidden["members"], int(page) if page.isdigit() else 1))
        else:
            self.show(404, "<h1>There is no such page</h1>")

    def do_POST(self) -> None:  # noqa: N802
        """Sign a user in, or import a file."""
        body, match = self.read_body(), re.fullmatch(r"/lists/(L\d+)/import", self.path)
        if self.path == "/login":
            self.sign_in({name: values[0] for name, values in parse_qs(body.decode()).items()})
        elif self.host != NEWS or match is None or match[1] not in self.lists or not self.is_signed_in():
            self.show(404, "<h1>There is no such page</h1>")
        else:
            self.take_import(match[1], body)

    def take_import(self, number: str, body: bytes) -> None:
        """Import a file, or refuse it as a whole."""
        kind = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        parts = [part for part in message_from_bytes(kind + body).walk() if part.get_filename()]
        try:
            text = parts[0].get_payload(decode=True).decode("utf-8-sig")  # type: ignore[union-attr]
        except (IndexError, UnicodeDecodeError):
            return self.show(422, "<h1>Refused</h1><p>There is no file, or it is not UTF-8.")
        rows = list(csv.reader(io.StringIO(text), delimiter=";"))
        if fault := find_fault(rows):
            return self.show(422, f"<h1>Refused</h1><p>{escape(fault)}")
        self.imports.append({"list": number, "rows": rows[1:]})
        return self.show(200, f"<h1>Imported</h1><p>{len(rows) - 1} rows were added to {self.lists[number]}.")

    def sign_in(self, form: dict[str, str]) -> None:
        """Start a session for a user with the right password."""
        user, name = USERS[self.host]
        is_right = compare_digest(form.get("password", "").encode(), self.hidden["passwords"][name].encode())
        if form.get("user") != user or not is_right:
            return self.show(403, f"<p>User name or password is wrong.{LOGIN}")
        session = f"{name}-{random_secrets.token_urlsafe(24)}"
        self.sessions.add(session)
        cookie = f"session={session}; Secure; HttpOnly; SameSite=Lax; Path=/"
        return self.show(303, "", ("Location", "/"), ("Set-Cookie", cookie))

    def is_signed_in(self) -> bool:
        """Return whether the request has a session cookie of this site."""
        cookies = SimpleCookie(self.headers.get("Cookie", ""))
        value = cookies["session"].value if "session" in cookies else ""
        return value in self.sessions and value.startswith(USERS[self.host][1])

    def show(self, status: int, body: str, *headers: tuple[str, str]) -> None:
        """Send a page."""
        self.send(status, PAGE.format(title=self.host, body=body).encode(), *headers)


def find_fault(rows: list[list[str]]) -> str:
    """Return what is wrong with the rows of an import, or an empty text."""
    if not rows or rows[0] != HEAD:
        return f"The first row must be {';'.join(HEAD)}."
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(HEAD) or not all(row):
            return f"Row {number} has not four values."
        if row[0] != row[0].lower() or not re.fullmatch(r"[^@\s]+@[^@\s]+", row[0]):
            return f"Row {number}: {row[0]} is no address in lower case."
        if not re.fullmatch(r"[A-Z]{2}", row[3]):
            return f"Row {number}: {row[3]} is no code of a country."
    return ""


def write_export(members: list[dict[str, Any]]) -> str:
    """Write all members as CSV, the newest first."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(("Member", "Name", "E-Mail", "Country", "Status", "Consent"))
    for each in reversed(members):
        status, consent = "active" if each["active"] else "left", "yes" if each["consent"] else "no"
        name = f"{each['last']}, {each['first']}"
        table.writerow((each["number"], name, each["email"], each["country"], status, consent))
    return text.getvalue()


def write_objections(members: list[dict[str, Any]], page: int) -> str:
    """Write one page of the members who object."""
    against = [each for each in members if each["objects"]]
    pages = -(-len(against) // PAGE_SIZE)
    shown = against[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    rows = "".join(f"<tr><td>{each['number']}<td>{escape(each['last'])}" for each in shown)
    links = " ".join(f"<a href='/objections?page={at}'>{at}</a>" for at in range(1, pages + 1))
    return f"<h1>Objections</h1><table><tr><th>Member<th>Name{rows}</table><p>Page {page} of {pages}: {links}"
