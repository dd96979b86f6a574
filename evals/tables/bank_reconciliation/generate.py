"""Write three bank statements and a ledger that disagrees with them in a few places."""

from __future__ import annotations

import csv
import io
import json
import random
import sys
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import openpyxl  # type: ignore[import-untyped]

ACCOUNTS = ("Atlantic", "Northbank", "Sparbank")
NAMES = ("Müller GmbH", "Ørsted Paper", "Baker & Co", "Café Lumière", "Novak Tools", "Green Fleet", "Hill Estates")
ENTRIES = 55
KINDS = {"missing in ledger": 4, "missing in bank": 3, "duplicate in ledger": 2, "amount": 4}
"""Number of differences of each kind."""
BRIEF = """\
goal = \"\"\"
Reconcile the bank statements of June 2025 (atlantic.csv, northbank.csv, sparbank.csv) with ledger.xlsx, and write
Reconciliation.xlsx. Entries belong together when account and digits of the reference agree (RE 20417, RE20417 and
RE-20417 are the same); days may differ. Money that comes in is positive, money that goes out is negative.
Sheet Differences: the columns Account, Reference, Kind, Bank, Ledger, Difference; one row for each reference that does
not agree, sorted by Account, then Reference; below the rows a row Total with the sum of Difference.
- Account: Atlantic, Northbank or Sparbank. Reference: written as in the ledger, RE-20417.
- Kind: missing in ledger, missing in bank, duplicate in ledger (the ledger has the entry twice, the bank once), or
  amount (both have it once, with different amounts).
- Bank and Ledger: the sum of the entries of this reference there, 0 where there is none. Difference: Bank minus
  Ledger, as a formula. The total is a formula, too.
Sheet Balances: the columns Account, Bank, Ledger, Difference and three rows, sorted by Account: the sum of all entries
of the month in the statement and in the ledger, and their difference as a formula.
\"\"\"
inputs = ["atlantic.csv", "northbank.csv", "sparbank.csv", "ledger.xlsx"]
image = "office"
seconds = 1200
approve = "auto"

[[deliverables]]
path = "Reconciliation.xlsx"
check = "xlsx"

[deliverables.expect]
sheets = ["Differences", "Balances"]
sheet = "Differences"
columns = ["Account", "Reference", "Kind", "Bank", "Ledger", "Difference"]
rows = {min = 4, max = 40}
total = "Difference"
formulas = ["column Difference", "Balances!D2:D4"]
"""


@dataclass(frozen=True)
class Entry:
    """One booking."""

    account: str
    number: int
    day: date
    name: str
    cents: int


def invent(chance: random.Random) -> list[Entry]:
    """Return the bookings of a month."""
    numbers = chance.sample(range(20_000, 30_000), ENTRIES * len(ACCOUNTS))
    entries = []
    for place, number in enumerate(numbers):
        cents = chance.choice((-1, -1, 1)) * chance.randint(1_500, 950_000)
        day = date(2025, 6, chance.randint(1, 27))
        entries.append(Entry(ACCOUNTS[place % 3], number, day, chance.choice(NAMES), cents))
    return sorted(entries, key=lambda entry: entry.day)


def disagree(chance: random.Random, entries: list[Entry]) -> tuple[list[Entry], list[Entry], list[dict[str, object]]]:
    """Return the entries of the banks, those of the ledger, and their differences."""
    bank, differences = list(entries), []
    ledger: list[Entry] = []
    names = [kind for kind, count in KINDS.items() for _ in range(count)]
    kinds = dict(zip(chance.sample(entries, len(names)), names, strict=True))
    for entry in entries:
        kind, cents = kinds.get(entry), entry.cents
        booked: dict[str, list[int]] = {
            "missing in ledger": [], "duplicate in ledger": [cents, cents], "amount": [transpose(cents)],
        }  # fmt: skip
        amounts = booked.get(kind or "", [cents])
        shift = timedelta(days=chance.choice((0, 0, 1, 2, 3)))
        for amount in amounts:
            ledger.append(Entry(entry.account, entry.number, entry.day + shift, entry.name, amount))
        if kind == "missing in bank":
            bank.remove(entry)
        if kind:
            paid = 0 if kind == "missing in bank" else cents
            row = {"account": entry.account, "reference": f"RE-{entry.number}", "kind": kind}
            differences.append({**row, "bank": paid, "ledger": sum(amounts)})
    chance.shuffle(ledger)
    ledger.sort(key=lambda entry: entry.day)
    differences.sort(key=lambda row: (str(row["account"]), str(row["reference"])))
    return bank, ledger, differences


