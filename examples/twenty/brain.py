"""A worker that errs, and mends it. This script runs outside, and does the same whenever it is told the same.

What it uses may be made twice without harm, so it does what has an unknown outcome again; but for the confirmation: of
that it asks first whether it is there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from hotdesk.brain.models.script_hands import ToolCall
from hotdesk.brain.models.scripted import Failed, Hands, step
from hotdesk.desk.seam import Done

HERE = Path(__file__).parent
SUPPLIER, RATES = "https://supplier.example.test", "https://rates.example.test/EUR"
CURL = ["curl", "--silent", "--show-error", "--fail-with-body", "--max-time", "600"]
PARSED = r"""    found = re.fullmatch(r"(\d{1,3}(?:,\d{3})*)\.(\d\d)", text)"""
MENDED = r"""    found = re.fullmatch(r"(\d{1,3}(?:,\d{3})*)\.(\d\d)", text)
    found = found or re.fullmatch(r"(\d{1,3}(?:\.\d{3})*),(\d\d)", text)"""
KNOWN, BOOK = ["invoices.json", "orders.json"], "Reconciliation.xlsx"
T = TypeVar("T")


async def read(hands: Hands) -> str:
    """Read number, order, vendor and total of each invoice; fix the parser where it cannot."""
    await surely(hands.write("parse.py", (HERE / "parse.py").read_bytes()))
    done = await surely(hands.run(["python3", "parse.py"], timeout=60))
    if "is no amount" in last_line(done):
        hands.say(f"The parser failed: {last_line(done)}. It shall read amounts written the other way, too.")
        mended = await hands.use("file_replace", path="parse.py", old=PARSED, new=MENDED)
        if not mended.ok:
            await surely(hands.write("parse.py", (HERE / "parse.py").read_text().replace(PARSED, MENDED).encode()))
        done = await surely(hands.run(["python3", "parse.py"], timeout=60))
    if not done.ok:
        raise ValueError(last_line(done))
    found = json.loads(await surely(hands.read("invoices.json")))
    return f"read {len(found)} invoices"


async def ask(hands: Hands) -> str:
    """Ask the supplier what was ordered; and somebody for exchange rates, who need not answer."""
    rates = await surely(hands.run([*CURL, RATES], timeout=60))
    if not rates.ok:
        hands.say("There are no exchange rates to be had; all is in EUR, so it goes on without.")
    orders = await fetched(hands, f"{SUPPLIER}/orders")
    await surely(hands.write("orders.json", json.dumps(orders).encode()))
    return f"the supplier knows {len(orders)} orders"


async def book(hands: Hands) -> str:
    """Write the workbook: tidied up at first, and as things are when that went wrong."""
    await surely(hands.write("report.py", (HERE / "report.py").read_bytes()))
    done = await surely(hands.run(["python3", "report.py", *(["tidy"] if hands.attempt == 1 else [])], timeout=60))
    if not done.ok:
        raise ValueError(last_line(done))
    return "the workbook is written"


async def confirm(hands: Hands) -> str:
    """Confirm the orders whose invoices agree, once."""
    invoices = json.loads(await surely(hands.read("invoices.json")))
    orders = json.loads(await surely(hands.read("orders.json")))
    agreed = sorted(each["Order"] for each in invoices if each["Invoiced"] == orders[each["Order"]])
    made = await confirmed(hands, agreed)
    if made is None:
        await surely(hands.write("agreed.json", json.dumps({"orders": agreed}).encode()))
        kind = ["--header", "Content-Type: application/json", "--data-binary", "@agreed.json"]
        try:
            done = await hands.run([*CURL, *kind, f"{SUPPLIER}/confirmations"], timeout=600)
            why = last_line(done)
        except Failed as e:
            why = str(e)
        made = await confirmed(hands, agreed)
        if made is None:
            raise ValueError(f"the supplier did not take it: {why}")
    await surely(hands.write("confirmation.json", json.dumps(made).encode()))
    return f"{len(agreed)} orders are confirmed as {made['id']}"


PLAN = (
    step(read, hosts=[], grants=[], files=["invoices"], makes=["invoices.json"]),
    step(ask, grants=["supplier-token"], makes=["orders.json"]),
    step(book, hosts=[], grants=[], files=KNOWN, makes=[BOOK], risk="high", check=f"python3 -m zipfile --test {BOOK}"),
    step(confirm, grants=["supplier-token"], files=KNOWN, makes=["confirmation.json"]),
)


async def confirmed(hands: Hands, orders: list[str]) -> dict[str, object] | None:
    """Give the confirmation of these orders, if the supplier has it."""
    made: list[dict[str, object]] = await fetched(hands, f"{SUPPLIER}/confirmations")
    return next((each for each in made if each["orders"] == orders), None)


async def fetched(hands: Hands, url: str) -> Any:
    """Give what an address answers."""
    done = await surely(hands.run([*CURL, url], timeout=60))
    if not done.ok:
        raise ValueError(f"{url}: {last_line(done)}")
    return json.loads(done.stdout)


async def surely(wanted: ToolCall[T]) -> T:
    """Do what harms nobody when it is done twice; once more when nobody knows what came of it."""
    try:
        return await wanted
    except Failed:
        return await wanted


def last_line(done: Done) -> str:
    """Give the last line a program said."""
    lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""
