"""A desk's browser: its verbs. They run one at a time; each result includes what happened meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

import anyio

from hotdesk.errors import DeskError
from hotdesk.hands.reader import Dial, ProtocolError, VerbResult, actions, navigation, observe
from hotdesk.hands.reader.cdp import Cdp, CdpError, open_cdp, wait_within
from hotdesk.hands.reader.page import BrowserPage
from hotdesk.hands.reader.tabs import DOWNLOADS, PageBlockedError, Tabs, TabState

Act: TypeAlias = Callable[[BrowserPage], Awaitable[dict[str, object] | VerbResult]]

_ATTACH_SECONDS = 5.0
_ROUND_SECONDS = 10.0
"""Seconds for attaching to new tabs, or for dismissing dialogs."""
_ACT_SECONDS = 60.0
"""Seconds an action may take, in addition to its own timeout."""
SHOW = 30_000
"""Characters of a page that are returned at once."""


class Connection:
    """The connection to one desk's browser, opened on first use, and again after a protocol error."""

    def __init__(self, dial: Dial, act_seconds: float = _ACT_SECONDS) -> None:
        self.dial = dial
        self.act_seconds = act_seconds
        self.all_tabs = Tabs()
        self.cdp: Cdp | None = None
        self.lock = anyio.Lock()

    async def use(self, act: Act, seconds: float = 0.0, answers_dialog: bool = False) -> VerbResult:
        """Act on the current tab, within `seconds` and `act_seconds` together; return the result with other news."""
        async with self.lock:
            try:
                cdp = await self.ensure_connected()
                if not answers_dialog:
                    await wait_within(_ROUND_SECONDS, self.dismiss(cdp))
                page = BrowserPage(cdp, await self.get_current_tab(cdp))
                done = await self.do(page, act, seconds + self.act_seconds)
                return await self.add_context(cdp, done)
            except CdpError as e:
                raise DeskError(f"the browser refused the action: {e}") from e
            except ProtocolError:
                self.drop()
                raise

    async def do(self, page: BrowserPage, act: Act, seconds: float) -> VerbResult:
        """Run an action unless a dialog interrupts it; the time limit is for all its calls together."""
        self.all_tabs.patient = False
        try:
            with anyio.move_on_after(seconds):
                done = await act(page)
                with suppress(PageBlockedError, CdpError):
                    await page.release()
                return done if isinstance(done, VerbResult) else VerbResult(done)
        except PageBlockedError:
            return VerbResult({"interrupted": True})
        finally:
            self.all_tabs.patient = True
        raise DeskError(f"the page did not finish this action within {seconds:g} seconds")

    async def add_context(self, cdp: Cdp, done: VerbResult) -> VerbResult:
        await self.look_around(cdp)
        tab = await self.get_current_tab(cdp)
        dialogs = [
            {"tab": each.id, "kind": each.dialog.kind, "message": each.dialog.message}
            for each in self.all_tabs.list_dialog_tabs()
            if each.dialog
        ]
        about = {**tab.tell(), "tab": tab.id, "dialogs": dialogs, "news": self.all_tabs.take_news()}
        assert isinstance(done.value, dict)
        return VerbResult({**about, **done.value}, done.blob)

    async def ensure_connected(self) -> Cdp:
        """Return a connection whose events are all handled; open one if there is none, or the browser ended."""
        if self.cdp is not None and self.cdp.web.is_open:
            with suppress(ProtocolError):
                await self.look_around(self.cdp)
                return self.cdp
        self.drop()
        self.all_tabs.quiet = True
        self.cdp = await open_cdp(self.dial, self.all_tabs.hear)
        await self.cdp.call("Target.setDiscoverTargets", discover=True)
        await self.cdp.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=DOWNLOADS, eventsEnabled=True)
        await self.look_around(self.cdp)
        return self.cdp

    async def look_around(self, cdp: Cdp) -> None:
        reply = await cdp.call("Target.getTargets")
        targets = reply.read_objects("targetInfos")
        for target in targets:
            self.all_tabs.meet(target)
        alive = {target.read_text("targetId", 100) for target in targets}
        for gone in [target for target in self.all_tabs.by_target if target not in alive]:
            self.all_tabs.lose(gone)
        self.all_tabs.quiet = False
        with anyio.move_on_after(_ROUND_SECONDS):
            for tab in [*self.all_tabs.by_target.values()]:
                if (
                    not tab.session and not self.all_tabs.list_dialog_tabs()
                ):  # a page with a dialog may block the tabs it opened
                    await self.follow(cdp, tab)

    async def follow(self, cdp: Cdp, tab: TabState) -> None:
        try:
            reply = await cdp.call("Target.attachToTarget", targetId=tab.target, flatten=True)
        except CdpError:  # it was closed meanwhile
            return
        if not (session := reply.read_text("sessionId", 100)) or session in self.all_tabs.by_session:
            raise ProtocolError("the browser named an invalid session, or the session of another tab")
        tab.session = session
        self.all_tabs.by_session[session] = tab
        followed = False
        try:
            await cdp.call("Page.enable", session, _ATTACH_SECONDS)
            frame = (
                (await cdp.call("Page.getFrameTree", session, _ATTACH_SECONDS))
                .read_object("frameTree")
                .read_object("frame")
            )
            tab.frame = frame.read_text("id", 100)
            tab.enter(frame.read_text("loaderId", 100))
            await cdp.call("Page.setLifecycleEventsEnabled", session, _ATTACH_SECONDS, enabled=True)
            followed = True
        except (CdpError, DeskError) as e:
            self.all_tabs.note(f"the page in tab {tab.id} does not respond: {e}")
        finally:
            if not followed:  # the next caller tries again
                self.all_tabs.by_session.pop(session, None)
                tab.session = ""

    async def get_current_tab(self, cdp: Cdp) -> TabState:
        """Return the current tab; if it was closed, the newest; if there is none, a new one."""
        if tab := self.all_tabs.by_target.get(self.all_tabs.current):
            return tab
        if not self.all_tabs.by_target:
            await cdp.call("Target.createTarget", url="about:blank")
            await self.look_around(cdp)
        if not self.all_tabs.by_target:
            raise DeskError("the browser did not open a tab; try again")
        tab = [*self.all_tabs.by_target.values()][-1]
        self.all_tabs.current = tab.target
        return tab

    async def dismiss(self, cdp: Cdp) -> None:
        for tab in [*self.all_tabs.by_target.values()]:
            if dialog := tab.dialog:
                await self.answer(cdp, tab, accept=False)
                self.all_tabs.note(f"the {dialog.kind} in tab {tab.id} was dismissed because it was not answered")

    async def answer(self, cdp: Cdp, tab: TabState, accept: bool, text: str = "") -> None:
        """Answer a dialog; a dialog that closed meanwhile is not an error."""
        if tab.dialog and tab.dialog.kind == "beforeunload" and not accept:
            tab.loading = False  # the page stays, and no event reports that
        tab.dialog = None
        try:
            await cdp.call("Page.handleJavaScriptDialog", tab.session, accept=accept, promptText=text)
        except CdpError:
            return

    def drop(self) -> None:
        """Drop the connection. Tabs keep their ids."""
        if self.cdp is not None:
            self.cdp.close()
            self.cdp = None
        self.all_tabs.by_session.clear()
        for tab in self.all_tabs.by_target.values():
            tab.session, tab.dialog, tab.world = "", None, 0


