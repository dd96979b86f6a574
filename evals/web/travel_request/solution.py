"""The reference solution: reads the mails, fills in the form in the browser, and looks before it would submit again."""

from __future__ import annotations

import json
import re
from datetime import date, datetime, timedelta
from email import message_from_bytes, policy

from hotdesk.brain.models.scripted import Hands, step

SITE = "https://travel.example.test"
SELECTS = ("Cost centre", "Purpose", "Currency")


async def read(hands: Hands) -> None:
    """Read the mails, and put the request together."""
    texts = []
    for number in range(1, 6):
        mail = message_from_bytes(await hands.read(f"mails/{number}.eml"), policy=policy.default)
        texts.append(" ".join(mail.get_body().get_content().split()))  # type: ignore[union-attr]
    first = find(
        r"for me: (\w+), from (\d+ \w+ \d+) to (\d+ \w+ \d+)\. The purpose is: (.+?)\. The flight is (\d+) EUR, the"
        r" hotel (\d+) EUR a night .+? allowance is (\d+) EUR .+? Thank you (.+)",
        texts[0],
    )
    start, end = as_date(find(r"leave on (\d+ \w+ \d+);", texts[2])[1]), as_date(first[3])
    nights = (end - start) // timedelta(days=1)
    cost = int(first[5]) + nights * int(first[6]) + (nights + 1) * int(first[7])
    form = {
        "Traveller": first[8], "Destination": first[1], "First day": f"{start:%m/%d/%Y}", "Last day": f"{end:%m/%d/%Y}",
        "Cost centre": find(r"goes to (\d+)", texts[3])[1], "Purpose": first[4], "Estimated cost": str(cost),
        "Currency": "EUR",
    }  # fmt: skip
    await hands.write("form.json", json.dumps(form).encode())


async def submit(hands: Hands) -> None:
    """Fill in the form and submit it, unless the site has the request already."""
    form = json.loads(await hands.read("form.json"))
    await sign_in(hands)
    if await find_number(hands, form) is None:
        await use(hands, "browser_goto", url=f"{SITE}/requests/new")
        page = await use(hands, "browser_snapshot")
        for label, value in form.items():
            if label in SELECTS:
                await use(hands, "browser_select", ref=reference(page, f'combobox "{label}'), values=[value])
            else:
                await use(hands, "browser_fill", ref=reference(page, f'textbox "{label}'), text=value)
        await hands.use("browser_click", ref=reference(page, 'button "Submit'))
    number = await find_number(hands, form)
    if number is None:
        raise ValueError("the site has not stored the request")
    confirmation = {"number": number, "state": "Submitted", "total": int(form["Estimated cost"])}
    await hands.write("confirmation.json", json.dumps(confirmation).encode())


PLAN = (
    step(read, hosts=[], grants=[], files=["mails"], makes=["form.json"]),
    step(submit, files=["form.json"], makes=["confirmation.json"]),
)


async def sign_in(hands: Hands) -> None:
    """Sign in with the placeholder of the password."""
    placeholder = (await hands.run(["printenv", "TRAVEL_PASSWORD"])).text.strip()
    await use(hands, "browser_goto", url=f"{SITE}/login")
    page = await use(hands, "browser_snapshot")
    await use(hands, "browser_fill", ref=reference(page, 'textbox "User'), text="assistant")
    await use(hands, "browser_fill", ref=reference(page, 'textbox "Password'), text=placeholder)
    await use(hands, "browser_click", ref=reference(page, 'button "Sign in'))
    await use(hands, "browser_wait_for", what="url", value=f"{SITE}/requests")


async def find_number(hands: Hands, form: dict[str, str]) -> str | None:
    """Return the number of the request, if the site has stored it."""
    await use(hands, "browser_goto", url=f"{SITE}/requests")
    page = await use(hands, "browser_read")
    first = datetime.strptime(form["First day"], "%m/%d/%Y").date().isoformat()
    rows = [line for line in page.splitlines() if first in line and form["Destination"] in line]
    return find(r"TR-\d+", rows[0])[0] if rows else None


async def use(hands: Hands, tool: str, **arguments: object) -> str:
    """Use a tool that must succeed; return its text."""
    result = await hands.use(tool, **arguments)
    if not result.ok:
        raise ValueError(result.text)
    return result.text


def reference(page: str, what: str) -> str:
    """Return the reference of an element in a snapshot."""
    return find(rf"{re.escape(what)}[^\n]*?\[(e\d+)\]", page)[1]


def find(pattern: str, text: str) -> re.Match[str]:
    """Return the match; fail if there is none."""
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f"{pattern} is not in {text[:2000]!r}")
    return match


def as_date(text: str) -> date:
    """Read a date in words."""
    return datetime.strptime(text, "%d %B %Y").date()
