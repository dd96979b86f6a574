"""Counts letters, and lists what was counted."""

import json

from hotdesk.brain.models.scripted import Hands, step


async def count(hands: Hands) -> None:
    """Count the letters of one line."""
    word = (await hands.read("item.txt")).decode().strip()
    await hands.run(["sleep", "1"])
    await hands.write(f"{hands.item}.json", json.dumps({"letters": len(word), "word": word}).encode())


async def register(hands: Hands) -> None:
    """Write a row for every line."""
    rows = ["item,word,letters"]
    for line in (await hands.read("results.jsonl")).splitlines():
        result = json.loads(line)
        [file] = result["files"].values()
        found = json.loads(file["text"])
        rows.append(f"{result['item']},{found['word']},{found['letters']}")
    await hands.write("register.csv", "".join(f"{row}\n" for row in rows).encode())


PLAN = (step(count, files=["item.txt"], makes=["{item}.json"]),)
REDUCE = (step(register, files=["results.jsonl"], makes=["register.csv"]),)
