"""The evidence of one item of a swarm: its record, and the content of its papers. All texts of a desk are bounded."""

from __future__ import annotations

from pydantic import Field

from hotdesk.api.native.jobs.stories import ARGUMENT, LONG, TITLE, cut_text
from hotdesk.api.native.schema import Model, clean
from hotdesk.event import ItemEnded, ItemReviewed
from hotdesk.job.report.paper_text import PaperReader

_MAX_ATTEMPTS, _MAX_ENTRIES, _MAX_FINDINGS = 10, 200, 40
_MAX_FILES = 20
_MAX_TEXT_BYTES = 64 << 10
"""Bytes of a file that are read for its excerpt."""


class ItemEntry(Model):
    """A reply or a tool call of an item's worker."""

    step: str
    tool: str = Field(description="The name of the tool; empty: `text` is what the worker said.")
    call: str = Field(description="The arguments of the tool call. Untrusted.")
    ok: bool
    text: str = Field(description="Untrusted.")


class ItemAttemptShown(Model):
    """One attempt at an item."""

    attempt: int
    desk: str
    failure: str = Field(
        description="Why another attempt followed; empty: this was the last attempt. Quotes the worker."
    )
    entries: list[ItemEntry]
    omitted: int = Field(description="The number of entries left out of this list.")


class ItemVerdict(Model):
    """The result of a check in a clean desk."""

    path: str
    check: str
    passed: bool
    findings: list[str]


class ItemFile(Model):
    """A file the worker made."""

    path: str
    size: int
    sha256: str
    text: str = Field(
        description="The beginning and end of the file. Untrusted. Empty: the file is not text, or is no longer stored."
    )


class ItemShown(Model):
    """How an item ended, with the evidence."""

    item: str
    index: int
    input: str = Field(description="SHA-256 of the item's content.")
    outcome: str
    cause: str
    why: str
    desk: str = Field(
        description="The desk where the item was processed; no other item used it. Empty: no desk was opened."
    )
    clean_desk: str = Field(description="The clean desk where its files were checked; empty: they were not checked.")
    checks: list[str] = Field(description="The checks that the item's files passed.")
    seconds: float
    dollars: float
    tokens: int
    acts: int
    review: str = Field(description="A person's verdict: right or wrong, and by whom; empty: not reviewed.")
    attempts: list[ItemAttemptShown]
    verdicts: list[ItemVerdict]
    files: list[ItemFile]


def describe_item(reading: PaperReader, record: ItemEnded, review: ItemReviewed | None) -> ItemShown:
    paper = reading.read_json(record.paper)
    return ItemShown(
        item=record.item,
        index=record.index,
        input=record.input,
        outcome=record.outcome,
        cause=clean(record.cause),
        why=cut_text(record.why, LONG),
        desk=record.desk,
        clean_desk=record.clean,
        checks=[cut_text(each, TITLE) for each in record.checks],
        seconds=record.ms / 1000,
        dollars=record.dollars,
        tokens=record.tokens,
        acts=record.acts,
        review=f"{review.verdict}, says {clean(review.by)}" if review is not None else "",
        attempts=[_describe_attempt(each) for each in _list_objects(paper.get("attempts"))[:_MAX_ATTEMPTS]],
        verdicts=[_parse_verdict(each) for each in _list_objects(paper.get("verdicts"))[:_MAX_ENTRIES]],
        files=_describe_files(reading, record),
    )


def list_files(record: ItemEnded) -> list[tuple[str, str]]:
    """List an item's files: each path, and the paper that holds its bytes."""
    return list(zip(record.paths, record.files, strict=False))


def _describe_files(reading: PaperReader, record: ItemEnded) -> list[ItemFile]:
    files = zip(list_files(record), record.sizes, record.digests, strict=False)
    return [
        ItemFile(path=clean(path), size=size, sha256=sha256, text=_read_excerpt(reading, paper))
        for (path, paper), size, sha256 in list(files)[:_MAX_FILES]
    ]


def _read_excerpt(reading: PaperReader, paper: str) -> str:
    data = (reading.read_data(paper) or b"")[:_MAX_TEXT_BYTES]
    try:
        return cut_text(data.decode(), ARGUMENT)
    except UnicodeDecodeError as e:
        is_cut = e.start > len(data) - 4  # the excerpt ends within a character
        return cut_text(data[: e.start].decode(), ARGUMENT) if is_cut else ""


def _describe_attempt(attempt: dict[str, object]) -> ItemAttemptShown:
    entries = _list_objects(attempt.get("entries"))
    number = attempt.get("attempt")
    return ItemAttemptShown(
        attempt=number if isinstance(number, int) else 0,
        desk=_get_text(attempt, "desk", TITLE),
        failure=_get_text(attempt, "failure", LONG),
        entries=[_parse_entry(each) for each in entries[:_MAX_ENTRIES]],
        omitted=max(0, len(entries) - _MAX_ENTRIES),
    )


def _parse_entry(entry: dict[str, object]) -> ItemEntry:
    return ItemEntry(
        step=_get_text(entry, "step", TITLE),
        tool=_get_text(entry, "tool", TITLE),
        call=_get_text(entry, "with", LONG),
        ok=entry.get("ok", True) is True,
        text=_get_text(entry, "text", LONG),
    )


def _parse_verdict(verdict: dict[str, object]) -> ItemVerdict:
    findings = verdict.get("findings")
    return ItemVerdict(
        path=_get_text(verdict, "path", TITLE),
        check=_get_text(verdict, "check", TITLE),
        passed=verdict.get("passed") is True,
        findings=[cut_text(str(each), LONG) for each in (findings if isinstance(findings, list) else [])][
            :_MAX_FINDINGS
        ],
    )


def _get_text(entry: dict[str, object], name: str, longest: int) -> str:
    return cut_text(str(entry.get(name) or ""), longest)


def _list_objects(value: object) -> list[dict[str, object]]:
    """Return the objects of a list; other values are left out."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