class Chrome(Connection):
    """The browser of one desk."""

    VERBS = frozenset(
        {"goto", "back", "forward", "reload", "tabs", "open_tab", "select_tab", "close_tab", "read", "snapshot",
         "click", "fill", "select", "upload", "press", "insert", "hover", "scroll", "screenshot", "evaluate",
         "wait_for", "downloads", "wait_download", "dialog"}
    )  # fmt: skip

    async def goto(self, url: str, wait: str = "load", timeout: float = 30.0) -> VerbResult:
        """Go to a page, and wait until it has reached the loading state `wait`."""
        return await self.use(lambda page: navigation.go(page, url, wait, timeout), timeout)

    async def back(self, timeout: float = 30.0) -> VerbResult:
        return await self.use(lambda page: navigation.go_by(page, -1, timeout), timeout)

    async def forward(self, timeout: float = 30.0) -> VerbResult:
        return await self.use(lambda page: navigation.go_by(page, 1, timeout), timeout)

    async def reload(self, timeout: float = 30.0) -> VerbResult:
        return await self.use(lambda page: navigation.reload(page, timeout), timeout)

    async def tabs(self) -> VerbResult:
        async def act(page: BrowserPage) -> dict[str, object]:
            return {"tabs": [tab.tell() for tab in self.all_tabs.by_target.values()]}

        return await self.use(act)

    async def open_tab(self, url: str = "about:blank", timeout: float = 30.0) -> VerbResult:
        async def act(page: BrowserPage) -> dict[str, object]:
            reply = await page.cdp.call("Target.createTarget", url="about:blank")
            await self.look_around(page.cdp)
            self.all_tabs.current = reply.read_text("targetId", 100)
            new = BrowserPage(page.cdp, await self.get_current_tab(page.cdp))
            return await navigation.go(new, url, "load", timeout) if url != "about:blank" else {}

        return await self.use(act, timeout)

    async def select_tab(self, tab: str) -> VerbResult:
        async def act(page: BrowserPage) -> dict[str, object]:
            found = self.all_tabs.find(tab)
            self.all_tabs.current = found.target
            await page.cdp.call("Target.activateTarget", targetId=found.target)
            return {}

        return await self.use(act)

    async def close_tab(self, tab: str) -> VerbResult:
        async def act(page: BrowserPage) -> dict[str, object]:
            target = self.all_tabs.find(tab).target
            if len(self.all_tabs.by_target) == 1:  # the browser would end with its last tab
                await page.cdp.call("Target.createTarget", url="about:blank")
            await page.cdp.call("Target.closeTarget", targetId=target)
            await page.cdp.wait(lambda: target not in self.all_tabs.by_target, _ATTACH_SECONDS)
            if target in self.all_tabs.by_target:
                raise DeskError(f"the browser did not close tab {tab} within {_ATTACH_SECONDS:g} seconds; try again")
            return {}

        return await self.use(act)

    async def read(self, start: int = 0, most: int = SHOW) -> VerbResult:
        return await self.use(lambda page: observe.read(page, start, most))

    async def snapshot(self, start: int = 0, most: int = SHOW) -> VerbResult:
        return await self.use(lambda page: observe.take_snapshot(page, start, most))

    async def click(self, ref: str, button: str = "left", count: int = 1) -> VerbResult:
        return await self.use(lambda page: actions.click(page, ref, button, count))

    async def fill(self, ref: str, text: str) -> VerbResult:
        return await self.use(lambda page: actions.fill(page, ref, text))

    async def select(self, ref: str, values: list[str]) -> VerbResult:
        return await self.use(lambda page: actions.select(page, ref, values))

    async def upload(self, ref: str, paths: list[str]) -> VerbResult:
        return await self.use(lambda page: actions.upload(page, ref, paths))

    async def press(self, keys: list[str]) -> VerbResult:
        return await self.use(lambda page: actions.press(page, keys))

    async def insert(self, text: str) -> VerbResult:
        return await self.use(lambda page: actions.insert(page, text))

    async def hover(self, ref: str) -> VerbResult:
        return await self.use(lambda page: actions.hover(page, ref))

    async def scroll(self, ref: str = "", down: float = 0.0, right: float = 0.0) -> VerbResult:
        return await self.use(lambda page: actions.scroll(page, ref, down, right))

    async def screenshot(self, full: bool = False, ref: str = "", form: str = "png", quality: int = 80) -> VerbResult:
        return await self.use(lambda page: observe.take_screenshot(page, full, ref, form, quality))

    async def evaluate(self, expression: str, most: int = SHOW, timeout: float = 10.0) -> VerbResult:
        return await self.use(lambda page: observe.evaluate(page, expression, most, timeout), timeout)

    async def wait_for(self, what: str, value: str = "", timeout: float = 30.0) -> VerbResult:
        """Wait for a condition: `text`, `text_gone`, `ref`, `url`, `load` or `idle`."""
        return await self.use(lambda page: observe.wait_for(page, what, value, timeout), timeout)

    async def downloads(self) -> VerbResult:
        async def act(page: BrowserPage) -> dict[str, object]:
            return {"downloads": [download.tell() for download in self.all_tabs.downloads.values()]}

        return await self.use(act)

    async def wait_download(self, timeout: float = 60.0) -> VerbResult:
        """Wait until a download that was not reported yet has ended and no other is running; list all downloads."""

        async def act(page: BrowserPage) -> dict[str, object]:
            met = await page.cdp.wait(self.all_tabs.has_more, timeout)
            for download in self.all_tabs.downloads.values():
                download.awaited = download.state != "inProgress"
            return {"met": met, "downloads": [download.tell() for download in self.all_tabs.downloads.values()]}

        return await self.use(act, timeout)

    async def dialog(self, accept: bool, text: str = "") -> VerbResult:
        async def act(page: BrowserPage) -> dict[str, object]:
            asking = self.all_tabs.list_dialog_tabs()
            if not asking:
                raise DeskError("no dialog is open")
            found = page.tab if page.tab in asking else asking[0]
            await self.answer(page.cdp, found, accept, text)
            await page.settle()
            return {}

        return await self.use(act, answers_dialog=True)
