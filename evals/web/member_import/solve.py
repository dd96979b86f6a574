"""The reference solution's program at its desk: export, clean, and import once."""

from __future__ import annotations

import csv
import io
import os
import re
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode

MEMBERS, NEWS = "https://members.example.test", "https://news.example.test"
HEAD = ("email", "first_name", "last_name", "country")
LIST = "Spring letter 2025"
BOUNDARY = "a-line-between-parts"
OPENER = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))


def main() -> None:
    """Write import.csv, and import it."""
    sign_in(MEMBERS, "clerk", "MEMBERS_PASSWORD")
    export = fetch(f"{MEMBERS}/members/export.csv").decode("iso-8859-1")
    rows = choose(list(csv.DictReader(io.StringIO(export))), read_objections())
    with Path("import.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=";").writerows([HEAD, *rows])
    sign_in(NEWS, "editor", "NEWS_PASSWORD")
    lists = re.findall(r"href='/lists/(L\d+)'>([^<]+)<", fetch(f"{NEWS}/lists").decode())
    [number] = [number for number, name in lists if name == LIST]
    reply = fetch(f"{NEWS}/lists/{number}/import", multipart(Path("import.csv").read_bytes()), is_file=True)
    if f"{len(rows)} rows were added" not in reply.decode():
        raise ValueError(reply.decode())


def choose(members: list[dict[str, str]], objections: set[str]) -> list[tuple[str, ...]]:
    """Return the rows to import, by member number."""
    with Path("countries.csv").open() as file:
        codes = {row["Country"]: row["Code"] for row in csv.DictReader(file)}
    rows: dict[str, tuple[str, ...]] = {}
    for each in sorted(members, key=lambda member: int(member["Member"])):
        if each["Status"] == "active" and each["Consent"] == "yes" and each["Member"] not in objections:
            last, first = each["Name"].split(", ")
            address = each["E-Mail"].lower()
            rows.setdefault(address, (address, first, last, codes[each["Country"]]))
    return list(rows.values())


def read_objections() -> set[str]:
    """Return the numbers of members who object, from all pages."""
    found: set[str] = set()
    page = 1
    while new := re.findall(r"<tr><td>(\d+)<td>", fetch(f"{MEMBERS}/objections?page={page}").decode()):
        found.update(new)
        page += 1
    return found


def sign_in(site: str, user: str, variable: str) -> None:
    """Sign in with the placeholder of a password."""
    fetch(f"{site}/login", urlencode({"user": user, "password": os.environ[variable]}).encode())


def multipart(data: bytes) -> bytes:
    """Write a file as the body of a form."""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="import.csv"\r\n'
    return f"{head}Content-Type: text/csv\r\n\r\n".encode() + data + f"\r\n--{BOUNDARY}--\r\n".encode()


def fetch(url: str, data: bytes | None = None, *, is_file: bool = False) -> bytes:
    """Return what a site answers."""
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"} if is_file else {}
    request = urllib.request.Request(url, data, headers)  # noqa: S310 - https, as written above
    with OPENER.open(request, timeout=60) as response:
        return bytes(response.read())


if __name__ == "__main__":
    main()
