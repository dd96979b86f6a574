"""Whether a deliverable is a working file.

How it works: a `Check` (`seam.py`) has a program look at the file in a clean desk that holds nothing else and reaches
nothing, and judges on the host what that program told: bounded, typed JSON. The host opens no deliverable itself.
`find` gives a check by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from hotdesk.checks.seam import Check
from hotdesk.errors import BriefError

CHECKS = {
    "docx": "hotdesk.checks.pages.docx:DocxCheck.expecting",
    "pdf": "hotdesk.checks.pages.pdf:PdfCheck.expecting",
    "pptx": "hotdesk.checks.pages.pptx:PptxCheck.expecting",
    "active-content": "hotdesk.checks.active:ActiveCheck.expecting",
    "command": "hotdesk.checks.command:CommandCheck.expecting",
    "csv": "hotdesk.checks.csv:CsvCheck.expecting",
    "custom": "hotdesk.checks.custom:CustomCheck.expecting",
    "json": "hotdesk.checks.json:JsonCheck.expecting",
    "patch": "hotdesk.checks.patch:PatchCheck.expecting",
    "png": "hotdesk.checks.png:PngCheck.expecting",
    "program": "hotdesk.checks.program:ProgramCheck.expecting",
    "zip": "hotdesk.checks.zip:ZipCheck.expecting",
    "sheet": "hotdesk.checks.sheet:SheetCheck.expecting",
    "xlsx": "hotdesk.checks.xlsx.check:XlsxCheck.expecting",
}
"""Checks by name, and what makes each from what a brief expects."""


def find(name: str, expect: Mapping[str, object]) -> Check:
    """Give a check; `BriefError` when there is none, or it cannot expect that."""
    if name not in CHECKS:
        raise BriefError(f"there is no check {name!r}; there are {', '.join(sorted(CHECKS))}")
    module, _, path = CHECKS[name].partition(":")
    found: object = import_module(module)
    for attribute in path.split("."):
        found = getattr(found, attribute)
    make: Callable[[Mapping[str, object]], Check] = found  # type: ignore[assignment]
    return make(expect)
