"""Navigation of a tab from page to page."""

from __future__ import annotations

import re

from hotdesk.errors import DeskError, make_printable
from hotdesk.hands.reader import scripts
from hotdesk.hands.reader.cdp import CdpError
from hotdesk.hands.reader.page import BrowserPage, Countdown
from hotdesk.hands.reader.untrusted import UntrustedObject

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d)")
CLOSED = "; the desk's door refused it: `hotdesk door log` shows why, `--allow HOST` admits it"
NO_EGRESS = "; this desk has no egress: open it with `--allow HOST`"
REFUSED = {
    "net::ERR_INTERNET_DISCONNECTED": NO_EGRESS,
    "net::ERR_NAME_NOT_RESOLVED": NO_EGRESS,
    "net::ERR_PROXY_CONNECTION_FAILED": NO_EGRESS,
    "net::ERR_TUNNEL_CONNECTION_FAILED": CLOSED,
}
"""The browser's errors when it cannot connect, with what they mean in a desk."""
STAGES = {"load": "load", "dom": "DOMContentLoaded", "idle": "networkIdle"}


def as_url(url: str) -> str:
    """Return a complete URL; without a scheme, https is used."""
    url = url.strip()
    if url.lower().startswith("javascript:"):
        raise DeskError("a javascript: URL is not a page: use browser_evaluate")
    return url if SCHEME.match(url) else f"https://{url}"


async def go(page: BrowserPage, url: str, wait: str, seconds: float) -> dict[str, object]:
    clock = Countdown(seconds)
    old = page.tab.loader
    try:
        reply = await page.ask_within(seconds, "Page.navigate", url=as_url(url))
    except DeskError:
        await page.ask("Page.stopLoading")
        raise DeskError(f"{make_printable(url[:200])} did not respond within {seconds:g} seconds; try again") from None
    if reply.flag("isDownload"):
        return {"download": True}
    if error := reply.read_text("errorText", 200):
        raise DeskError(
            f"{make_printable(url[:200])} could not be opened: {make_printable(error)}{REFUSED.get(error, '')}"
        )
    if not reply.read_text("loaderId") or wait == "none":
        return {"loaded": wait != "none"}
    return await arrive(page, wait, old, clock)


async def arrive(page: BrowserPage, wait: str, old: str, clock: Countdown) -> dict[str, object]:
    """Wait for another document than the old one; return whether it has loaded, and its HTTP status."""
    loaded = await page.cdp.wait(lambda: page.tab.loader != old and STAGES[wait] in page.tab.stages, clock.remaining)
    return {"loaded": loaded, "status": await read_status(page) if loaded else 0}


async def read_status(page: BrowserPage) -> int:
    """Return the HTTP status of the page, or 0 if it was not loaded over HTTP."""
    return (await page.look(scripts.READY)).read_integer("status")


async def reload(page: BrowserPage, seconds: float) -> dict[str, object]:
    old = page.tab.loader
    await page.ask("Page.reload")
    return await arrive(page, "load", old, Countdown(seconds))


async def go_by(page: BrowserPage, steps: int, seconds: float) -> dict[str, object]:
    history = await page.ask("Page.getNavigationHistory")
    index = history.read_integer("currentIndex") + steps
    entries = history.read_objects("entries")
    if not 0 <= index < len(entries):
        raise DeskError(f"there is no page {'before' if steps < 0 else 'after'} this one in the tab's history")
    await page.ask("Page.navigateToHistoryEntry", entryId=entries[index].read_integer("id"))
    clock = Countdown(seconds)
    while not (there := await _is_at(page, index)) and not clock.over:
        await page.pause(0.02)
    return {"loaded": there}


async def _is_at(page: BrowserPage, index: int) -> bool:
    history = await page.ask("Page.getNavigationHistory")
    return history.read_integer("currentIndex") == index and await _is_complete(page)


async def _is_complete(page: BrowserPage) -> bool:
    try:
        result: UntrustedObject = await page.look(scripts.READY)
    except CdpError:
        return False
    return result.read_text("state") == "complete"
