"""A plan as editable text, and back. The edited text is what is approved."""

from __future__ import annotations

import difflib

from hotdesk.plan import as_text, from_json, parse_text, to_json


def as_draft(subject: str) -> str:
    return as_text(from_json(subject))


def from_draft(text: str) -> str:
    """Parse an edited plan, with all of its fields; raise `BriefError` if it is invalid."""
    return to_json(parse_text(text))


def list_differing_lines(before: str, after: str) -> list[str]:
    return list(difflib.unified_diff(before.splitlines(), after.splitlines(), "asked", "edited", lineterm="", n=2))
