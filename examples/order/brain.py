"""A worker that buys what runs low, if somebody lets it. This script runs outside.

What it reads may be read twice without harm. Of the order it asks first whether it is there; and a no is a no.
"""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from hotdesk.brain.models.scripted import Failed, Hands, step

SHOP = "https://shop.example.test"
CURL = ["curl", "--silent", "--show-error", "--fail-with-body", "--max-time", "600"]
NO = "the order was not let through"


async def count(hands: Hands) -> str:
    """List what runs low in the storeroom."""
    rows = csv.DictReader(io.StringIO((await hands.read("storeroom.csv")).decode()))
    low = {
        row["Article"]: int(row["Least"]) - int(row["There"]) for row in rows if int(row["There"]) < int(row["Least"])
    }
    await hands.write("low.json", json.dumps(low).encode())
    return f"{len(low)} things run low"


async def price(hands: Hands) -> str:
    """Ask the shop how it sells them, and put the order together."""
    low = json.loads(await hands.read("low.json"))
    articles = {each["article"]: each for each in await fetched(hands, "articles")}
    packs = {number: -(-missing // articles[number]["pack"]) for number, missing in low.items()}
    cents = sum(articles[number]["cents"] * count for number, count in packs.items())
    await hands.write("order.json", json.dumps({"packs": packs}).encode())
    await hands.write("total.txt", f"{cents / 100:.2f}".encode())
    return f"{len(packs)} articles for {cents / 100:.2f} EUR"


async def place(hands: Hands) -> str:
    """Place the order, once, and keep the shop's confirmation."""
    packs = json.loads(await hands.read("order.json"))["packs"]
    made = await placed(hands, packs)
    if made is None and NO in hands.before:
        raise ValueError(f"{NO} before, and is not asked for again")
    if made is None:
        total = (await hands.read("total.txt")).decode()
        hands.say(f"I order {len(packs)} articles for {total} EUR. A person is asked first.")
        why = await order(hands, f"{SHOP}/orders/EUR/{total}")
        made = await placed(hands, packs)
        if made is None:
            raise ValueError(f"{NO}: {why}")
    await hands.write("confirmation.json", json.dumps(made, indent=1).encode())
    return f"ordered as {made['order']}"


PLAN = (
    step(count, hosts=[], grants=[], files=["storeroom.csv"], makes=["low.json"]),
    step(
        price,
        hosts=[f"GET {SHOP}/articles?"],
        grants=["shop-token"],
        files=["low.json"],
        makes=["order.json", "total.txt"],
    ),
    step(place, grants=["shop-token"], files=["order.json", "total.txt"], makes=["confirmation.json"]),
)


async def order(hands: Hands, url: str) -> str:
    """Place the order; say why it was not, as far as anybody told."""
    kind = ["--header", "Content-Type: application/json", "--data-binary", "@order.json"]
    try:
        done = await hands.run([*CURL, *kind, url], timeout=600)
    except Failed as e:
        return str(e)
    return (done.stdout or done.stderr).decode("utf-8", "replace").strip()[:200]


async def placed(hands: Hands, packs: dict[str, int]) -> dict[str, Any] | None:
    """Give the order of just this, if the shop has it."""
    return next((each for each in await fetched(hands, "orders") if each["packs"] == packs), None)


async def fetched(hands: Hands, what: str) -> list[dict[str, Any]]:
    """Give what the shop lists."""
    done = await hands.run([*CURL, f"{SHOP}/{what}"], timeout=60)
    if not done.ok:
        raise ValueError(f"{what}: {done.stderr.decode('utf-8', 'replace')[-300:]}")
    return list(json.loads(done.stdout))
