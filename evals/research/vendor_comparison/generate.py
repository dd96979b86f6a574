"""Write the question, and the pages of three vendors and of exchange rates: `python3 generate.py SEED`."""

from __future__ import annotations

import json
import random
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

ALTO, BOREALIS, CIRRUS, RATES = (f"{name}.example.test" for name in ("alto", "borealis", "cirrus", "rates"))
SOURCES = {"Alto": f"https://{ALTO}/pricing", "Borealis": f"https://{BOREALIS}/partners/prices",
           "Cirrus": f"https://{CIRRUS}/plans"}  # fmt: skip
RATES_SOURCE = f"https://{RATES}/eur"
TASK = """# Which service desk is cheapest for us?

We need a service desk for {seats} users for the first 12 months, paid once a year in advance. Compare three vendors:

- Alto, https://alto.example.test/pricing
- Borealis, https://borealis.example.test/partners/prices: we are partners, and partner prices count for us. The address
  answers without a password; our token is added on the way.
- Cirrus, https://cirrus.example.test/plans

The cost is all that must be paid for the 12 months: fees for users, and fees that are paid once. Prices are without
tax. Convert to euros by the reference rates of 29 August 2025 at https://rates.example.test/eur . Round each amount
once, at the end.

Deliver three files.

1. comparison.csv: columns Vendor, Currency, Original, EUR, Source; a row a vendor, the cheapest first. Original is
   the cost in the vendor's currency, EUR the same in euros, both with two decimals. Source is the address of the
   price page.
2. chart.png: a bar chart of the cost in EUR by vendor, at least 600 by 400 pixels, with the names of the vendors.
3. deck.pptx: exactly three slides, with a title in the file's properties, each with its sources as links in the
   footer: the three price pages, and on slides 2 and 3 also the page of rates.
   - slide 1 has the line `Cheapest: NAME, EUR AMOUNT`, with the amount in whole euros
   - slide 2 has a table with each vendor's cost in its currency and in euros, as in comparison.csv
   - slide 3 has a native bar or column chart (one whose data can be edited) of the cost in EUR, one series, a
     category a vendor
"""
GOAL = """
Compare what three vendors on the web cost us, as TASK.md asks, and deliver comparison.csv, chart.png and deck.pptx
in the form that TASK.md states.
"""


def main() -> None:
    """Write brief/ and hidden/."""
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - the same seed gives the same pages
    seats = chance.choice([34, 43, 52, 67, 81])
    pages: dict[str, str] = {}
    costs = {
        "Alto": ("EUR", write_alto(chance, pages, seats)),
        "Borealis": ("USD", write_borealis(chance, pages, seats)),
        "Cirrus": ("GBP", write_cirrus(chance, pages, seats)),
    }
    rates = write_rates(chance, pages)
    rows: list[list[Any]] = []
    for vendor, (currency, cost) in costs.items():
        rows.append([vendor, currency, round(cost, 2), round(cost / rates[currency], 2), SOURCES[vendor]])
    rows.sort(key=lambda row: float(row[3]))
    token = f"{chance.getrandbits(128):032x}"
    Path("brief").mkdir()
    Path("hidden").mkdir()
    truth = {"rows": rows, "pages": pages, "token": token, "rates": rates, "seats": seats}
    Path("hidden/truth.json").write_text(json.dumps(truth))
    Path("brief/TASK.md").write_text(TASK.format(seats=seats))
    Path("brief/brief.toml").write_text(brief())


def write_alto(chance: random.Random, pages: dict[str, str], seats: int) -> float:
    """Write prices per user and month; the discount for paying a year in advance is in a footnote."""
    price, discount = chance.randint(1500, 2900) / 100, chance.choice([8, 10, 15])
    pages[f"{ALTO}/pricing"] = page(
        "Alto pricing",
        f"<table><tr><th>Plan<th>Price<tr><td>Service desk<td>EUR {price:.2f} per user and month ¹</table>"
        f"<p><small>¹ Billed monthly. Who pays for a year in advance gets {discount} % off.</small>",
    )
    return seats * price * 12 * (100 - discount) / 100


