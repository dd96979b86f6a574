"""The state of a browser as it reports it: tabs, loading, dialogs, downloads, references."""

from __future__ import annotations

import posixpath
from dataclasses import field

from hotdesk.dataclass import dataclass
from hotdesk.errors import DeskError, make_printable
from hotdesk.hands.reader.untrusted import UntrustedObject

_MAX_TABS = 64
_MAX_DOWNLOADS = 200
_MAX_NEWS = 20
_MAX_REFERENCES = 50_000
_MAX_URL_CHARS = 2000
MAX_TITLE_CHARS = 200
DOWNLOADS = "/home/user/Downloads"
STAGES = frozenset({"DOMContentLoaded", "load", "networkIdle"})


class PageBlockedError(Exception):
    """A page opened a dialog during a command."""


@dataclass(slots=True)
class PageDialog:
    """A JavaScript dialog that waits for an answer."""

    kind: str
    message: str


@dataclass(slots=True)
class PageDownload:
    """A file that is downloaded to the desk."""

    name: str
    state: str = "inProgress"
    received: int = 0
    total: int = 0
    path: str = ""
    awaited: bool = False
    """Whether its end was reported."""

    def tell(self) -> dict[str, object]:
        return {"name": self.name, "state": self.state, "bytes": self.received, "total": self.total, "path": self.path}


class References:
    """Short names of elements: the same for an element while its page is loaded, and never used twice."""

    def __init__(self) -> None:
        self.last = 0
        self.by_name: dict[str, int] = {}
        self.by_element: dict[int, str] = {}

    def refer(self, element: int) -> str:
        if element not in self.by_element:
            if len(self.by_element) >= _MAX_REFERENCES:
                self.forget()
            self.last += 1
            self.by_element[element] = name = f"e{self.last}"
            self.by_name[name] = element
        return self.by_element[element]

    def find(self, name: str) -> int:
        if name in self.by_name:
            return self.by_name[name]
        if name.startswith("e") and name[1:].isdecimal() and int(name[1:9]) <= self.last:
            raise make_stale_error(name)
        raise DeskError(
            f"unknown reference {make_printable(name[:20])!r}: use a reference from browser_snapshot, such as e12"
        )

    def forget(self) -> None:
        self.by_name.clear()
        self.by_element.clear()


def make_stale_error(name: str) -> DeskError:
    return DeskError(
        f"the element {name} is no longer on the page: take a new snapshot (browser_snapshot), and use its references"
    )


@dataclass(slots=True)
class TabState:
    """One page of the browser."""

    id: str
    target: str
    session: str = ""
    frame: str = ""
    loader: str = ""
    """Id of the document in the tab's main frame."""
    stages: set[str] = field(default_factory=set)
    """Loading states that this document has reached."""
    loading: bool = False
    url: str = ""
    title: str = ""
    dialog: PageDialog | None = None
    world: int = 0
    """Execution context of our own scripts in that document; 0 if there is none yet."""
    chooser: int = 0
    """Node id of the field for which the page asks for a file to upload."""
    references: References = field(default_factory=References)

    def enter(self, loader: str) -> None:
        if loader != self.loader:
            self.loader, self.stages, self.world = loader, set(), 0
            self.references.forget()

    def tell(self) -> dict[str, object]:
        return {"id": self.id, "url": self.url, "title": self.title}


