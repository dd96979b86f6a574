"""The reference solution's program at its desk: read all claims, apply the policy, and decide each claim once."""

from __future__ import annotations

import csv
import os
import re
import urllib.request
from datetime import date
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode

SITE = "https://expenses.example.test"
SELF = "Hannah Berg"
OPENER = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
Claim = dict[str, str]


def main() -> None:
    """Decide, and write decisions.csv."""
    fetch("/login", {"user": "hannah", "password": os.environ["EXPENSES_PASSWORD"]})
    pending = {number: read_claim(number) for number in read_list("/claims")}
    known = {number: key(read_claim(number)) for number in read_list("/archive")}
    known |= {number: key(claim) for number, claim in pending.items()}
    rows = [("Claim", "Decision", "Reason")]
    for number in sorted(pending):
        is_copy = any(number > other and known[other] == known[number] for other in known)
        decision, reason = decide(pending[number], is_copy=is_copy)
        rows.append((number, decision, reason))
        if decision != "leave":
            fetch(f"/claims/{number}/{decision}", {"reason": reason} if reason else {})
    with Path("decisions.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def decide(claim: Claim, *, is_copy: bool) -> tuple[str, str]:
    """Apply the rules of the policy in their order."""
    amount, count = cents(claim), int(claim.get("Persons") or claim.get("Nights") or claim["Count"])
    waited = date.fromisoformat(claim["Submitted"]) - date.fromisoformat(claim["Day of the expense"])
    limit = {"Meal": 4000, "Hotel": 18_000}.get(claim["Kind"])
    if claim["Employee"] == SELF or amount > 100_000:
        return "leave", ""
    if is_copy:
        return "reject", "DUPLICATE"
    if waited.days > 90:
        return "reject", "TOO_LATE"
    if claim["Receipt"] == "no" and amount > 2500:
        return "reject", "NO_RECEIPT"
    if limit is not None and amount > limit * count:
        return "reject", "OVER_LIMIT"
    return "approve", ""


def key(claim: Claim) -> tuple[str, str, str, int]:
    """Return the values that duplicate claims share."""
    return (claim["Employee"], claim["Kind"], claim["Day of the expense"], cents(claim))


def cents(claim: Claim) -> int:
    """Return the amount of a claim."""
    return int(re.sub(r"\D", "", claim["Amount"]))


def read_list(path: str) -> list[str]:
    """Return the numbers of claims on all pages of a list."""
    numbers: list[str] = []
    page = 1
    while found := re.findall(r"href='/claims/(EX-\d+)'", fetch(f"{path}?page={page}")):
        numbers += found
        page += 1
    return numbers


def read_claim(number: str) -> Claim:
    """Return the facts of a claim."""
    return dict(re.findall(r"<tr><th>([^<]+)<td>([^<]+)", fetch(f"/claims/{number}")))


def fetch(path: str, form: dict[str, str] | None = None) -> str:
    """Return a page of the site; a form is sent to it."""
    data = None if form is None else urlencode(form).encode()
    with OPENER.open(SITE + path, data, timeout=60) as response:
        return str(response.read().decode())


if __name__ == "__main__":
    main()
