"""The checks a deliverable must pass: those of its brief, and those that always run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from hotdesk.brief.brief import Deliverable
from hotdesk.checks import find
from hotdesk.checks.active import NAME, REACHING
from hotdesk.checks.active_requirements import describe_active

CODE = ("program", "patch", "command")
"""Checks of program code, to which the rule against programs does not apply."""
_CODE_KINDS = ("patch", "diff", "program", "py", "sh", "pl", "rb", "js", "c", "rs", "go", "exe", "bin")
OPENED = frozenset(
    """
    docx docm dotx dotm doc dot rtf xlsx xlsm xltx xltm xlsb xls xlt pptx pptm potx potm ppsx ppsm ppt pps pot
    odt ott odm ods ots odp otp odg otg fodt fods fodp fodg pdf
    """.split()
)
"""Suffixes of files that people open with an office program or a PDF viewer."""
DRAWN = ("docx", "pptx", "xlsx", "pdf")
"""Checks that render the pages of a file themselves."""


def list_checks(item: Deliverable, *, office: bool = False) -> Sequence[tuple[str, Mapping[str, object]]]:
    """List the checks of a deliverable with their options; none if its brief has no checks.

    Pass `office` if an office suite is available to open documents.
    """
    others = [(each.check, each.expect) for each in item.checks if each.check != NAME or each.expect]
    return [(NAME, _build_active_expectation(item, office=office)), *others] if item.checks else []


def _build_active_expectation(item: Deliverable, *, office: bool) -> Mapping[str, object]:
    expect: dict[str, object] = {"allow": list(list_allowed(item)), "code": _is_code(item)}
    if office and is_opened(item) and "encrypted" not in item.active:  # its password is unknown
        expect |= {"open": True, "draw": not any(each.check in DRAWN for each in item.checks)}
    return expect


def list_allowed(item: Deliverable) -> tuple[str, ...]:
    """List the active content that a brief allows: what it names, and formulas if its check of a table allows them."""
    calculated = any(each.check == "csv" and each.expect.get("formulas") is True for each in item.checks)
    return (*item.active, *(["formulas"] if calculated and "formulas" not in item.active else []))


def describe_deliverable(item: Deliverable) -> str:
    """Describe a deliverable and its requirements: a line with its path and checks, then one line per requirement.

    The planner, the critic and the worker get the same text before the work begins.
    """
    names = ", ".join(dict.fromkeys(each.check for each in item.checks))
    head = f"{item.path} ({names or 'no check'})"
    return "\n".join([head, *(f"  - {sentence}" for sentence in list_requirements(item))])


def list_requirements(item: Deliverable) -> tuple[str, ...]:
    """List the requirements of every check, the permanent ones last; none if the deliverable has no checks."""
    if not item.checks:
        return ()
    requested = [find(each.check, each.expect).requirements for each in item.checks if each.check != NAME]
    suffix = PurePosixPath(item.path).suffix.lstrip(".").lower() or item.kind.lower()
    opened = is_opened(item) and "encrypted" not in item.active and not REACHING & set(item.active)
    always = describe_active(suffix, list_allowed(item), code=_is_code(item), opened=opened)
    return tuple(dict.fromkeys([*(sentence for each in requested for sentence in each), *always]))


def _is_code(item: Deliverable) -> bool:
    return item.kind in _CODE_KINDS or any(each.check in CODE for each in item.checks)


def is_opened(item: Deliverable) -> bool:
    return bool({PurePosixPath(item.path).suffix.lstrip(".").lower(), item.kind.lower()} & OPENED)
