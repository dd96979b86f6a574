"""The keys of a brief with an example of each, for error messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from hotdesk.brief.value import BriefValue

KEYS: Mapping[str, object] = {
    "goal": "Compare the invoices with the orders.",
    "inputs": ["invoices"],
    "deliverables": [{"path": "report.xlsx", "check": "xlsx"}],
    "egress": ["GET https://erp.example.test/orders/*"],
    "grants": ["erp-token@erp.example.test bearer"],
    "names": {"erp.example.test": "127.0.0.1:8443"},
    "image": "base",
    "seconds": 900,
    "look": "anthropic:MODEL",
    "approve": "plan",
    "tools": ["shell", "browser_*"],
    "wall": "container",
    "sensitive_wall": "gvisor",
    "size": {"cpus": 2, "memory": "2G", "disk": "16G"},
    "budget": {"tokens": 1000000, "dollars": 5, "acts": 500},
    "memory": "invoices",
    "models": {"plan": "anthropic:MODEL", "act": ["openai:MODEL"]},
    "wait": "2h",
    "each": {
        "over": "contracts/*.pdf", "key": "number", "batch": 1, "seconds": 300, "attempts": 2, "quarantine": 0.1,
        "tokens": 20000, "dollars": 0.05, "acts": 50,
    },
    "reduce": {
        "goal": "Build register.xlsx from the results.",
        "deliverables": [{"path": "register.xlsx"}],
        "image": "base",
        "seconds": 900,
    },
}  # fmt: skip


_TIME_SHAPE = re.compile(r"(?i).*(second|minute|hour|day|time|duration|deadline).*|secs?|mins?")
"""A name that someone gives to a limit of time."""
_TABLES = ("budget", "size", "models", "each", "reduce")


def explain_place(field: BriefValue, key: str) -> str:
    """Return a hint for the end of an error if a key belongs to another table, else `""`."""
    table = ".".join(str(part) for part in field.where[:-1])
    if not table:
        if key in ("secrets", "credentials"):
            place = "above the first line that begins with `[`, " if field.form == "toml" else ""
            return (
                f"; did you mean 'grants'? Write, {place}{format_example(field, 'grants')} (SECRET@HOST and its form)"
            )
        for name in _TABLES:
            if key in cast(Mapping[str, object], KEYS[name]):
                return f"; {key!r} is a field of {name}: write {format_example(field, f'{name}.{key}')}"
        return ""
    if table in ("each", "reduce") and key not in KEYS:
        return ""
    if table == "each" and key == "budget":
        return f"; limits of one item are fields of `each` itself: write {format_example(field, 'each.tokens')}"
    if key not in KEYS and not _TIME_SHAPE.fullmatch(key):
        return ""
    place = "above the first line that begins with `[`" if field.form == "toml" else "beside goal"
    if key not in KEYS:
        example = field.write("seconds", 600)
        return f"; the time limit of a job is the field seconds of the brief itself: write it {place}, as {example}"
    return f"; {key!r} is a field of the brief itself: write it {place}, as {format_example(field, key)}"


def format_example(field: BriefValue, key: str) -> str:
    """Format an example of a field, such as `size.memory`, in the brief's own language."""
    found: object = KEYS
    for part in key.split("."):
        found = cast(Mapping[str, object], found)[part]
    return field.write(key, found)
