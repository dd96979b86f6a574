"""A company's generated books: what it filed, and what an analyst's model contains so far."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

COMPANIES = ("Alder Instruments", "Birch Robotics", "Cedar Optics", "Larch Marine", "Maple Diagnostics", "Rowan Energy")
QUARTERS = ("Q3 2024", "Q4 2024", "Q1 2025", "Q2 2025", "Q3 2025")
"""The last one is new; the one before it is also in the filing."""
INCOME = (
    "Product revenue", "Service revenue", "Cost of revenue", "Research and development", "Sales and marketing",
    "General and administrative", "Interest expense", "Income taxes",
)  # fmt: skip
BALANCE = (
    "Cash", "Receivables", "Inventories", "Property and equipment", "Payables", "Long-term debt",
    "Shareholders' equity",
)  # fmt: skip
MOVED = (
    ("Product revenue", "Service revenue"),
    ("Sales and marketing", "General and administrative"),
    ("Research and development", "General and administrative"),
    ("Receivables", "Inventories"),
)
"""Pairs of items that a company may restate: an amount moves from one to the other, and the sums stay."""
ONE_OFF = ("Interest expense", "Income taxes", "Cost of revenue")


@dataclass(frozen=True, slots=True)
class Books:
    """A company's quarters, in thousands."""

    company: str
    quarters: dict[str, tuple[int, ...]]
    """Values by item as they are in the model; the last one as it was filed."""
    restated: dict[str, int]
    """Values by item of the previous quarter where the filing differs from the model."""
    one_off: str
    """The item whose new value has a footnote."""

    def filed(self, item: str) -> tuple[int, int]:
        """Return an item's values in the filing: the new quarter, and the one before."""
        *_, before, new = self.quarters[item]
        return new, self.restated.get(item, before)

    def totals(self, place: int) -> dict[str, int]:
        """Return the totals of a quarter."""
        told = {item: values[place] for item, values in self.quarters.items()}
        revenue = told["Product revenue"] + told["Service revenue"]
        gross = revenue + told["Cost of revenue"]
        operating = gross + sum(told[item] for item in INCOME[3:6])
        net = operating + told["Interest expense"] + told["Income taxes"]
        assets, owed = sum(told[item] for item in BALANCE[:4]), sum(told[item] for item in BALANCE[4:])
        names = (
            "Total revenue",
            "Gross profit",
            "Operating income",
            "Net income",
            "Total assets",
            "Total liabilities and equity",
        )
        return dict(zip(names, (revenue, gross, operating, net, assets, owed), strict=True))

    def as_table(self) -> dict[str, Any]:
        """Return the data that the filing and the model are made from."""
        filed = {item: self.filed(item) for item in self.quarters}
        old = {item: values[:-1] for item, values in self.quarters.items()}
        told = {"company": self.company, "quarters": QUARTERS, "income": INCOME, "balance": BALANCE}
        sums = {name: (self.totals(-1)[name], value) for name, value in self.totals(-2).items()}
        return {
            **told,
            "filed": filed,
            "sums": sums,
            "model": old,
            "restated": list(self.restated),
            "one_off": self.one_off,
        }


def generate_books(seed: int) -> Books:
    """Generate a company's books."""
    chance = random.Random(seed)  # noqa: S311 - the same seed gives the same books
    quarters: dict[str, list[int]] = {item: [] for item in (*INCOME, *BALANCE)}
    product, cash = chance.randint(40_000, 90_000), chance.randint(20_000, 60_000)
    for _ in QUARTERS:
        product = round(product * chance.uniform(0.97, 1.09))
        service = round(product * chance.uniform(0.2, 0.35))
        shares = {"Cost of revenue": (0.45, 0.52), "Research and development": (0.1, 0.14)}
        shares |= {"Sales and marketing": (0.09, 0.13), "General and administrative": (0.05, 0.08)}
        shares |= {"Interest expense": (0.005, 0.012), "Income taxes": (0.02, 0.05)}
        told = {"Product revenue": product, "Service revenue": service}
        told |= {item: -round((product + service) * chance.uniform(*ends)) for item, ends in shares.items()}
        cash = round(cash * chance.uniform(0.95, 1.1))
        told |= {"Cash": cash, "Receivables": round(product * chance.uniform(0.5, 0.7))}
        told |= {
            "Inventories": round(product * chance.uniform(0.3, 0.5)),
            "Property and equipment": round(product * 1.4),
        }
        told |= {"Payables": round(product * chance.uniform(0.3, 0.45)), "Long-term debt": round(product * 0.6)}
        assets = sum(told[item] for item in BALANCE[:4])
        told["Shareholders' equity"] = assets - told["Payables"] - told["Long-term debt"]
        for item, value in told.items():
            quarters[item].append(value)
    one, other = chance.choice(MOVED)
    moved = chance.randint(120, 900)
    restated = {one: quarters[one][-2] - moved, other: quarters[other][-2] + moved}
    kept = {item: tuple(values) for item, values in quarters.items()}
    return Books(chance.choice(COMPANIES), kept, restated, chance.choice(ONE_OFF))
