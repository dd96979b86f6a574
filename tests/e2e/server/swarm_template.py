"""A template for tests: a swarm over the lines of a text, with hostile markup in every text its workers may choose."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.server.door_template import HOST

HOSTILE = '<img src=x onerror="window.hit=1">'
"""Runs if it is inserted as markup."""
WORDS = ["one", "three", "broken", "seven", "eleven"]
TEMPLATE = """
title = "Count letters"
text = "Counts the letters of every line of words.txt, each at a desk of its own."
files = ["words.txt"]
"""
BRIEF = """
goal = "Count the letters of {item}."
seconds = 240
size = {cpus = 1, memory = "256M", disk = "64M"}
%s
deliverables = [{path = "{item}.json", expect = {types = {letters = "integer"}}}]

[each]
over = "words.txt"
attempts = 1
quarantine = 0.5

[reduce]
goal = "Write register.csv with a row for every word."

[[reduce.deliverables]]
path = "register.csv"
check = "csv"
expect = {columns = ["item", "letters"]}
"""
ASKS = f'egress = ["ask GET http://{HOST}/words/**"]'
BRAIN = f'''"""Counts letters; one word cannot be counted."""

import json

from hotdesk.brain.models.scripted import Hands, step

HOSTILE = {HOSTILE!r}
FETCH = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=60)"


async def count(hands: Hands):
    """Count the letters of one word."""
    word = (await hands.read("item.txt")).decode().strip()
    hands.say(HOSTILE)
    if WAITS:
        await hands.run(["sleep", "WAITS"], timeout=60)
    if ASKS:
        done = await hands.run(["python3", "-c", FETCH, f"http://{HOST}/words/{{hands.item}}"], timeout=90)
        if not done.ok:
            raise ValueError("it was refused")
    if word == "broken":
        await hands.run(["sh", "-c", "echo '" + HOSTILE + "' >&2; exit 3"])
        raise ValueError(HOSTILE)
    text = json.dumps({{"letters": len(word), "word": HOSTILE + word}})
    await hands.write(f"{{hands.item}}.json", text.encode())


async def register(hands: Hands):
    """Write a row for every word."""
    rows = ["item,letters"]
    for line in (await hands.read("results.jsonl")).splitlines():
        result = json.loads(line)
        [file] = result["files"].values()
        rows.append(result["item"] + "," + str(json.loads(file["text"])["letters"]))
    await hands.write("register.csv", "".join(row + "\\n" for row in rows).encode())


PLAN = (step(count, files=["item.txt"], makes=["{{item}}.json"]),)
REDUCE = (step(register, files=["results.jsonl"], makes=["register.csv"]),)
'''


def install(templates: Path, name: str = "letters", *, asks: bool = False, waits: float = 0.0) -> None:
    """Install the template; with `asks` each item makes a request that needs approval; `waits` is seconds per item."""
    folder = templates / name
    folder.mkdir(parents=True)
    brain = BRAIN.replace("if ASKS:", f"if {asks}:").replace("WAITS", str(waits))
    brief = BRIEF % (ASKS if asks else "")
    if waits:
        brief = brief.replace("seconds = 240", "seconds = 3600")
    for file, text in (("template.toml", TEMPLATE), ("brief.toml", brief), ("brain.py", brain)):
        (folder / file).write_text(text)
