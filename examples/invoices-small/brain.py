"""A worker that needs no thinking: three steps, one of them in the desk's browser. This script runs outside."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

PROGRAM = Path(__file__).with_name("reconcile.py")
ERP = "https://erp.example.test"


async def read(hands: Hands) -> Done:
    """Read number, order, vendor and total of each invoice."""
    await hands.write("reconcile.py", PROGRAM.read_bytes())
    return await hands.run(["python3", "reconcile.py", "read"], timeout=60)


async def ask(hands: Hands) -> None:
    """Sign in to the ERP in the browser, and look up what was ordered."""
    await sign_in(hands)
    invoices = json.loads(await hands.read("invoices.json"))
    ordered = {invoice["Order"]: await look_up(hands, invoice["Order"]) for invoice in invoices}
    await hands.write("orders.json", json.dumps(ordered).encode())


async def write(hands: Hands) -> Done:
    """Write the report."""
    return await hands.run(["python3", "reconcile.py", "write"], timeout=60)


PLAN = (
    step(read, makes=["invoices.json"]),
    step(ask, files=["invoices.json"], makes=["orders.json"]),
    step(write, files=["invoices.json", "orders.json"], makes=["Discrepancy_Report.xlsx"]),
)


async def sign_in(hands: Hands) -> None:
    """Fill the form as a person would. The password here is a placeholder: the door puts the real one in."""
    placeholder = (await hands.run(["printenv", "ERP_PASSWORD"])).text.strip()
    await use(hands, "browser_goto", url=f"{ERP}/login")
    form = await use(hands, "browser_snapshot")
    await use(hands, "browser_fill", ref=reference(form, 'textbox "User'), text="clerk")
    await use(hands, "browser_fill", ref=reference(form, 'textbox "Password'), text=placeholder)
    await use(hands, "browser_click", ref=reference(form, 'button "Sign in'))
    await use(hands, "browser_wait_for", what="url", value=f"{ERP}/orders")


async def look_up(hands: Hands, order: str) -> float:
    """Give what an order's page says was ordered."""
    await use(hands, "browser_goto", url=f"{ERP}/orders/{order}")
    page = await use(hands, "browser_read")
    found = re.search(r"([\d,]+\.\d\d) EUR", page)
    if found is None:
        raise ValueError(f"the page of {order} names no amount")
    return float(found[1].replace(",", ""))


async def use(hands: Hands, tool: str, **arguments: object) -> str:
    """Use a tool that must succeed; give what it told."""
    seen = await hands.use(tool, **arguments)
    if not seen.ok:
        raise ValueError(seen.text)
    return seen.text


def reference(page: str, what: str) -> str:
    """Give the reference of what stands in a page's snapshot."""
    found = re.search(rf"{re.escape(what)}[^\n]*?\[(e\d+)\]", page)
    if found is None:
        raise ValueError(f"the page has no {what}")
    return found[1]
