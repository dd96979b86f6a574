"""Judges where a hyperlink leads: only web pages, mail addresses and telephone numbers are allowed. Runs inside a clean
desk."""

from __future__ import annotations

import re

PAGE = re.compile(r"https?:|mailto:|tel:|#", re.I)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.I)
"""An address with a scheme, or of another host; a browser reads `\\` as `/`."""
ARGUMENT = re.compile(r'\\[^\s"\\]|"((?:[^"\\]|\\.)*)"?|(\S+?)(?=[\s"]|\Z)', re.S)
"""A switch or an argument of a field's instruction."""
TAKING = frozenset(("\\l", "\\o", "\\t", "\\*", "\\@", "\\#"))
"""Switches that are followed by an argument. That of `\\l` is a place in a page or in the file itself."""
NAMED = re.compile(r"\s*HYPERLINK\b", re.I)
WRITTEN = re.compile(r"\bHYPERLINK\b", re.I)


def strip_controls(target: str) -> str:
    """Return an address without spaces and control characters, which programs drop, and with plain slashes."""
    return "".join(each for each in target if each > " ").replace("\\", "/")


def leads_to_page(target: str) -> bool:
    """Return whether a hyperlink leads to a web page, a mail address, a telephone number or a place in its own file.

    A path may be that of a program, and is refused.
    """
    return bool(PAGE.match(strip_controls(target)))


def leads_elsewhere(target: str) -> bool:
    """Return whether an address is not relative to its own file or page."""
    return bool(ELSEWHERE.match(strip_controls(target)))


def find_field_link(instruction: str, *, anywhere: bool = False) -> str:
    """Return the target of a HYPERLINK field that does not lead to a web page, or `""`.

    The name of a field begins its instruction; with `anywhere`, the instruction may hold text of several fields.
    """
    named = NAMED.match(instruction)
    for field in WRITTEN.finditer(instruction) if anywhere else (named,) if named else ():
        switch = ""
        for match in ARGUMENT.finditer(instruction, field.end()):
            if match[1] is None and match[2] is None:
                switch = match[0].lower()
                continue
            is_argument, switch = switch in TAKING, ""
            if not is_argument:
                target = match[1] if match[1] is not None else match[2]
                if not leads_to_page(target):
                    return target or "nothing"
                break
    return ""
