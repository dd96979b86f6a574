"""A template for tests: a worker at a screen that makes refused requests and ones that need approval, and waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOST = "site.example.test"
TEMPLATE = """
title = "Fetching"
text = "Fetches pages, some of which it may not."
"""
BRIEF = f"""
goal = "Fetch the pages; write pages.json."
image = "desktop"
seconds = 240
egress = ["GET http://{HOST}/open", "deny http://{HOST}/denied", "ask GET http://{HOST}/asked"]

[[deliverables]]
path = "pages.json"
check = "json"
expect = {{required = ["open"]}}
"""
BRAIN = f'''"""A worker that fetches, and waits."""

import json

from hotdesk.brain.models.scripted import Hands, step


async def status(hands: Hands, page: str) -> str:
    """Fetch a page; give the status."""
    argv = ["curl", "-s", "-o", "/dev/null", "-w", "%{{http_code}}", "--max-time", "60", "http://{HOST}/" + page]
    return (await hands.run(argv, timeout=70)).text.strip()


async def fetch(hands: Hands):
    """Fetch what there is, before and after people said so."""
    await hands.use("screen_screenshot")
    found = {{"open": await status(hands, "open"), "more": await status(hands, "more")}}
    await hands.ask("May I?")
    found |= {{"later": await status(hands, "more"), "denied": await status(hands, "denied")}}
    found["asked"] = await status(hands, "asked")
    await hands.ask("Seen enough?")
    await hands.write("pages.json", json.dumps(found).encode())


PLAN = (step(fetch, makes=["pages.json"]),)
'''


def install(templates: Path, name: str = "fetching") -> None:
    folder = templates / name
    folder.mkdir(parents=True)
    for file, text in (("template.toml", TEMPLATE), ("brief.toml", BRIEF), ("brain.py", BRAIN)):
        (folder / file).write_text(text)


class Pages(BaseHTTPRequestHandler):
    """Serves every page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def site() -> Iterator[str]:
    """Serve pages on loopback; yield the settings with which a door finds them."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f'[door]\nnames = {{"{HOST}" = "127.0.0.1:{server.server_address[1]}"}}\n'
        finally:
            server.shutdown()
            thread.join()
