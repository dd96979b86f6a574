"""Finds active content in the tags and styles of a page or drawing, read as a browser reads them. Runs inside a clean
desk.

A tag may begin at any `<`, whatever surrounds it: in a comment, a script or an attribute. So no notation that programs
read differently hides a tag.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterator
from urllib.parse import unquote

from hotdesk.checks.inside import active_kinds
from hotdesk.checks.inside.active_found import Found
from hotdesk.checks.inside.active_links import ELSEWHERE, leads_elsewhere, leads_to_page, strip_controls

BLANK = r"[\t\n\f\r ]"
TAG = re.compile(r"<([A-Za-z_:\u0080-\U0010ffff][^\s/>]*)")
ATTRIBUTE = re.compile(
    rf"(?:{BLANK}|/)*([^\t\n\f\r />][^\t\n\f\r />=]*)"
    rf"(?:{BLANK}*=(?:{BLANK}*(?:\"([^\"]*)\"|'([^']*)'|([^\t\n\f\r >]+)))?)?"
)
"""The next attribute of a tag: its name, and its value in one of three notations."""
HANDLER = re.compile(r"on[^\s:]*", re.I)
FETCHING = frozenset(
    """
    src srcset imagesrcset poster background formaction href ping lowsrc dynsrc codebase archive classid manifest
    """.split()
)
MEANING = frozenset(("action", "data", "to", "from", "by", "values"))
"""Attributes that fetch in some elements, and in data may have any text."""
INSPECTED = FETCHING | MEANING
LISTING = {"srcset": ",", "imagesrcset": ",", "ping": " ", "values": ";", "archive": " "}
CARRIED = re.compile(
    r"data:(?:[,;]|image/(?!svg)|font/|audio/|video/|application/(?:(?:x-)?font|octet-stream|json|vnd\.ms-fontobject)"
    r"|text/(?:plain|csv))|cid:",
    re.I,
)
"""Content inside the address itself, or in another part of the same message."""
STYLE_SHEET = re.compile(r"\s*data:text/css((?:;[\w=-]+)*),(.*)", re.I | re.S)
"""A style sheet inside an address: its parameters, and its text, which is inspected."""
ANY_BYTES = re.compile(r"data:application/octet-stream", re.I)
"""Content that a link may not carry: it can be a program."""
FETCHED = re.compile(r"(?:https?|ftp|file):|[a-z][a-z0-9+.-]*:/|//", re.I)
CSS_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})(?:\r\n|[ \t\n\r\f])?|(\r\n|[\n\r\f])|(.))", re.S)
CSS_REMARK = re.compile(r"/\*.*?\*/", re.S)
CSS_FETCH = re.compile(r"(?:\burl\(|\bsrc\(|\bimage\(|@import\b)[\s\"'(]*([^\s\"'()<>;]{1,99})", re.I)
CSS_SET = re.compile(r"image-set\(", re.I)
CSS_STRING = re.compile(r"[\"']([^\"']{1,99})")
MAX_SET_CHARS = 4000
"""Maximum characters of a set of pictures that is searched."""
RESOURCE = "an external resource"
MAX_REPEATED_CHARS = 1 << 20
"""Characters of tags inside other tags that are read again, besides as many as the text has."""


class TagInspection:
    """The inspection of one text's tags. A tag inside another is read again, up to a limit."""

    def __init__(self, text: str, found: Found, where: str, *, is_data: bool) -> None:
        self.text = text
        self.found = found
        self.where = where
        self.is_data = is_data
        """Whether the elements mean nothing to a browser, so that attributes fetch and start nothing by their names."""
        self.reached = 0
        """The end of what has been read."""
        self.remaining = len(text) + MAX_REPEATED_CHARS

    def inspect(self) -> None:
        for tag in TAG.finditer(self.text):
            if self.remaining < 0:
                self.found.add("unreadable", self.where, "too many tags inside other tags to inspect")
                return
            self.inspect_tag(tag[1].lower(), tag.end())

    def inspect_tag(self, name: str, at: int) -> None:
        saved: list[str] = []
        carries = False
        for key, value in self.iterate_attributes(at):
            if key == "download" and value:
                saved.append(html.unescape(value))
            carries |= key.rpartition(":")[2] == "href" and bool(CARRIED.match(strip_controls(html.unescape(value))))
            if not value or not (key[:2] == "on" or key.rpartition(":")[2] in INSPECTED):
                continue
            for meant in {value, html.unescape(value)} if "&" in value else (value,):
                self.inspect_attribute(name, key, meant)
        for each in saved if carries else ():
            if not active_kinds.is_inert_name(each):
                self.found.add("programs", self.where, f"a link that saves its content as a program: {each[:80]}")

    def iterate_attributes(self, at: int) -> Iterator[tuple[str, str]]:
        while self.remaining >= 0 and (match := ATTRIBUTE.match(self.text, at)):
            self.remaining -= max(0, min(match.end(), self.reached) - at)
            if match[4] is not None and match[4][0] in "\"'":  # the other quote was searched for to the end
                self.remaining -= len(self.text) - match.end()
            at = match.end()
            value = match[2] if match[2] is not None else match[3] if match[3] is not None else match[4]
            yield match[1].lower(), value or ""
        self.reached = max(self.reached, at)

    def inspect_attribute(self, tag: str, key: str, value: str) -> None:
        local = key.rpartition(":")[2]
        if HANDLER.fullmatch(key) and not self.is_data:
            self.found.add("scripts", self.where, f"an event handler: {key}={value[:60]}")
        if local == "href" and tag == "a":
            if leads_elsewhere(value) and not leads_to_page(value) and not _is_carried_by_link(value):
                what = f"a link that does not lead to a web page: {value[:80]}"
                self.found.add("external-references", self.where, what)
        elif local in FETCHING or (local in MEANING and not self.is_data):
            if local == "href" and (sheet := STYLE_SHEET.fullmatch(value)):
                inspect_styles(_decode_sheet(*sheet.groups()), self.found, self.where)
                return
            for part in value.split(LISTING.get(local, "\0")):
                if _fetches(part, sure=local in FETCHING and not self.is_data):
                    self.found.add("external-references", self.where, f"{RESOURCE}: {key}={part.strip()[:80]}")