def transpose(cents: int) -> int:
    """Swap two digits of an amount that differ, or add ten where none do."""
    digits = str(abs(cents))
    for at in range(len(digits) - 3, 0, -1):
        if digits[at] != digits[at + 1]:
            swapped = digits[:at] + digits[at + 1] + digits[at] + digits[at + 2 :]
            return int(swapped) * (1 if cents > 0 else -1)
    return cents + 1000


def write_northbank(entries: list[Entry]) -> bytes:
    """Write plain CSV with ISO dates and signed amounts."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(("Date", "Reference", "Name", "Amount"))
    for entry in entries:
        table.writerow((entry.day, f"RE{entry.number}", entry.name, f"{entry.cents / 100:.2f}"))
    return text.getvalue().encode()


def write_sparbank(entries: list[Entry]) -> bytes:
    """Write semicolons, days first, decimal commas, and the reference inside a text."""
    lines = ["Buchungstag;Verwendungszweck;Betrag;Währung"]
    for entry in reversed(entries):
        amount = f"{entry.cents / 100:,.2f}".translate(str.maketrans(",.", ".,"))
        lines.append(f'{entry.day:%d.%m.%Y};"{entry.name} RE {entry.number} Juni";{amount};EUR')
    return "\r\n".join([*lines, ""]).encode("cp1252")


def write_atlantic(entries: list[Entry]) -> bytes:
    """Write a preamble, months first, columns of debit and credit, and a closing sum."""
    lines = ["Atlantic Bank", "Statement of account 004-771", "Period\t06/01/2025 - 06/30/2025", ""]
    lines.append("Posted\tDescription\tDebit\tCredit")
    for entry in entries:
        amount = f"{abs(entry.cents) / 100:,.2f}"
        columns = (amount, "") if entry.cents < 0 else ("", amount)
        lines.append("\t".join((f"{entry.day:%m/%d/%Y}", f"RE-{entry.number} {entry.name}", *columns)))
    debit, credit = (sum(abs(e.cents) for e in entries if (e.cents < 0) is out) for out in (True, False))
    lines.append(f"\tTotal\t{debit / 100:,.2f}\t{credit / 100:,.2f}")
    return "\n".join([*lines, ""]).encode("utf-16")


def write_ledger(entries: list[Entry]) -> None:
    """Write the ledger as a workbook."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Ledger"
    sheet.append(("Date", "Account", "Reference", "Name", "Amount"))
    for entry in entries:
        sheet.append((entry.day, entry.account, f"RE-{entry.number}", entry.name, entry.cents / 100))
    book.save("brief/ledger.xlsx")


def main() -> None:
    """Write brief and truth."""
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - the same seed gives the same month
    Path("brief").mkdir()
    Path("hidden").mkdir()
    bank, ledger, differences = disagree(chance, invent(chance))
    writers = {"Atlantic": write_atlantic, "Northbank": write_northbank, "Sparbank": write_sparbank}
    for account, write in writers.items():
        own = [entry for entry in bank if entry.account == account]
        Path(f"brief/{account.lower()}.csv").write_bytes(write(own))
    write_ledger(ledger)
    balances = {
        account: [sum(entry.cents for entry in entries if entry.account == account) for entries in (bank, ledger)]
        for account in ACCOUNTS
    }
    Path("brief/brief.toml").write_text(BRIEF)
    Path("hidden/truth.json").write_text(json.dumps({"differences": differences, "balances": balances}, indent=1))


if __name__ == "__main__":
    main()
