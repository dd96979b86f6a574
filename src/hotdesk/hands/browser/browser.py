"""A desk's browser, for programs and as tools: pages are read as text, and elements used by reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from hotdesk.errors import DeskError, make_printable
from hotdesk.hands.browser.results import (
    BrowserResult,
    describe_result,
    format_downloads,
    format_page,
    format_tabs,
    format_value,
    format_wait,
    read_result,
    report_action,
    report_navigation,
)
from hotdesk.hands.browser.tools import ALL, DEFAULT_TIMEOUT_S, TABS
from hotdesk.hands.paths import make_absolute
from hotdesk.hands.reader import ProtocolError
from hotdesk.hands.screen.reader_client import Seat, make_malformed_error
from hotdesk.tool import Arguments, Observation, Tool, get_flag, get_integer, get_number, get_text, get_texts

Wait: TypeAlias = Literal["load", "dom", "idle", "none"]
What: TypeAlias = Literal["text", "text_gone", "ref", "url", "load", "idle"]
Form: TypeAlias = Literal["png", "jpeg"]

SHOW = 30_000
"""Characters of a page that are returned at once."""


class Browser:
    tools: Sequence[Tool] = ALL

    def __init__(self, seat: Seat) -> None:
        self.seat = seat

    async def ask(self, verb: str, **arguments: object) -> BrowserResult:
        """Send a request to the reader; its reply is validated, because a hostile page may control the reader."""
        reply = await self.seat.ask(f"browser.{verb}", **arguments)
        try:
            return read_result(reply)
        except ProtocolError as e:
            raise make_malformed_error(self.seat.desk, "browser", str(e)) from e

    # -- for programs -----------------------------------------------------------------------------------------

    async def goto(self, url: str, wait: Wait = "load", timeout: float = DEFAULT_TIMEOUT_S) -> BrowserResult:
        """Go to a URL, and wait until the page has reached the loading state `wait`."""
        return await self.ask("goto", url=url, wait=wait, timeout=timeout)

    async def back(self, timeout: float = DEFAULT_TIMEOUT_S) -> BrowserResult:
        return await self.ask("back", timeout=timeout)

    async def forward(self, timeout: float = DEFAULT_TIMEOUT_S) -> BrowserResult:
        return await self.ask("forward", timeout=timeout)

    async def reload(self, timeout: float = DEFAULT_TIMEOUT_S) -> BrowserResult:
        return await self.ask("reload", timeout=timeout)

    async def list_tabs(self) -> BrowserResult:
        return await self.ask("tabs")

    async def open_tab(self, url: str = "about:blank", timeout: float = DEFAULT_TIMEOUT_S) -> BrowserResult:
        return await self.ask("open_tab", url=url, timeout=timeout)

    async def select_tab(self, tab: str) -> BrowserResult:
        return await self.ask("select_tab", tab=tab)

    async def close_tab(self, tab: str) -> BrowserResult:
        return await self.ask("close_tab", tab=tab)

    async def read(self, start: int = 0, most: int = SHOW) -> BrowserResult:
        return await self.ask("read", start=start, most=most)

    async def snapshot(self, start: int = 0, most: int = SHOW) -> BrowserResult:
        return await self.ask("snapshot", start=start, most=most)

    async def click(
        self, ref: str, button: Literal["left", "middle", "right"] = "left", count: int = 1
    ) -> BrowserResult:
        return await self.ask("click", ref=ref, button=button, count=count)

    async def fill(self, ref: str, text: str) -> BrowserResult:
        """Fill a field; `as_meant` is whether the field then has the text."""
        return await self.ask("fill", ref=ref, text=text)

    async def select(self, ref: str, values: Sequence[str]) -> BrowserResult:
        return await self.ask("select", ref=ref, values=list(values))

    async def upload(self, ref: str, paths: Sequence[str]) -> BrowserResult:
        """Upload files of the desk to a page; raise `FileError` if a file does not exist."""
        placed = [make_absolute(self.seat.desk, path) for path in paths]
        for path in placed:
            if (await self.seat.desk.stat(path)).kind not in ("file", "symlink"):
                raise DeskError(f"{make_printable(path)} is not a file; only files can be uploaded")
        return await self.ask("upload", ref=ref, paths=placed)

    async def press(self, keys: Sequence[str]) -> BrowserResult:
        return await self.ask("press", keys=list(keys))

    async def type(self, text: str) -> BrowserResult:
        return await self.ask("insert", text=text)

    async def hover(self, ref: str) -> BrowserResult:
        return await self.ask("hover", ref=ref)

    async def scroll(self, ref: str = "", down: float = 0.0, right: float = 0.0) -> BrowserResult:
        return await self.ask("scroll", ref=ref, down=down, right=right)

    async def screenshot(self, full: bool = False, ref: str = "", form: Form = "png") -> BrowserResult:
        """Take a picture; its bytes are passed on unread."""
        return await self.ask("screenshot", full=full, ref=ref, form=form)

    async def evaluate(self, expression: str, most: int = SHOW, timeout: float = DEFAULT_TIMEOUT_S) -> BrowserResult:
        """Evaluate JavaScript in the page; `text` is its value as JSON."""
        return await self.ask("evaluate", expression=expression, most=most, timeout=timeout)

    async def wait_for(self, what: What, value: str = "", timeout: float = DEFAULT_TIMEOUT_S) -> BrowserResult:
        """Wait for a condition; `met` is whether it was met in time."""
        return await self.ask("wait_for", what=what, value=value, timeout=timeout)

    async def list_downloads(self) -> BrowserResult:
        return await self.ask("downloads")

    async def wait_download(self, timeout: float = 60.0) -> BrowserResult:
        """Wait until a download that was not reported yet has ended and no other is running."""
        return await self.ask("wait_download", timeout=timeout)

    async def answer_dialog(self, accept: bool, text: str = "") -> BrowserResult:
        return await self.ask("dialog", accept=accept, text=text)

    # -- as tools ---------------------------------------------------------------------------------------------

    async def use(self, tool: str, arguments: Arguments) -> Observation:
        timeout = get_number(arguments, "timeout", DEFAULT_TIMEOUT_S)
        match tool:
            case "browser_goto":
                url, wait = get_text(arguments, "url"), get_text(arguments, "wait")
                return report_navigation(await self.ask("goto", url=url, wait=wait, timeout=timeout))
            case "browser_history":
                return report_navigation(await self.ask(get_text(arguments, "go"), timeout=timeout))
            case "browser_tabs":
                return await self.use_tabs(arguments)
            case "browser_read":
                return format_page(await self.read(get_integer(arguments, "start")), tool)
            case "browser_snapshot":
                return format_page(await self.snapshot(get_integer(arguments, "start")), tool)
            case "browser_screenshot":
                return await self.use_screenshot(arguments)
            case "browser_evaluate":
                return format_value(await self.evaluate(get_text(arguments, "expression"), timeout=timeout))
            case "browser_wait_for":
                what, value = get_text(arguments, "what"), get_text(arguments, "value")
                return format_wait(await self.ask("wait_for", what=what, value=value, timeout=timeout), timeout)
            case "browser_downloads":
                waits = get_flag(arguments, "wait")
                return format_downloads(await (self.wait_download(timeout) if waits else self.list_downloads()))
        return await self.act(tool, arguments)

    async def act(self, tool: str, arguments: Arguments) -> Observation:
        ref, text = get_text(arguments, "ref"), get_text(arguments, "text")
        match tool:
            case "browser_click":
                button, count = get_text(arguments, "button"), get_integer(arguments, "count", 1)
                return report_action(f"{ref} was clicked", await self.ask("click", ref=ref, button=button, count=count))
            case "browser_fill":
                return report_action(f"{ref} was filled", await self.fill(ref, text))
            case "browser_select":
                return report_action(f"{ref} was set", await self.select(ref, get_texts(arguments, "values")))
            case "browser_upload":
                return report_action(
                    f"The files were selected in {ref}", await self.upload(ref, get_texts(arguments, "paths"))
                )
            case "browser_press":
                return report_action("The keys were pressed", await self.press(get_texts(arguments, "keys")))
            case "browser_type":
                return report_action("The text was typed", await self.type(text))
            case "browser_hover":
                return report_action(f"The pointer is on {ref}", await self.hover(ref))
            case "browser_scroll":
                down, right = get_number(arguments, "down"), get_number(arguments, "right")
                return report_action("The page was scrolled", await self.scroll(ref, down, right))
        return report_action("The dialog was answered", await self.answer_dialog(get_flag(arguments, "accept"), text))

    async def use_tabs(self, arguments: Arguments) -> Observation:
        do, tab = get_text(arguments, "do"), get_text(arguments, "tab")
        if do in ("select", "close") and not tab:
            raise TABS.refuse("tab is missing")
        match do:
            case "open":
                return report_navigation(await self.open_tab(get_text(arguments, "url")))
            case "select":
                return report_action(f"Tab {tab} is now the current tab", await self.select_tab(tab))
            case "close":
                return report_action(f"Tab {tab} was closed", await self.close_tab(tab))
        result = await self.list_tabs()
        return format_tabs(result)

    async def use_screenshot(self, arguments: Arguments) -> Observation:
        form = get_text(arguments, "format")
        full, ref = get_flag(arguments, "full"), get_text(arguments, "ref")
        result = await self.ask("screenshot", full=full, ref=ref, form=form)
        return Observation(describe_result("The picture was taken", result), image=result.image, media=f"image/{form}")
