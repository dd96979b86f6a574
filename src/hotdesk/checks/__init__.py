"""Checks that decide whether a deliverable is a working file.

A `Check` (`seam.py`) has a program inspect the file in a clean desk without other files and network access, and judges
that program's report, which is bounded and typed JSON, on the host. The host never opens a deliverable itself. `find`
returns a check by its name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module

from hotdesk.brief.brief import locate_input
from hotdesk.checks.seam import Check
from hotdesk.errors import BriefError, make_printable

CHECKS = {
    "docx": "hotdesk.checks.pages.docx:DocxCheck.from_expect",
    "pdf": "hotdesk.checks.pages.pdf:PdfCheck.from_expect",
    "pptx": "hotdesk.checks.pages.pptx:PptxCheck.from_expect",
    "active-content": "hotdesk.checks.active:ActiveCheck.from_expect",
    "command": "hotdesk.checks.command:CommandCheck.from_expect",
    "csv": "hotdesk.checks.csv:CsvCheck.from_expect",
    "custom": "hotdesk.checks.custom:CustomCheck.from_expect",
    "json": "hotdesk.checks.json:JsonCheck.from_expect",
    "patch": "hotdesk.checks.patch:PatchCheck.from_expect",
    "png": "hotdesk.checks.png:PngCheck.from_expect",
    "quotes": "hotdesk.checks.quotes:QuotesCheck.from_expect",
    "program": "hotdesk.checks.program:ProgramCheck.from_expect",
    "zip": "hotdesk.checks.zip:ZipCheck.from_expect",
    "sheet": "hotdesk.checks.sheet:SheetCheck.from_expect",
    "xlsx": "hotdesk.checks.xlsx.check:XlsxCheck.from_expect",
}
"""The function that builds each check from a brief's options, by the check's name."""


def find(name: str, expect: Mapping[str, object]) -> Check:
    """Return a check; raise `BriefError` if its name is unknown or its options are invalid."""
    if name not in CHECKS:
        close = get_close_matches(name, CHECKS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise BriefError(f"unknown check {name!r}; the checks are {', '.join(sorted(CHECKS))}{hint}")
    module, _, path = CHECKS[name].partition(":")
    found: object = import_module(module)
    for attribute in path.split("."):
        found = getattr(found, attribute)
    make: Callable[[Mapping[str, object]], Check] = found  # type: ignore[assignment]
    check = make(expect)
    require_distinct_inputs(check.beside)
    return check


def require_distinct_inputs(names: Iterable[str]) -> None:
    """Raise `BriefError` if two extra inputs of a check would get the same path in the clean desk."""
    by_path: dict[str, str] = {}
    for name in dict.fromkeys(names):
        path = posixpath.normpath(locate_input(name))
        if path in by_path:
            one, other = make_printable(by_path[path]), make_printable(name)
            raise BriefError(
                f"the inputs {one!r} and {other!r} of a check would have the same path in the clean desk; rename one"
            )
        by_path[path] = name
