"""A random sample of finished items, each shown next to its source for a person's verdict: right or wrong."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from hotdesk.errors import make_printable
from hotdesk.event import ItemEnded
from hotdesk.job.people.wait import Card

_MAX_LINES = 40
_MAX_LINE_CHARS = 300
_MAX_QUOTED_BYTES = 1 << 16


def choose_sample(records: Iterable[ItemEnded], count: int, job: str) -> list[ItemEnded]:
    """Choose a random sample that is the same after a resume. It depends on the swarm's id, which no desk knows."""
    done = [each for each in records if each.outcome == "done"]
    return sorted(done, key=lambda each: hashlib.sha256(f"{job} {each.item}".encode()).digest())[:count]


def make_review_card(record: ItemEnded, source: str, files: dict[str, bytes]) -> Card:
    """Make the review card of one item: the place of its source, and the quoted deliverables."""
    facts = {
        "item": record.item,
        "source": source,
        "sha256 of the source": record.input,
        "checks passed": ", ".join(record.checks),
        "answer": "approve: the result is right; refuse: the result is wrong",
    }
    lines = [line for name, data in files.items() for line in _quote(name, data)]
    subject = json.dumps({"review": record.item, "input": record.input, "digests": list(record.digests)})
    return Card(f"Is the result of {record.item} right?", facts, tuple(lines[:_MAX_LINES]), "", subject)


def _quote(name: str, data: bytes) -> list[str]:
    """Return the lines of a deliverable, marked as the worker's text; JSON is split so that each claim has its line."""
    text = data[:_MAX_QUOTED_BYTES].decode("utf-8", "replace")
    for sign in ("}, {", "},{", "], ["):
        text = text.replace(sign, f"{sign[0]},\n{sign[-1]}")
    return [make_printable(f"{name} > {line}")[:_MAX_LINE_CHARS] for line in text.splitlines()]
