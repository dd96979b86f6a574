"""What a deliverable must pass: what its brief asks for, and before that what is always looked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from hotdesk.brief.brief import Deliverable
from hotdesk.checks.active import NAME

CODE = ("program", "patch", "command")
"""Checks of what is code: that it is, is no fault."""
_CODE_KINDS = ("patch", "diff", "program", "py", "sh", "pl", "rb", "js", "c", "rs", "go", "exe", "bin")
OPENED = frozenset(
    """
    docx docm dotx dotm doc dot rtf xlsx xlsm xltx xltm xlsb xls xlt pptx pptm potx potm ppsx ppsm ppt pps pot
    odt ott odm ods ots odp otp odg otg fodt fods fodp fodg pdf
    """.split()
)
"""Suffixes of what people open with an office or a PDF viewer."""
DRAWN = ("docx", "pptx", "xlsx", "pdf")
"""Checks that draw the pages of a file themselves."""


def checks_of(item: Deliverable, *, office: bool = False) -> Sequence[tuple[str, Mapping[str, object]]]:
    """List what a deliverable must pass, with what each check expects; one without checks has no verdict at all.

    `office`: there is an office to open documents with.
    """
    others = [(each.check, each.expect) for each in item.checks if each.check != NAME or each.expect]
    return [(NAME, active(item, office=office)), *others] if item.checks else []


def active(item: Deliverable, *, office: bool) -> Mapping[str, object]:
    """Say what a deliverable may do beyond being read, and whether it is opened to see."""
    code = item.kind in _CODE_KINDS or any(each.check in CODE for each in item.checks)
    expect: dict[str, object] = {"allow": list(item.active), "code": code}
    if office and is_opened(item) and "encrypted" not in item.active:  # nobody here has its password
        expect |= {"open": True, "draw": not any(each.check in DRAWN for each in item.checks)}
    return expect


def is_opened(item: Deliverable) -> bool:
    """Say whether people open such a file with an office or a PDF viewer."""
    return bool({PurePosixPath(item.path).suffix.lstrip(".").lower(), item.kind.lower()} & OPENED)
