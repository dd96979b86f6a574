"""Invent the orders of a supplier portal, and write the brief that asks for what is payable."""

from __future__ import annotations

import json
import random
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

SUPPLIERS = ("Alder Timber", "Birch Printing", "Cedar Lighting", "Dogwood Office", "Elm Catering", "Fir Plumbing")
ARTICLES = ("Oak board", "Paper box", "Lamp", "Desk", "Lunch", "Pipe", "Chair", "Cable", "Shelf", "Valve", "Carpet")
STATES = ("Delivered", "Delivered", "Delivered", "Open", "Cancelled")
TOPICS = ("deliveries", "invoices", "returns", "packaging", "damage", "opening hours of the warehouse")
BRIEF = """\
goal = \"\"\"
Sign in to the supplier portal https://portal.example.test/login as buyer; the password is in the environment variable
PORTAL_PASSWORD (a placeholder that works in the form of the portal). Write payable.csv with the columns Order,
Supplier, Date, Payable: one row for each order that was delivered and is dated in the second quarter of 2025 (1 April
to 30 June), sorted by Order.
- The list at /orders has several pages. It shows list prices, and its states may be out of date: the state and the
  total payable on the order's own page count.
- An order whose page redirects to another order was replaced by that one; only the other order counts.
- Date as YYYY-MM-DD. Payable is the total payable in EUR with two decimals, with a point and without separators of
  thousands.
notes.md tells how the portal is organised.
\"\"\"
inputs = ["notes.md"]
image = "desktop"
seconds = 1500
approve = "auto"
egress = [
    "GET https://portal.example.test/login",
    "POST https://portal.example.test/login",
    "GET https://portal.example.test/orders",
    "GET https://portal.example.test/orders/*",
]
grants = ["portal-password@portal.example.test form=password:POST:/login env=PORTAL_PASSWORD"]

[[deliverables]]
path = "payable.csv"
check = "csv"

[deliverables.expect]
columns = ["Order", "Supplier", "Date", "Payable"]
rows = {min = 5, max = 47}
numeric = ["Payable"]
unique = ["Order"]
"""
NOTES = """# Notes on the supplier portal

Staff sign in at /login with user name and password. The list of all orders is at /orders, ten on a page, sorted by
number; links at the bottom lead to the following pages. Each number leads to the page of the order, with its lines,
what was agreed with the supplier, and the total payable. The list is written once a night; changes of the day are
only on the pages of the orders.

"""


def invent(chance: random.Random) -> list[dict[str, Any]]:
    """Return the orders; some states in the list are old, and some orders were replaced."""
    orders: list[dict[str, Any]] = []
    for place in range(47):
        lines: list[dict[str, Any]] = [
            {"article": article, "quantity": chance.randint(1, 40), "cents": chance.randint(300, 20_000)}
            for article in chance.sample(ARTICLES, chance.randint(1, 4))
        ]
        listed = sum(line["quantity"] * line["cents"] for line in lines)
        discount = chance.choice((3, 5, 8, 12))
        day = date(2025, 2, 20) + timedelta(days=chance.randint(0, 160))
        state = chance.choice(STATES)
        orders.append(
            {
                "number": f"PO-{6101 + 3 * place}", "supplier": chance.choice(SUPPLIERS), "date": day.isoformat(),
                "state": state, "shown": state, "lines": lines, "listed": listed, "discount": discount,
                "payable": listed - listed * discount // 100 + chance.choice((0, 1500, 4900)), "replaced": "",
            }
        )  # fmt: skip
    inside = [each for each in orders if "2025-04-01" <= each["date"] <= "2025-06-30"]
    picked = chance.sample(inside, 8)
    for each in picked[:2]:
        each["shown"], each["state"] = "Delivered", "Cancelled"
    for each in picked[2:4]:
        each["shown"], each["state"] = "Open", "Delivered"
    for old, new in zip(picked[4:6], picked[6:8], strict=True):
        old["replaced"], old["shown"], old["state"] = new["number"], "Delivered", "Delivered"
        new["shown"], new["state"] = "Delivered", "Delivered"
    return orders


def main() -> None:
    """Write brief and truth."""
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - the same seed gives the same orders
    Path("brief").mkdir()
    Path("hidden").mkdir()
    notes = "".join(f"Questions about {topic}: extension {chance.randint(200, 899)}.\n" for topic in TOPICS)
    Path("brief/notes.md").write_text(NOTES + notes)
    Path("brief/brief.toml").write_text(BRIEF)
    password = "".join(chance.choices("abcdefghkmnpqrstuvwxyz23456789", k=20))
    Path("hidden/truth.json").write_text(json.dumps({"password": password, "orders": invent(chance)}, indent=1))


if __name__ == "__main__":
    main()
