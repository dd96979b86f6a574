"""Results from the browser's reader, validated and written for a model.

All that is told of a page is the desk's word: cut to a length, and unable to steer a terminal.
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
    """A question a page asks, and waits for."""

    tab: Line = ""
    kind: Line = ""
    """`alert`, `confirm`, `prompt` or `beforeunload`."""
    message: Line = ""


@dataclass(frozen=True, slots=True)
class Download:
    """A file on its way into the desk."""

    name: Line = ""
    state: Line = ""
    """`inProgress`, `completed` or `canceled`."""
    bytes: Whole = 0
    total: Whole = 0
    """How many it will be; 0: unknown."""
    path: Line = ""
    """Where it lies, once completed."""


@dataclass(frozen=True, slots=True)
class BrowserResult:
    """The result of a request, the state of the browser, and the events since the last result."""

    tab: Tab
    dialogs: tuple[Dialog, ...] = ()
    """Open dialogs of pages."""
    news: Annotated[tuple[Annotated[str, partial(format_line, longest=3000)], ...], lambda news: news[:30]] = ()
    """Tabs that came and went, downloads, dialogs that were dismissed."""
    interrupted: bool = False
    """Whether a dialog came in between."""
    loaded: bool = True
    download: bool = False
    """Whether an address gone to was a file, which is being downloaded."""
    status: Whole = 0
    """The HTTP status of a page gone to; 0: it has none."""
    text: Annotated[str, sanitize_text] = ""
    """The page, a value, or what there is to say of what was done."""
    next: Whole = 0
    """Where the rest of the text begins."""
    length: Whole = 0
    """How long the whole text is."""
    whole: bool = True
    """Whether the page was not too long to be read at all."""
    hidden: Whole = 0
    """How many frames of the page a snapshot cannot see into: those of other origins."""
    fallback: Line = ""
    """Which way was taken when an element could not be hit in its middle: `coordinates`, `keyboard`."""
    covered: Line = ""
    """What covers it."""
    as_meant: bool = True
    """Whether a field holds what it shall."""
    holds: Line = ""
    """What it holds if not."""
    met: bool = True
    """Whether what was waited for came about."""
    tabs: tuple[Tab, ...] = ()
    downloads: tuple[Download, ...] = ()
    image: bytes = b""


# -- what is told to a model ----------------------------------------------------------------------------------


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


# -- what the reader says -------------------------------------------------------------------------------------


def read_result(reply: VerbResult) -> BrowserResult:
    value: Any = reply.value
    try:
        tab: Tab = compile_reader(Tab, ignore_unknown=True)(value)
        result: BrowserResult = compile_reader(BrowserResult, ignore_unknown=True)({**value, "tab": {}, "image": ""})
    except StrictError as e:
        raise ProtocolError(str(e)) from None
    return replace(result, tab=tab, image=reply.blob)
