"""Names and versions of files in the drive: `reports/june.xlsx@3`."""

from __future__ import annotations

import re
import unicodedata

from hotdesk.errors import BriefError, make_printable

_MAX_NAME_LENGTH = 1024
"""Maximum characters of a name."""
_LONGEST_PART = 255
"""Maximum bytes of one part of a name, the limit of common file systems."""
DEEPEST = 32
"""Maximum number of parts of a name."""
SHOWN = 80
REFERENCE = re.compile(r"(.*?)(?:@([1-9][0-9]{0,8}))?", re.DOTALL)


def check_name(name: str) -> str:
    """Return a valid name; raise `BriefError` for one that could leave a folder or be displayed ambiguously."""
    if why := describe_fault(name):
        raise BriefError(f"{format_name(name)!r} is not a valid drive name: {why}; write it like 'reports/june.xlsx'")
    return name


def describe_fault(name: str) -> str:
    """Return what is wrong with a name, or an empty string if it is valid."""
    parts = name.split("/")
    if len(name) > _MAX_NAME_LENGTH or len(parts) > DEEPEST:
        return f"it has more than {_MAX_NAME_LENGTH} characters, or more than {DEEPEST} parts between slashes"
    if make_printable(name) != name or unicodedata.normalize("NFC", name) != name:
        return "it has invisible characters, or characters that are not in Unicode form NFC"
    if any(part in ("", ".", "..") or part != part.strip() for part in parts):
        return "a part between slashes is empty, `.` or `..`, or starts or ends with a space"
    if any(len(part.encode()) > _LONGEST_PART for part in parts):
        return f"a part between slashes has more than {_LONGEST_PART} bytes"
    if split(name)[1] is not None:
        return "a name must not end with @ and a number, which selects a version"
    return ""


def parse_reference(text: str) -> tuple[str, int | None]:
    name, number = split(text)
    return check_name(name), number


def split(text: str) -> tuple[str, int | None]:
    found = REFERENCE.fullmatch(text)
    assert found is not None
    return found[1], int(found[2]) if found[2] else None


def format_name(name: str) -> str:
    return make_printable(name[:SHOWN]) + ("…" if len(name) > SHOWN else "")