class Tabs:
    """Handles the events of a browser, and tracks its state."""

    def __init__(self) -> None:
        self.by_target: dict[str, TabState] = {}
        self.by_session: dict[str, TabState] = {}
        self.downloads: dict[str, PageDownload] = {}
        self.current = ""
        """Target id of the current tab."""
        self.opened_count = 0
        self.news: list[str] = []
        self.untold = 0
        self.quiet = True
        """Whether events are not reported, because they happened before we connected."""
        self.patient = True
        """Whether a dialog does not interrupt."""

    def note(self, text: str) -> None:
        """Queue an event to report with the next result."""
        if self.quiet:
            return
        if len(self.news) < _MAX_NEWS:
            self.news.append(text)
        else:
            self.untold += 1

    def take_news(self) -> list[str]:
        news = [*self.news, f"and {self.untold} more such events"] if self.untold else self.news
        self.news, self.untold = [], 0
        return news

    def find(self, name: str) -> TabState:
        for tab in self.by_target.values():
            if tab.id == name:
                return tab
        ids = ", ".join(tab.id for tab in self.by_target.values())
        raise DeskError(f"unknown tab {make_printable(name[:20])!r}; the tabs are {ids or 'none'}")

    def hear(self, session: str, name: str, event: UntrustedObject) -> None:
        """Handle one event; ignore events of unknown sessions or kinds."""
        if not session:
            self.hear_browser(name, event)
        elif tab := self.by_session.get(session):
            self.hear_tab(tab, name, event)

    def hear_browser(self, name: str, event: UntrustedObject) -> None:
        match name:
            case "Target.targetCreated" | "Target.targetInfoChanged":
                self.meet(event.read_object("targetInfo"))
            case "Target.targetDestroyed":
                self.lose(event.read_text("targetId", 100))
            case "Target.targetCrashed":
                self.crash(event.read_text("targetId", 100))
            case "Target.detachedFromTarget":
                if tab := self.by_session.pop(event.read_text("sessionId", 100), None):
                    tab.session, tab.dialog = "", None
            case "Browser.downloadWillBegin":
                self.begin_download(event)
            case "Browser.downloadProgress":
                self.go_on_with_download(event)

    def meet(self, info: UntrustedObject) -> None:
        target = info.read_text("targetId", 100)
        tab = self.by_target.get(target)
        if info.read_text("type") != "page" or info.read_text("url", 10).startswith("devtools:"):
            return
        if tab is None:
            if len(self.by_target) >= _MAX_TABS:
                self.note(f"more than {_MAX_TABS} tabs are open, so the newest tab cannot be used: close other tabs")
                return
            self.opened_count += 1
            tab = self.by_target[target] = TabState(f"t{self.opened_count}", target)
            self.note(" ".join(["tab", tab.id, "was opened", make_printable(info.read_text("url", 200))]).rstrip())
        tab.url = make_printable(info.read_text("url", _MAX_URL_CHARS))
        tab.title = make_printable(info.read_text("title", MAX_TITLE_CHARS))

    def crash(self, target: str) -> None:
        """Record that a page crashed; raise if an action is running in it."""
        if tab := self.by_target.get(target):
            tab.dialog = None
            if target == self.current and not self.patient:
                raise DeskError(f"the page in tab {tab.id} crashed: reload it, or open another URL")
            self.note(f"the page in tab {tab.id} crashed: reload it, or open another URL")

    def lose(self, target: str) -> None:
        if tab := self.by_target.pop(target, None):
            self.by_session.pop(tab.session, None)
            self.note(f"tab {tab.id} was closed")

    def list_dialog_tabs(self) -> list[TabState]:
        return [tab for tab in self.by_target.values() if tab.dialog]

    def has_more(self) -> bool:
        """Return whether a finished download was not reported yet, and none is running."""
        new = [each for each in self.downloads.values() if not each.awaited]
        return bool(new) and all(each.state != "inProgress" for each in new)

    def begin_download(self, event: UntrustedObject) -> None:
        while len(self.downloads) >= _MAX_DOWNLOADS:
            self.downloads.pop(next(iter(self.downloads)))
        guid = event.read_text("guid", 100)
        name = sanitize_file_name(event.read_text("suggestedFilename", 1000))
        self.downloads[guid] = PageDownload(name)
        self.note(f"the download of {name} started")

    def go_on_with_download(self, event: UntrustedObject) -> None:
        if not (download := self.downloads.get(event.read_text("guid", 100))):
            return
        download.received, download.total = event.read_integer("receivedBytes"), event.read_integer("totalBytes")
        state = event.read_text("state", 20)
        if state == download.state or state not in ("inProgress", "completed", "canceled"):
            return
        download.state = state
        if state == "completed":
            path = read_download_path(event.read_text("filePath", 4000) or f"{DOWNLOADS}/{download.name}")
            over = any(one.path == path for one in self.downloads.values())
            download.path = path
            self.note(
                f"{path} was downloaded: {download.received} bytes{', replacing an earlier file' if over else ''}"
            )
        else:
            self.note(f"the download of {download.name} was cancelled")

    def hear_tab(self, tab: TabState, name: str, event: UntrustedObject) -> None:
        match name:
            case "Page.lifecycleEvent":
                self.hear_stage(tab, event)
            case "Page.frameNavigated":
                frame = event.read_object("frame")
                if "parentId" not in frame:
                    tab.frame = frame.read_text("id", 100)
                    tab.enter(frame.read_text("loaderId", 100))
            case "Page.frameStartedLoading" | "Page.frameStoppedLoading":
                if event.read_text("frameId", 100) == tab.frame:
                    tab.loading = name == "Page.frameStartedLoading"
            case "Page.frameRequestedNavigation":
                if event.read_text("frameId", 100) == tab.frame and event.read_text("disposition") == "currentTab":
                    tab.loading = True
            case "Page.fileChooserOpened":
                tab.chooser = event.read_integer("backendNodeId")
            case "Page.javascriptDialogOpening":
                self.open_dialog(tab, event)
            case "Page.javascriptDialogClosed":
                tab.dialog = None

    def hear_stage(self, tab: TabState, event: UntrustedObject) -> None:
        if event.read_text("frameId", 100) != tab.frame:
            return
        stage = event.read_text("name", 40)
        if stage == "init":
            tab.enter(event.read_text("loaderId", 100))
        elif stage in STAGES and event.read_text("loaderId", 100) == tab.loader:
            tab.stages.add(stage)

    def open_dialog(self, tab: TabState, event: UntrustedObject) -> None:
        """Record a dialog; raise if an action is running."""
        kind = event.read_text("type", 20)
        kind = kind if kind in ("alert", "confirm", "prompt", "beforeunload") else "alert"
        tab.dialog = PageDialog(kind, make_printable(event.read_text("message", 1000)))
        if not self.patient:
            raise PageBlockedError


def sanitize_file_name(name: str) -> str:
    last = make_printable(name.replace("\\", "/").rpartition("/")[2][:255])
    return last if last not in ("", ".", "..") else "download"


def read_download_path(path: str) -> str:
    """Return a download's reported path if it is in the download folder and safe to show; otherwise the folder."""
    folder, name = posixpath.split(path)
    return path if folder == DOWNLOADS and name == sanitize_file_name(name) else DOWNLOADS