def inspect_tags(text: str, found: Found, where: str, *, is_data: bool = False) -> None:
    TagInspection(text, found, where, is_data=is_data).inspect()


def _decode_sheet(parameters: str, data: str) -> str:
    """Return a style sheet, or an address that fails the inspection if it cannot be decoded."""
    plain = unquote(data)
    if "base64" not in parameters.lower():
        return plain
    try:
        return base64.b64decode("".join(plain.split()) + "==").decode()
    except ValueError:
        return "url(//unreadable)"


def _is_carried_by_link(target: str) -> bool:
    bare = strip_controls(target)
    return bool(CARRIED.match(bare)) and not ANY_BYTES.match(bare)


def _fetches(target: str, *, sure: bool) -> bool:
    bare = strip_controls(target)
    return bool((ELSEWHERE if sure else FETCHED).match(bare)) and not CARRIED.match(bare)


def inspect_styles(text: str, found: Found, where: str) -> None:
    """Find addresses in style sheets and style attributes, written with or without escapes and remarks."""
    closed = text.rfind("*/") + 2  # without it, each remark would be searched to the end of the text
    bare = CSS_REMARK.sub("", text[:closed]) + text[closed:] if closed > 1 else text
    for one in dict.fromkeys((text, bare)):
        for meant in dict.fromkeys((one, CSS_ESCAPE.sub(_decode_escape, one))):
            for match in CSS_FETCH.finditer(meant):
                _inspect_address(match[1], found, where)
            for each in CSS_SET.finditer(meant):
                end = meant.find(";", each.end(), each.end() + MAX_SET_CHARS)
                for match in CSS_STRING.finditer(meant, each.end(), end if end > 0 else each.end() + MAX_SET_CHARS):
                    _inspect_address(match[1], found, where)


def _inspect_address(target: str, found: Found, where: str) -> None:
    if _fetches(target, sure=True):
        found.add("external-references", where, f"{RESOURCE}: {target[:80]}")


def _decode_escape(match: re.Match[str]) -> str:
    if match[1]:
        number = int(match[1], 16)
        return chr(number) if 0 < number < 0x110000 else "\ufffd"
    return match[3] or ""
