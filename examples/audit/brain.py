"""A scripted worker: signs in and exports, reads 500 invoices, errs on one and mends it, reports. It runs outside.

It knows the layouts it has met; of what is wrong with which invoice it knows nothing.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeVar

from hotdesk.brain.models.script_hands import ToolCall
from hotdesk.brain.models.scripted import Failed, Hands, step
from hotdesk.desk.seam import Done
from hotdesk.tool import Observation

HERE = Path(__file__).parent
ERP = "https://erp.example.test"
ORDERS, BOOK = "orders.xlsx", "Discrepancy_Report.xlsx"
ODD = "invoice-042"
MENDING = (
    ('"Facture n°", ', '"Facture n°", "Beleg", '),
    ('"Datum", ', '"Datum", "vom", '),
    ('"Gesamtbetrag", ', '"Gesamtbetrag", "Zahlbar", '),
    (r"(?:[., \xa0]\d{3})*)", r"(?:[., \xa0']\d{3})*)"),
    (
        '    return {"what": words[0], "count": counts[0], "price": amounts[0], "amount": amounts[1]}',
        "    price, amount = amounts if counts[0] * amounts[1] != amounts[0] else reversed(amounts)\n"
        '    return {"what": words[0], "count": counts[0], "price": price, "amount": amount}',
    ),
)
"""What the parser lacks for the layout of one invoice: its words, its apostrophes, and amounts before prices."""
T = TypeVar("T")


async def export(hands: Hands) -> str:
    """Sign in to the ERP in the browser, and export its orders to Excel."""
    placeholder = (await surely(hands.run(["printenv", "ERP_PASSWORD"]))).text.strip()
    await use(hands, "browser_goto", url=f"{ERP}/login")
    form = (await use(hands, "browser_snapshot")).text
    await use(hands, "browser_fill", ref=reference(form, 'textbox "User'), text="auditor")
    await use(hands, "browser_fill", ref=reference(form, 'textbox "Password'), text=placeholder)
    await use(hands, "browser_click", ref=reference(form, 'button "Sign in'))
    await use(hands, "browser_wait_for", what="url", value=f"{ERP}/orders")
    page = (await use(hands, "browser_snapshot")).text
    await use(hands, "browser_click", ref=reference(page, 'link "Export to Excel'))
    told = (await use(hands, "browser_downloads", wait=True)).text
    found = re.search(r"^- (/[^\n]*): completed, (\d+) of \2 bytes$", told, re.MULTILINE)
    if found is None:
        raise ValueError(f"no download was completed: {told}")
    await surely(hands.run(["cp", found[1], ORDERS]))
    return f"exported the orders, {found[2]} bytes"


async def read(hands: Hands) -> str:
    """Read every invoice, by its text or by looking at its picture; fix the parser where it cannot."""
    for name in ("extract.py", "parse.py"):
        await surely(hands.write(name, (HERE / name).read_bytes()))
    done = await surely(hands.run(["python3", "extract.py", "invoices"], timeout=900))
    if not done.ok:
        raise ValueError(last_line(done))
    hands.say(last_line(done))
    done = await surely(hands.run(["python3", "parse.py"], timeout=300))
    if not done.ok and ODD in last_line(done):
        hands.say(f"The parser failed: {last_line(done)}. Look at that one.")
        seen = (await surely(hands.read(f"text/{ODD}.txt"))).decode()
        amount = re.search(r"\d+'\d{3}\.\d\d", seen)
        written = f"writes {amount[0]}, " if amount else ""
        hands.say(f"It {written}calls its total Zahlbar, and has amounts before prices. The parser learns that.")
        await mend(hands)
        hands.say("Once more, with the parser as it is now.")
        done = await surely(hands.run(["python3", "parse.py"], timeout=300))
    if not done.ok:
        raise ValueError(last_line(done))
    return last_line(done)


async def mend(hands: Hands) -> None:
    """Edit the parser, change by change; whole, where nobody knows which of them are made."""
    for old, new in MENDING:
        if not (await hands.use("file_replace", path="parse.py", old=old, new=new)).ok:
            await surely(hands.write("parse.py", mended((HERE / "parse.py").read_text()).encode()))
            return


async def report(hands: Hands) -> str:
    """Compare each invoice with its order, and write the workbook."""
    await surely(hands.write("report.py", (HERE / "report.py").read_bytes()))
    done = await surely(hands.run(["python3", "report.py"], timeout=120))
    if not done.ok:
        raise ValueError(last_line(done))
    return done.text.splitlines()[0]


PLAN = (
    step(export, files=[], makes=[ORDERS]),
    step(read, hosts=[], grants=[], files=["invoices"], makes=["invoices.json"]),
    step(report, hosts=[], grants=[], files=["invoices.json", ORDERS], makes=[BOOK]),
)


def mended(parser: str) -> str:
    """Make every change to the parser."""
    for old, new in MENDING:
        parser = parser.replace(old, new)
    return parser


async def use(hands: Hands, tool: str, **arguments: object) -> Observation:
    """Use a tool that must succeed."""
    seen = await hands.use(tool, **arguments)
    if not seen.ok:
        raise ValueError(seen.text)
    return seen


async def surely(wanted: ToolCall[T]) -> T:
    """Do what harms nobody when it is done twice; once more when nobody knows what came of it."""
    try:
        return await wanted
    except Failed:
        return await wanted


def reference(page: str, what: str) -> str:
    """Give the reference of what stands in a page's snapshot."""
    found = re.search(rf"{re.escape(what)}[^\n]*?\[(e\d+)\]", page)
    if found is None:
        raise ValueError(f"the page has no {what}")
    return found[1]


def last_line(done: Done) -> str:
    """Give the last line a program said."""
    lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""
