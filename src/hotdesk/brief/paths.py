"""Paths and queries in one canonical form, and the globs they are matched with.

Each function raises `ValueError` with a reason that completes the sentence "the path …" or "the query …".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias
from urllib.parse import unquote_plus, unquote_to_bytes

from hotdesk.brief.remedy import RemedyError

PATH_SHAPE = re.compile(r"/(?:[A-Za-z0-9._~!$&'()*+,;=:@\[\]|{}^/-]|%[0-9A-Fa-f]{2})*")
_QUERY_SHAPE = re.compile(r"[!\"$-~]*")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
PERCENT = re.compile("%([0-9A-Fa-f]{2})")
_BROKEN_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
TWICE = re.compile("%25[0-9A-Fa-f]{2}")
DOTS = re.compile(r"/ *\.{1,2} *(?:[;/]|$)")
"""A segment that some servers treat as `.` or `..`, also with parameters, as in `/..;/`."""
_ENCODED_SLASH = "\0"
"""Stands for a `%2F` that is read as part of a segment."""
SEPARATOR = re.compile("[&;]")
LONGEST_GLOB = 1024

Reader: TypeAlias = Callable[[str], str]


def canonicalize_path(text: str) -> str:
    """Return a path in the form in which it is judged and sent; refuse an ambiguous one."""
    if not PATH_SHAPE.fullmatch(text):
        raise ValueError("does not start with `/`, or has a character that must be written as %XX")
    path = PERCENT.sub(_canonicalize_escape, text) if "%" in text else text
    if TWICE.search(path):
        raise ValueError("is percent-encoded twice; encode every character once")
    for reading in list_readings(path):
        if "//" in reading or DOTS.search(reading):
            raise RemedyError("has an empty, `.` or `..` segment; remove that segment")
    return path


def _canonicalize_escape(found: re.Match[str]) -> str:
    code = int(found[1], 16)
    if code in _UNRESERVED:
        return chr(code)
    if code < 0x20 or code in b"\x7f\\":
        raise RemedyError("has a control character or a backslash; remove that character")
    return found[0].upper()


def list_readings(path: str) -> tuple[str, ...]:
    """Decode a canonical path. One with `%2F` has two readings, because some servers treat it as a slash."""
    if "%" not in path:
        return (path,)
    try:
        whole, split = (unquote_to_bytes(path.replace("%2F", slash)).decode() for slash in (_ENCODED_SLASH, "/"))
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 after percent-decoding") from None
    return (whole,) if whole == split else (whole, split)


def canonicalize_glob(text: str) -> str:
    """Return a path glob in canonical form: `*` within a segment, `**` as a whole segment."""
    if len(text) > LONGEST_GLOB:
        raise ValueError(f"is longer than {LONGEST_GLOB} characters")
    glob = canonicalize_path(text)
    if any("**" in segment and segment != "**" for segment in glob.split("/")):
        raise RemedyError("has a `**` that is not a whole segment; write it like `/data/**`")
    return glob


def compile_glob(glob: str) -> re.Pattern[str]:
    """Compile a path glob to a regular expression that takes linear time on any input."""
    groups: list[list[str]] = [[]]
    for segment in glob[1:].split("/"):
        if segment == "**":
            groups.append([])
        else:
            groups[-1].append(_build_segment_pattern(segment))
    first, *rest = groups
    if not rest:
        return re.compile("/" + "/".join(first), re.DOTALL)
    *middle, last = rest
    pattern = "/" + "".join(f"{each}/" for each in first)
    # A segment is matched whole or not at all, so the first place a group fits is as good as any later one.
    pattern += "".join(f"(?>(?:[^/]+/)+?{''.join(f'{each}/' for each in group)})" for group in middle)
    pattern += f"(?>(?:[^/]+/)+?{'/'.join(last)}\\Z)" if last else ".*"
    return re.compile(pattern, re.DOTALL)


def _build_segment_pattern(segment: str) -> str:
    return _build_glob_pattern(segment, "[^/]", _build_literal_pattern)


def compile_value(glob: str) -> re.Pattern[str]:
    return re.compile(
        _build_glob_pattern(glob, ".", lambda text: re.escape(unquote_plus(text, errors="strict"))), re.DOTALL
    )


def _build_glob_pattern(glob: str, one: str, write: Callable[[str], str]) -> str:
    """Write a glob as a regular expression; the text between two stars matches where it first fits."""
    first, *rest = glob.split("*")
    if not rest:
        return write(first)
    *middle, last = rest
    return write(first) + "".join(f"(?>{one}*?{write(each)})" for each in middle) + f"{one}*{write(last)}"


def _build_literal_pattern(text: str) -> str:
    """Write literal path text as a regular expression; `%2F` in a rule matches both readings."""
    return f"[{_ENCODED_SLASH}/]".join(re.escape(unquote_to_bytes(part).decode()) for part in text.split("%2F"))


def check_query(text: str) -> str:
    if not _QUERY_SHAPE.fullmatch(text):
        raise ValueError("has a character that must be written as %XX")
    return text


def split_query(query: str) -> tuple[tuple[str, str], ...] | None:
    """Split a query into names and values; return `None` if servers could split it differently."""
    if ";" in query or _BROKEN_PERCENT.search(query):
        return None
    try:
        pairs = (part.partition("=") for part in query.split("&") if part)
        return tuple((unquote_plus(n, errors="strict"), unquote_plus(v, errors="strict")) for n, _, v in pairs)
    except UnicodeDecodeError:
        return None


def list_query_names(query: str) -> tuple[str, ...]:
    """Return every parameter name that some server could read in a query."""
    return tuple(unquote_plus(part.partition("=")[0]) for part in SEPARATOR.split(query) if part)
