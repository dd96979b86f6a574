"""Rules for the text of pages: selectable text, required words, no template text, valid links."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import urlsplit

from hotdesk.checks.pages.document import Box, DocumentEvidence, PageContent, PageLink
from hotdesk.checks.pages.expect import PageExpectations
from hotdesk.checks.pages.layout import quote_start
from hotdesk.checks.seam import Fault
from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable

_LEAST_LETTERS = 3
"""Minimum letters and digits of a page with text."""
_LEAST_BESIDE = 20
"""Minimum letters and digits of a page that is more than a picture."""
MOSTLY = 0.7
"""Share of a page above which a picture counts as a scan."""
LEFTOVERS = re.compile(
    r"lorem ipsum|click (?:here )?to (?:add|edit)|click or tap (?:here )?to|(?-i:\bTODO\b|\bFIXME\b|\bTBD\b|\bXXX+\b)"
    r"|\{\{|\}\}|<<[a-z_ ]{2,30}>>|\[(?:insert|your|placeholder)\b|your (?:text|title|logo) here|placeholder text",
    re.IGNORECASE,
)
_MOJIBAKE = re.compile("\u00c3[\u0080-\u00bf]|\u00e2\u20ac[\u0080-\uffff]|\u00c2[\u00a0-\u00bf]|\u00ef\u00bb\u00bf")
ADDRESS = re.compile(r"(?:https?://|www\.)[^\s<>\"'|]+", re.IGNORECASE)
_CONTACTS = ("mailto:", "tel:")


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The text of a file's pages."""

    want: PageExpectations
    document: DocumentEvidence
    blanks: frozenset[int]
    """Blank pages, from 0."""
    word: str = "page"
    foot: float = 0.88
    """Start of the footer, as a fraction of the page's height."""

    def describe_place(self, place: int) -> str:
        return f"{self.word} {place + 1}"

    def text(self) -> Iterator[Fault]:
        """Find pages whose text is only pixels, or too short."""
        for place, leaf in enumerate(self.document.leaves):
            count, free = _count_letters(leaf.text), place in self.blanks or self.want.may_be_scanned(place + 1)
            if self.want.text and not free and _is_picture(leaf, count):
                found = f"{count} letters of text, and the rest as a picture"
                yield Fault("text", self.describe_place(place), "text that can be selected and searched", found)
            elif not free and count < self.want.characters:
                yield Fault(
                    "text",
                    self.describe_place(place),
                    f"at least {self.want.characters} letters and digits",
                    str(count),
                )

    def words(self) -> Iterator[Fault]:
        for word in self.want.words:
            if not self.list_pages_with(word):
                yield Fault("words", "", repr(make_printable(word)), f"no {self.word} with this text")

    def list_pages_with(self, word: str) -> list[int]:
        sought = _fold_text(word)
        return [place + 1 for place, leaf in enumerate(self.document.leaves) if sought in _fold_text(leaf.text)]

    def leftovers(self) -> Iterator[Fault]:
        for place, leaf in enumerate(self.document.leaves):
            for line in leaf.lines:
                found = LEFTOVERS.search(line.text)
                if found and not any(each.casefold() in line.text.casefold() for each in self.want.allow):
                    where = f"{self.describe_place(place)}, at {line.box}"
                    yield Fault("leftovers", where, "no template text", quote_start(line.text))
        for frame in self.document.frames:
            if frame.empty:
                where = f"{self.describe_place(frame.page)}, {make_printable(frame.name)!r}"
                yield Fault("leftovers", where, "no empty placeholder", "an empty placeholder")

    def garbled(self) -> Iterator[Fault]:
        for place, leaf in enumerate(self.document.leaves):
            for line in leaf.lines:
                if "\ufffd" in line.text or _MOJIBAKE.search(line.text):
                    where = f"{self.describe_place(place)}, at {line.box}"
                    yield Fault("garbled", where, "readable letters", quote_start(line.text))
            if leaf.unmapped > max(3, _count_letters(leaf.text) * 0.1):
                found = f"{leaf.unmapped} characters without a Unicode mapping"
                yield Fault("garbled", self.describe_place(place), "text that can be copied", found)

    def title(self) -> Iterator[Fault]:
        expected, found = self.want.title, self.document.title.strip()
        if isinstance(expected, str) and found != expected:
            yield Fault(
                "title",
                "properties",
                f"the title {make_printable(expected)!r}",
                quote_start(found) if found else "none",
            )
        elif expected is True and found.casefold() in ("", "untitled", "powerpoint presentation", "word document"):
            yield Fault("title", "properties", "a title", quote_start(found) if found else "none")

    def links(self) -> Iterator[Fault]:
        """Find links to local places, and footers without a link to a listed source."""
        for place, leaf in enumerate(self.document.leaves):
            for link in leaf.links:
                if is_local(link.to):
                    where = f"{self.describe_place(place)}, at {link.box}"
                    yield Fault("links", where, "links that a reader can follow", quote_start(link.to))
            if self.want.sources:
                yield from self.check_footer(place, leaf)

    def check_footer(self, place: int, leaf: PageContent) -> Iterator[Fault]:
        found = list(self.iterate_footer_links(leaf))
        for link in found:
            if not any(leads_to(link.to, source) for source in self.want.sources):
                where = f"{self.describe_place(place)}, at {link.box}"
                yield Fault("links", where, "a footer link to a listed source", quote_start(link.to))
        if self.want.footer and place + 1 not in self.want.no_footer and not found:
            yield Fault("links", self.describe_place(place), "a link to a source in the footer", "none")

    def iterate_footer_links(self, leaf: PageContent) -> Iterator[PageLink]:
        """Yield the links in the footer of a page, including addresses that are only text."""
        area = self.document.area
        top = area.bottom if area is not None else leaf.height * self.foot
        links = [each for each in leaf.links if (each.box.top + each.box.bottom) / 2 >= top]
        yield from (each for each in links if not each.to.casefold().startswith(_CONTACTS))
        low = [line for line in leaf.lines if (line.box.top + line.box.bottom) / 2 >= top]
        for at, line in enumerate(low):
            if any(line.box.intersect(each.box).area > 0 for each in links):
                continue
            following = low[at + 1].text if at + 1 < len(low) else ""
            for found in ADDRESS.finditer(line.text):
                yield PageLink(line.box, self.complete_address(line.text, found, following))

    def complete_address(self, text: str, found: re.Match[str], following: str) -> str:
        address = found[0].rstrip(".,;:)]")
        if found.end() < len(text.rstrip()) or not following:
            return address
        longer = found[0] + following.split()[0]
        return longer if any(leads_to(longer, source) for source in self.want.sources) else address


