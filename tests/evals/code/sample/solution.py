"""The reference solution. This script runs outside the desk."""

from __future__ import annotations

import csv
import io
import json

from hotdesk.brain.models.scripted import Hands, step

RATE = "https://rates.example.test/rate"


async def fetch(hands: Hands) -> str:
    done = await hands.run(["curl", "--silent", "--show-error", "--fail", RATE], timeout=60)
    if not done.ok:
        raise ValueError(f"the site did not return a rate: {done.stderr.decode()[-200:]}")
    await hands.write("rate.json", done.stdout)
    return "the rate is in rate.json"


async def add_up(hands: Hands) -> str:
    rows = csv.DictReader(io.StringIO((await hands.read("orders.csv")).decode()))
    rate = json.loads(await hands.read("rate.json"))["rate"]
    total = sum(int(row["amount"]) for row in rows if row["state"] != "cancelled") * rate
    await hands.write("total.json", json.dumps({"total": total}).encode())
    return f"the total is {total}"


PLAN = (
    step(fetch, hosts=[f"GET {RATE}"], grants=["rates-token"], makes=["rate.json"]),
    step(add_up, hosts=[], grants=[], files=["orders.csv", "rate.json"], makes=["total.json"]),
)
