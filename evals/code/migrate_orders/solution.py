"""The reference solution, a written script: look at the database, write the program, run it."""

from __future__ import annotations

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

PROGRAM = '''"""Move a shop's database to version 2: `python3 migrate.py OLD NEW`."""

import re
import sqlite3
import sys
from datetime import date

SCHEMA = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE, since TEXT NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers (id),
                     placed TEXT NOT NULL, cents INTEGER NOT NULL, status TEXT NOT NULL, note TEXT);
CREATE TABLE rejected (order_id INTEGER PRIMARY KEY, reason TEXT NOT NULL);
PRAGMA user_version = 2;
"""
STATUS = {"PAID": "paid", "canceled": "cancelled", "": "open", None: "open"}


def iso(text):
    """Return a date as 2024-03-01, or None."""
    text = (text or "").strip()
    try:
        if match := re.fullmatch(r"(\\d{1,2})\\.(\\d{1,2})\\.(\\d{2}|\\d{4})", text):
            day, month, year = map(int, match.groups())
            return date(year + 2000 if year < 100 else year, month, day).isoformat()
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return None


def main():
    old, new = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True), sqlite3.connect(sys.argv[2])
    new.executescript(SCHEMA)
    customers, owner = {}, {}
    for number, name, email, since in old.execute("SELECT id, name, email, since FROM customers ORDER BY id"):
        email, since = email.strip().lower(), iso(since)
        row = customers.setdefault(email, [number, name, email, since])
        row[3] = min(row[3], since)
        owner[number] = row[0]
    new.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)", customers.values())
    orders, rejected = [], []
    for number, customer, placed, amount, status, note in old.execute(
        "SELECT id, customer, placed, amount, status, note FROM orders ORDER BY id"
    ):
        if customer not in owner:
            rejected.append((number, "no customer"))
        elif iso(placed) is None:
            rejected.append((number, "bad date"))
        else:
            cents, status = round(amount * 100), STATUS.get(status, status)
            orders.append((number, owner[customer], iso(placed), cents, status, note or None))
    new.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", orders)
    new.executemany("INSERT INTO rejected VALUES (?, ?)", rejected)
    new.commit()
    print(f"customers {len(customers)}, orders {len(orders)}, rejected {len(rejected)}")


if __name__ == "__main__":
    main()
'''


async def look(hands: Hands) -> Done:
    """Inspect the old database."""
    return await hands.run(["sqlite3", "shop.db", ".schema", "SELECT * FROM orders LIMIT 5"])


async def write(hands: Hands) -> Done:
    """Write the program, and run it on the database."""
    await hands.write("migrate.py", PROGRAM.encode())
    return await hands.run(["python3", "migrate.py", "shop.db", "new.db"], timeout=60)


PLAN = (step(look, files=["shop.db", "TASK.md"]), step(write, files=["shop.db"], makes=["migrate.py"]))
