"""Results from the browser's reader, validated and formatted for a model.

Everything about a page is untrusted text: it is cut to a length and stripped of terminal control characters.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable
from hotdesk.hands.reader import ProtocolError, VerbResult
from hotdesk.hands.reader.untrusted import clip
from hotdesk.strict import By, Range, StrictError, compile_reader
from hotdesk.tool import Observation

MAX_TEXT_CHARS = 200_000
"""Characters of a page or value."""
MAX_NUMBER = 10**15 - 1


def format_line(text: str, longest: int = 4000) -> str:
    return make_printable(clip(text, longest))


def sanitize_text(text: str) -> str:
    return "\n".join(
        "\t".join(map(make_printable, each.split("\t"))) for each in clip(text, MAX_TEXT_CHARS).split("\n")
    )


Line: TypeAlias = Annotated[str, format_line]
Whole: TypeAlias = Annotated[int, By(compile_reader(Annotated[float, Range(-MAX_NUMBER, MAX_NUMBER), math.floor]))]


@dataclass(frozen=True, slots=True)
class Tab:
    """One page of the browser."""

    id: Line = ""
    url: Line = ""
    title: Line = ""


@dataclass(frozen=True, slots=True)
class Dialog:
    """A JavaScript dialog that waits for an answer."""

    tab: Line = ""
    kind: Line = ""
    """`alert`, `confirm`, `prompt` or `beforeunload`."""
    message: Line = ""


@dataclass(frozen=True, slots=True)
class Download:
    """A file that is downloaded to the desk."""

    name: Line = ""
    state: Line = ""
    """`inProgress`, `completed` or `canceled`."""
    bytes: Whole = 0
    total: Whole = 0
    """Size of the whole file in bytes; 0 if unknown."""
    path: Line = ""
    """Path on the desk, once completed."""


@dataclass(frozen=True, slots=True)
class BrowserResult:
    """The result of a request, the state of the browser, and the events since the last result."""

    tab: Tab
    dialogs: tuple[Dialog, ...] = ()
    """Open dialogs of pages."""
    news: Annotated[tuple[Annotated[str, partial(format_line, longest=3000)], ...], lambda news: news[:30]] = ()
    """Events to report: opened and closed tabs, downloads, dismissed dialogs."""
    interrupted: bool = False
    """Whether a dialog interrupted the action."""
    loaded: bool = True
    download: bool = False
    """Whether the requested URL is a file, which is now being downloaded."""
    status: Whole = 0
    """HTTP status of the page that was opened; 0 if there is none."""
    text: Annotated[str, sanitize_text] = ""
    """The page, a value, or a description of what was done."""
    next: Whole = 0
    """Offset at which the rest of the text begins."""
    length: Whole = 0
    """Length of the whole text in characters."""
    whole: bool = True
    """Whether the page was short enough to be read completely."""
    hidden: Whole = 0
    """Number of frames that a snapshot cannot include, because they have another origin."""
    fallback: Line = ""
    """How an element was used whose middle could not be clicked: `coordinates` or `keyboard`."""
    covered: Line = ""
    """The element that covers it."""
    as_meant: bool = True
    """Whether a field has the intended value."""
    holds: Line = ""
    """The field's actual value, if it is another."""
    met: bool = True
    """Whether the condition that was waited for was met."""
    tabs: tuple[Tab, ...] = ()
    downloads: tuple[Download, ...] = ()
    image: bytes = b""


# -- text for a model -----------------------------------------------------------------------------------------


def report_action(what: str, result: BrowserResult) -> Observation:
    if not result.as_meant:
        what = f"{what}, but its value is now {result.holds!r}, not the given one"
    elif result.text:
        what += f": {result.text}"
    if result.fallback:
        what += f" (by {result.fallback}, because {result.covered} covers the middle of the element)"
    elif result.covered:
        what += f", but {result.covered} covers it"
    return Observation(describe_result(what, result), ok=result.as_meant, fallback=result.fallback)


def report_navigation(result: BrowserResult) -> Observation:
    status = f" with status {result.status}" if result.status else ""
    what = f"The page was loaded{status}" if result.loaded else "The page is still loading"
    what = "The URL is a file, which is being downloaded: browser_downloads shows it" if result.download else what
    return Observation(describe_result(what, result))


def format_page(result: BrowserResult, tool: str) -> Observation:
    note = ""
    if result.next < result.length:
        more = result.length - result.next
        note = f"The text is cut off, {more} more characters follow; continue with {tool} start={result.next}."
    if not result.whole:
        note += " The page is too long to be read completely."
    if result.hidden:
        note += f" Not shown: {result.hidden} frames of other origins; open their URLs in a tab to see them."
    lines = [_describe_tab(result), *_describe_news(result), "", result.text or "(nothing)"]
    note = note.strip()
    return Observation("\n".join([*lines, *([note] if note else [])]), note=note)


def format_value(result: BrowserResult) -> Observation:
    if result.interrupted:
        return report_action("A dialog interrupted the action", result)
    more = result.length - len(result.text)
    note = f"The value is cut off, {more} more characters follow; return a smaller value." if more > 0 else ""
    return Observation("\n".join([result.text, *_describe_news(result), *([note] if note else [])]), note=note)


def format_wait(result: BrowserResult, timeout: float) -> Observation:
    what = "The condition was met" if result.met else f"The condition was not met within {timeout:g} seconds"
    return Observation(describe_result(what, result), ok=result.met)


def format_downloads(result: BrowserResult) -> Observation:
    lines = [f"- {one.path or one.name}: {one.state}, {one.bytes} of {one.total} bytes" for one in result.downloads]
    what = "Downloads:" if result.met else "Not all downloads finished in time:"
    return Observation("\n".join([what, *(lines or ["- none"]), *_describe_news(result)]), ok=result.met)


def format_tabs(result: BrowserResult) -> Observation:
    lines = (f"- {each.id}: {each.title or 'untitled'} {each.url[:500]}" for each in result.tabs)
    return Observation("\n".join([f"Tabs ({result.tab.id} is the current one):", *lines, *_describe_news(result)]))


def describe_result(what: str, result: BrowserResult) -> str:
    what = "A dialog interrupted the action" if result.interrupted else what
    return "\n".join([f"{what}.", _describe_tab(result), *_describe_news(result)])


def _describe_tab(result: BrowserResult) -> str:
    return f"Tab {result.tab.id}: {result.tab.title or 'untitled'} {result.tab.url[:500]}"


def _describe_news(result: BrowserResult) -> list[str]:
    asks = [
        f'Tab {one.tab} shows a dialog ({one.kind}): "{one.message}". Answer it with browser_dialog; any other browser '
        "tool dismisses it."
        for one in result.dialogs
    ]
    return [*asks, *(f"New: {each}." for each in result.news)]


# -- replies of the reader ------------------------------------------------------------------------------------


def read_result(reply: VerbResult) -> BrowserResult:
    value: Any = reply.value
    try:
        tab: Tab = compile_reader(Tab, ignore_unknown=True)(value)
        result: BrowserResult = compile_reader(BrowserResult, ignore_unknown=True)({**value, "tab": {}, "image": ""})
    except StrictError as e:
        raise ProtocolError(str(e)) from None
    return replace(result, tab=tab, image=reply.blob)
