"""A real Chromium for tests of the page, and a record of errors that must never happen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from playwright.sync_api import Browser, Page, expect, sync_playwright

PROGRAM = "/usr/bin/chromium"
PATIENCE_MS = 30_000
"""How long a page may take until it looks as expected: only a failing test waits that long."""
NOTE = """
document.addEventListener("securitypolicyviolation", (e) => console.error("CSP", e.violatedDirective, e.blockedURI));
"""


class Place(Protocol):
    """A server's address, and the key that opens it."""

    @property
    def url(self) -> str: ...

    @property
    def key(self) -> str: ...


@dataclass
class Seen:
    """A page, and the errors that occurred in it."""

    page: Page
    wrong: list[str] = field(default_factory=list)

    def sign_in(self, server: Place, key: str = "") -> None:
        self.page.goto(server.url)
        self.page.get_by_label("Key").fill(key or server.key)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("navigation", name="Main").wait_for()

    def require_peace(self) -> None:
        assert self.wrong == []
        assert self.page.evaluate("window.hit") is None


@contextmanager
def chromium() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, width: int = 1280, height: int = 860, dark: bool = False) -> Iterator[Seen]:
    scheme = "dark" if dark else "light"
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    seen = Seen(context.new_page())
    seen.page.set_default_timeout(PATIENCE_MS)
    seen.page.add_init_script(NOTE)
    seen.page.on("pageerror", lambda error: seen.wrong.append(str(error)))
    seen.page.on("dialog", lambda dialog: seen.wrong.append(dialog.message))
    seen.page.on("console", lambda told: seen.wrong.append(told.text) if "CSP" in told.text else None)
    try:
        yield seen
    finally:
        context.close()
