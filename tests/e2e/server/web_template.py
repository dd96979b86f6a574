"""A template for tests of the page: a worker at a screen, with hostile markup in every text it may choose. No model."""

from __future__ import annotations

from pathlib import Path

HOSTILE = '<img src=x onerror="window.hit=1">'
"""Runs if it is inserted as markup."""
SHOWN = r"\u202egnp.exe"
"""A file name that would read backwards, as it must be shown."""
TEMPLATE = """
title = "Greeting at a screen"
text = "Greets somebody, in a file."
files = ["names.txt"]

[[values]]
name = "whom"
title = "Whom?"
default = "the world"
"""
BRIEF = """
goal = "Greet {whom}: write hello.json."
inputs = ["names.txt"]
image = "desktop"
egress = ["GET https://friend.example/*"]
seconds = 240

[[deliverables]]
path = "hello.json"
check = "json"
expect = {required = ["hello"]}
"""
BRAIN = f'''"""A worker that looks, tries what it may not, asks, and writes."""

from hotdesk.brain.models.scripted import Hands, step

HOSTILE = {HOSTILE!r}


async def greet(hands: Hands):
    """Ask how, and write it down."""
    hands.say(HOSTILE)
    await hands.run(["touch", HOSTILE.replace("/", "") + "\\u202egnp.exe"])
    await hands.use("screen_screenshot")
    await hands.run(["curl", "--silent", "--max-time", "10", "https://thief.example/" + "x"])
    how = await hands.ask(HOSTILE + " How shall I greet?")
    await hands.write("hello.json", ('{{"hello": "%s"}}' % how).encode())


PLAN = (step(greet, intent="Greet. " + HOSTILE, files=["names.txt"], makes=["hello.json"]),)
'''


def install(templates: Path, name: str = "watched") -> None:
    folder = templates / name
    folder.mkdir(parents=True)
    for file, text in (("template.toml", TEMPLATE), ("brief.toml", BRIEF), ("brain.py", BRAIN)):
        (folder / file).write_text(text)