def _is_picture(leaf: PageContent, count: int) -> bool:
    covered = max((each.box.intersect(_get_page_box(leaf)).area for each in leaf.pictures), default=0.0)
    return count < _LEAST_LETTERS or (covered > MOSTLY * leaf.width * leaf.height and count < _LEAST_BESIDE)


def _get_page_box(leaf: PageContent) -> Box:
    return Box(0, 0, leaf.width, leaf.height)


def _count_letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _fold_text(text: str) -> str:
    """Normalize a text so that line breaks, ligatures and case do not matter."""
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


def is_local(to: str) -> bool:
    try:
        parts = urlsplit(to)
        host = (parts.hostname or "").casefold()
    except ValueError:
        return True
    return parts.scheme.casefold() in ("file", "javascript") or host in ("localhost", "127.0.0.1", "::1")


def leads_to(to: str, source: str) -> bool:
    found, listed = _normalize_url(to), _normalize_url(source)
    if found is None or listed is None:
        return False
    return found == listed or (found.startswith(listed) and (listed[-1] in "/?#&=" or found[len(listed)] in "/?#&"))


def _normalize_url(address: str) -> str | None:
    """Return an address without its scheme and with its host in lower case; `None` if it is not a web address."""
    full = address if "://" in address else f"https://{address}"
    try:
        parts = urlsplit(full)
    except ValueError:
        return None
    if parts.scheme.casefold() not in ("http", "https") or not parts.hostname:
        return None
    rest = full.split("://", 1)[1][len(parts.netloc) :]
    return (parts.netloc.casefold() + rest).rstrip("/")
