"""The reference solution's program at its desk: sign in, read every order, write the table."""

from __future__ import annotations

import csv
import os
import re
import urllib.request
from datetime import datetime
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode

SITE = "https://portal.example.test"
OPENER = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))


def main() -> None:
    """Write payable.csv."""
    form = {"user": "buyer", "password": os.environ["PORTAL_PASSWORD"]}
    fetch("/login", urlencode(form).encode())
    numbers, page = [], 1
    while found := re.findall(r"href='/orders/(PO-\d+)'", fetch(f"/orders?page={page}")):
        numbers += found
        page += 1
    rows = {row[0]: row for row in map(read_order, numbers) if row is not None}
    with Path("payable.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("Order", "Supplier", "Date", "Payable"), *(rows[name] for name in sorted(rows))])


def read_order(number: str) -> tuple[str, str, str, str] | None:
    """Return the row of an order, or of the one that replaced it; none if it does not count."""
    text = fetch(f"/orders/{number}")
    facts = dict(re.findall(r"<tr><th>([^<]+)<td>([^<]+)", text))
    day = datetime.strptime(facts["Date"], "%d %b %Y").date().isoformat()
    if facts["State"] != "Delivered" or not "2025-04-01" <= day <= "2025-06-30":
        return None
    payable = facts["Total payable"].removesuffix(" EUR").replace(",", "")
    return (re.findall(r"<h1>Order (PO-\d+)", text)[0], facts["Supplier"], day, payable)


def fetch(path: str, data: bytes | None = None) -> str:
    """Return a page of the portal."""
    with OPENER.open(SITE + path, data, timeout=60) as response:
        return str(response.read().decode())


if __name__ == "__main__":
    main()
