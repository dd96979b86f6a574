"""A template for tests: a worker that asks a question, and writes a file. No model is needed."""

from __future__ import annotations

from pathlib import Path

TEMPLATE = """
title = "Greeting"
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
seconds = 120

[[deliverables]]
path = "hello.json"
check = "json"
expect = {required = ["hello"]}
"""
BRAIN = '''"""A worker that asks, and writes."""

from hotdesk.brain.models.scripted import Hands, step


async def greet(hands: Hands):
    """Ask how, and write it down."""
    names = (await hands.run(["cat", "names.txt"])).text.strip()
    how = await hands.ask("How shall I greet?")
    return await hands.run(["sh", "-c", f"""printf '{{"hello": "{how} {names}"}}' > hello.json"""])


PLAN = (step(greet, files=["names.txt"], makes=["hello.json"]),)
'''


def install(templates: Path, name: str = "greeting") -> None:
    folder = templates / name
    folder.mkdir(parents=True, exist_ok=True)  # the test files of one xdist worker share a server
    for file, text in (("template.toml", TEMPLATE), ("brief.toml", BRIEF), ("brain.py", BRAIN)):
        (folder / file).write_text(text)
