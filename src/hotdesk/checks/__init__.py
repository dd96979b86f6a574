"""Checks that decide whether a deliverable is a working file.

How it works: a `Check` (`seam.py`) has a program look at the file in a clean desk that holds nothing else and reaches
nothing, and judges on the host what that program told: bounded, typed JSON. The host opens no deliverable itself.
`find` gives a check by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module

from hotdesk.checks.seam import Check
from hotdesk.errors import BriefError

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
"""Checks by name, and what makes each from what a brief expects."""


def find(name: str, expect: Mapping[str, object]) -> Check:
    """Return a check; `BriefError` if it is unknown, or the expectations do not fit."""
    if name not in CHECKS:
        close = get_close_matches(name, CHECKS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise BriefError(f"unknown check {name!r}; the checks are {', '.join(sorted(CHECKS))}{hint}")
    module, _, path = CHECKS[name].partition(":")
    found: object = import_module(module)
    for attribute in path.split("."):
        found = getattr(found, attribute)
    make: Callable[[Mapping[str, object]], Check] = found  # type: ignore[assignment]
    return make(expect)
