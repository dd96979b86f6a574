"""A template for tests of taking over: a worker with programs and a browser, which pauses between two steps."""

from __future__ import annotations

from pathlib import Path

TEMPLATE = """
title = "Greeting, slowly"
text = "Writes a file, in two steps."
"""
BRIEF = """
goal = "Write hello.json."
image = "desktop"
seconds = 240

[[deliverables]]
path = "hello.json"
check = "json"
expect = {required = ["hello"]}
"""
BRAIN = '''"""A worker that gives up at the first thing that fails."""

from hotdesk.brain.models.scripted import Hands, step

PAGE = "<title>Form</title><label>Name <input id=name></label>"
SERVE = "echo '" + PAGE + "' > index.html; python3 -m http.server 8000 >/dev/null 2>&1 &"


async def surely(wanted):
    seen = await wanted
    if not seen.ok:
        raise ValueError(seen.text)
    return seen


async def ask(hands: Hands):
    """Fill a form in the browser."""
    await surely(hands.run(["sleep", "5"]))
    await surely(hands.use("shell", command=SERVE))
    await surely(hands.use("browser_goto", url="http://localhost:8000/"))
    form = (await surely(hands.use("browser_snapshot"))).text
    ref = form.partition("textbox")[2].partition("[")[2].partition("]")[0]
    await surely(hands.use("browser_fill", ref=ref, text="Ada"))
    await surely(hands.use("browser_wait_for", what="load"))


async def write(hands: Hands):
    """Write the file."""
    await surely(hands.use("shell", command="for n in 1 2 3 4 5 6 7 8; do echo $n; sleep 1; done", timeout=30))
    await hands.write("hello.json", b'{"hello": "Ada"}')


PLAN = (step(ask, risk="high"), step(write, makes=["hello.json"], risk="high"))
'''


def install(templates: Path, name: str = "slowly") -> None:
    folder = templates / name
    folder.mkdir(parents=True)
    for file, text in (("template.toml", TEMPLATE), ("brief.toml", BRIEF), ("brain.py", BRAIN)):
        (folder / file).write_text(text)
