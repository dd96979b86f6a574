"""Finds active content in the tags and styles of a page or drawing, read as a browser reads them. Runs inside a clean
desk.

A tag may begin at any `<`, whatever surrounds it: in a comment, a script or an attribute. So no notation that programs
read differently hides a tag.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

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
    r"data:(?:[,;]|image/(?!svg)|font/|audio/|video/|application/(?:x-)?font|application/octet-stream|text/plain)|cid:",
    re.I,
)
"""Content inside the address itself, or in another part of the same message."""
FETCHED = re.compile(r"(?:https?|ftp|file):|[a-z][a-z0-9+.-]*:/|//", re.I)
CSS_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})(?:\r\n|[ \t\n\r\f])?|(\r\n|[\n\r\f])|(.))", re.S)
CSS_REMARK = re.compile(r"/\*.*?\*/", re.S)
CSS_FETCH = re.compile(r"(?:\burl\(|\bsrc\(|\bimage\(|@import\b)[\s\"'(]*([^\s\"'()<>;]{1,99})", re.I)
CSS_SET = re.compile(r"image-set\(", re.I)
CSS_STRING = re.compile(r"[\"']([^\"']{1,99})")
MAX_SET_CHARS = 4000
"""Maximum characters of a set of pictures that is searched."""
RESOURCE = "an external resource"


def inspect_tags(text: str, found: Found, where: str) -> None:
    for tag in TAG.finditer(text):
        name = tag[1].lower()
        for key, value in _iterate_attributes(text, tag.end()):
            if not value or not (key[:2] == "on" or key.rpartition(":")[2] in INSPECTED):
                continue
            for meant in {value, html.unescape(value)} if "&" in value else (value,):
                _inspect_attribute(name, key, meant, found, where)


def _iterate_attributes(text: str, at: int) -> Iterator[tuple[str, str]]:
    while match := ATTRIBUTE.match(text, at):
        at = match.end()
        value = match[2] if match[2] is not None else match[3] if match[3] is not None else match[4]
        yield match[1].lower(), value or ""


def _inspect_attribute(tag: str, key: str, value: str, found: Found, where: str) -> None:
    local = key.rpartition(":")[2]
    if HANDLER.fullmatch(key):
        found.add("scripts", where, f"an event handler: {key}={value[:60]}")
    if local == "href" and tag == "a":
        if leads_elsewhere(value) and not leads_to_page(value):
            found.add("external-references", where, f"a link that does not lead to a web page: {value[:80]}")
    elif local in FETCHING or local in MEANING:
        for part in value.split(LISTING.get(local, "\0")):
            if _fetches(part, sure=local in FETCHING):
                found.add("external-references", where, f"{RESOURCE}: {key}={part.strip()[:80]}")


def _fetches(target: str, *, sure: bool) -> bool:
    bare = strip_controls(target)
    return bool((ELSEWHERE if sure else FETCHED).match(bare)) and not CARRIED.match(bare)


def inspect_styles(text: str, found: Found, where: str) -> None:
    """Find addresses in style sheets and style attributes, written with or without escapes and remarks."""
    for one in dict.fromkeys((text, CSS_REMARK.sub("", text))):
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
