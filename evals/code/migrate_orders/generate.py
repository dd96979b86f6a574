"""Write an old database, the task, and hidden databases to judge by: `python3 generate.py SEED`."""

from __future__ import annotations

import json
import random
import sqlite3
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

OLD = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT, since TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, placed TEXT, amount REAL, status TEXT, note TEXT);
"""
TASK = """# From shop.db to version 2

Write `migrate.py`: `python3 migrate.py OLD NEW` reads the database OLD, does not change it, and writes the database
NEW, which does not exist before. Standard library only. It is run on shop.db and on other databases with the same
schema. On success it prints one line, `customers A, orders B, rejected C`, with the rows of each new table, and
exits with code 0.

## The new schema

    CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE,
                            since TEXT NOT NULL);
    CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers (id),
                         placed TEXT NOT NULL, cents INTEGER NOT NULL, status TEXT NOT NULL, note TEXT);
    CREATE TABLE rejected (order_id INTEGER PRIMARY KEY, reason TEXT NOT NULL);

and `PRAGMA user_version` is 2.

## Rules

1. `email` is written in lower case, without spaces around it. Customers whose e-mail is the same after that are one
   customer. It keeps the lowest `id`, the name that belongs to that id, and the earliest `since` of all of them.
   Orders of the others become orders of that customer.
2. Dates were typed in two ways, `2024-03-01` and `1.3.2024` or `01.03.2024` (day, month, year). In the new database
   they are all `2024-03-01`. Until 2019 an import wrote two-digit years, as in `1.3.18`; they are of this century.
3. `amount` is in euros. `cents` is the amount in whole cents, rounded to the nearest: 19.99 is 1999, 1.15 is 115.
   Negative amounts are refunds and stay negative.
4. `status` is one of `open`, `paid`, `cancelled`. The old database also has `PAID`, `canceled` and an empty status
   or NULL, which mean `paid`, `cancelled` and `open`.
5. `note` is copied as it is, to the character; an empty note becomes NULL.
6. An order is rejected, and stands in `rejected` and not in `orders`, if its customer does not exist (reason
   `no customer`) or, otherwise, if its date is missing, or no date that the calendar has (reason `bad date`).
   Every customer has a date that is good.
"""
GOAL = """
Write migrate.py, which moves the database of a shop to a new schema. TASK.md states the new schema and every rule;
shop.db is the database as it is now. The program is judged on that and on other databases with the same old schema.
"""
NAMES = ("Ada Berg", "Ben Ito", "Cleo Marsh", "Dov Lind", "Eve Kahn", "Finn Roux", "Gül Aydan", "Hugo Paz", "Ines Sá")


def main() -> None:
    """Write brief/ and hidden/."""
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - the same seed gives the same databases
    Path("brief").mkdir()
    Path("hidden").mkdir()
    truth = {}
    for name, path, customers, orders in (
        ("shop", "brief/shop.db", 160, 900),
        ("other", "hidden/other.db", 90, 700),
        ("empty", "hidden/empty.db", 3, 0),
    ):
        truth[name] = write_database(Path(path), chance, customers, orders)
    Path("hidden/shop.db").write_bytes(Path("brief/shop.db").read_bytes())
    Path("hidden/truth.json").write_text(json.dumps(truth))
    Path("brief/TASK.md").write_text(TASK)
    counts = {name: len(rows) for name, rows in truth["shop"].items()}
    line = f"customers {counts['customers']}, orders {counts['orders']}, rejected {counts['rejected']}"
    Path("brief/brief.toml").write_text(
        f'goal = """{GOAL}"""\ninputs = ["shop.db", "TASK.md"]\nseconds = 900\n\n'
        '[[deliverables]]\npath = "migrate.py"\ncheck = "program"\n\n[deliverables.expect]\n'
        f'args = ["beside/shop.db", "new.db"]\ncontains = ["{line}"]\nmakes = ["new.db"]\nbeside = ["shop.db"]\n'
    )


def write_database(path: Path, chance: random.Random, customers: int, orders: int) -> dict[str, list[Any]]:
    """Write an old database; return the rows the new one must have."""
    database = sqlite3.connect(path)
    database.executescript(OLD)
    kept: dict[str, list[Any]] = {}
    owner: dict[int, int] = {}
    for number in range(1, customers + 1):
        again = chance.random() < 0.15 and kept
        email = chance.choice(list(kept)) if again else f"customer{number}@example.test"
        day, name = date(2016, 1, 1) + timedelta(days=chance.randrange(3200)), chance.choice(NAMES)
        spelt = chance.choice([email, email.upper(), f" {email}", email.title()]) if again or number % 7 == 0 else email
        database.execute("INSERT INTO customers VALUES (?, ?, ?, ?)", (3 * number, name, spelt, typed(chance, day)))
        kept.setdefault(email, [3 * number, name, email, day.isoformat()])
        kept[email][3] = min(kept[email][3], day.isoformat())
        owner[3 * number] = kept[email][0]
    rows, rejected = [], []
    for number in range(1, orders + 1):
        customer = 3 * chance.randint(1, customers)
        day = date(2017, 1, 1) + timedelta(days=chance.randrange(3000))
        placed: str | None = typed(chance, day)
        cents = chance.choice([chance.randint(1, 99_999), 1999, 115, 435, 1001, -chance.randint(100, 9_999)])
        old_status, status = chance.choice(STATUS)
        note = chance.choice(["", None, "gift wrap", "Grüße! bitte klingeln", "leave at 'the mill'", " two spaces  "])
        reason = ""
        if chance.random() < 0.03:
            placed, reason = chance.choice([None, "", "31.4.2021", "2023-02-29", "29.02.19"]), "bad date"
        if chance.random() < 0.03:
            customer, reason = 3 * customer + 1, "no customer"
        values = (number, customer, placed, cents / 100, old_status, note)
        database.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", values)
        if reason:
            rejected.append([number, reason])
        else:
            rows.append([number, owner[customer], day.isoformat(), cents, status, note or None])
    database.commit()
    database.close()
    return {"customers": sorted(kept.values()), "orders": rows, "rejected": rejected}


STATUS = (("open", "open"), ("paid", "paid"), ("PAID", "paid"), ("cancelled", "cancelled"), ("canceled", "cancelled"),
          ("", "open"), (None, "open"))  # fmt: skip
"""The ways a status was written, and their meaning."""


def typed(chance: random.Random, day: date) -> str:
    """Write a date in one of the formats in use."""
    ways = [day.isoformat(), f"{day.day}.{day.month}.{day.year}", f"{day:%d.%m.%Y}"]
    if day.year < 2020:
        ways.append(f"{day.day}.{day.month}.{day:%y}")
    return chance.choice(ways)


if __name__ == "__main__":
    main()
