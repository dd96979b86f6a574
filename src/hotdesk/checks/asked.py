"""What a deliverable must pass: what its brief asks for, and before that what is always looked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hotdesk.brief.job import Deliverable
from hotdesk.checks.active import NAME

CODE = ("program", "patch", "command")
"""Checks of what is code: that it is, is no fault."""
CODE_KINDS = ("patch", "diff", "program", "py", "sh", "pl", "rb", "js", "c", "rs", "go", "exe", "bin")


def checks_of(item: Deliverable) -> Sequence[tuple[str, Mapping[str, object]]]:
    """List what a deliverable must pass, with what each check expects; one without checks has no verdict at all."""
    wanted = [(each.check, each.expect) for each in item.checks if each.check != NAME or each.expect]
    return [(NAME, active(item)), *wanted] if item.checks else []


def active(item: Deliverable) -> Mapping[str, object]:
    """Say what a deliverable may do beyond being read."""
    code = item.kind in CODE_KINDS or any(each.check in CODE for each in item.checks)
    return {"allow": list(item.active), "code": code}