def write_borealis(chance: random.Random, pages: dict[str, str], seats: int) -> float:
    """Write a public page with list prices, and partner prices by tier: the tier of all users counts for each."""
    first = chance.randint(210, 290)
    tiers = ((1, 24, first), (25, 49, first - 20), (50, 74, first - 35), (75, 9999, first - 45))
    rows = "".join(f"<tr><td>{low} to {high}<td>USD {price}.00" for low, high, price in tiers)
    pages[f"{BOREALIS}/pricing"] = page("Borealis list prices", f"<p>USD {first + 60}.00 per user and year.")
    pages[f"{BOREALIS}/partners/prices"] = page(
        "Borealis prices for partners",
        f"<table><tr><th>Users<th>Per user and year{rows}</table>"
        "<p>The price of your number of users is paid for every user.",
    )
    return float(seats * next(price for low, high, price in tiers if low <= seats <= high))


def write_cirrus(chance: random.Random, pages: dict[str, str], seats: int) -> float:
    """Write monthly prices of packs of ten users, with a one-time fee."""
    pack, fee = chance.randint(130, 190), chance.choice([450, 600, 750])
    pages[f"{CIRRUS}/plans"] = page(
        "Cirrus plans",
        f"<p>GBP {pack}.00 per month for each pack of 10 users. Packs cannot be divided."
        f"<p>Onboarding: GBP {fee}.00, once.",
    )
    return float(-(-seats // 10) * pack * 12 + fee)


def write_rates(chance: random.Random, pages: dict[str, str]) -> dict[str, float]:
    """Write the rates of some days, as units of a currency for one euro."""
    rates, rows = {"EUR": 1.0}, []
    for back in range(9):
        day = date(2025, 9, 2) - timedelta(days=back)
        dollars, pounds = round(chance.uniform(1.08, 1.19), 4), round(chance.uniform(0.83, 0.88), 4)
        rows.append(f"<tr><td>{day:%-d %B %Y}<td>{dollars:.4f}<td>{pounds:.4f}")
        if day == date(2025, 8, 29):
            rates |= {"USD": dollars, "GBP": pounds}
    pages[f"{RATES}/eur"] = page(
        "Reference rates", f"<p>For 1 euro:<table><tr><th>Day<th>USD<th>GBP{''.join(rows)}</table>"
    )
    return rates


def page(title: str, body: str) -> str:
    """Return a page of HTML."""
    return f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><h1>{title}</h1>{body}</html>"


def brief() -> str:
    """Return the brief."""
    hosts = ", ".join(f'"GET https://{host}/**"' for host in (ALTO, BOREALIS, CIRRUS, RATES))
    sources = ", ".join(f'"{source}"' for source in (*SOURCES.values(), RATES_SOURCE))
    return (
        f'goal = """{GOAL}"""\ninputs = ["TASK.md"]\nimage = "office"\nseconds = 1200\n'
        f'egress = [{hosts}]\ngrants = ["borealis-token@{BOREALIS}"]\n\n'
        '[[deliverables]]\npath = "comparison.csv"\ncheck = "csv"\n'
        'expect = {columns = ["Vendor", "Currency", "Original", "EUR", "Source"], rows = 3, '
        'numeric = ["Original", "EUR"]}\n\n'
        '[[deliverables]]\npath = "chart.png"\ncheck = "png"\nexpect = {width = {min = 600}, height = {min = 400}}\n\n'
        '[[deliverables]]\npath = "deck.pptx"\ncheck = "pptx"\n'
        f"expect = {{pages = 3, charts = 1, footer = true, title = true, sources = [{sources}]}}\n"
    )


if __name__ == "__main__":
    main()
