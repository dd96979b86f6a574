"""Tests of the text of a decision about a job: facts first, the worker's words last."""

from __future__ import annotations

import pytest
from tests.ledger import JOB

from hotdesk.event import Pending
from hotdesk.job.people.approval_text import format_card
from hotdesk.job.people.wait import Card

PENDING = Pending(JOB, "1a2b3c4d", "amendment", "f0" * 32, "cd" * 32, 41_600, step="read")
CARD = Card(
    "one host more",
    {"host": "ap\u0440le.test", "method": "POST", "path": "/x", "bytes": "120", "adds": "POST apple.test/x"},
    ("1 read", "2 write"),
    "I need it",
)
HOSTILE = 'x\n  host      good.test\r\x1b[2J\u202e\u200b"'


def test_a_card_shows_facts_then_lines_and_the_workers_words_last() -> None:
    assert format_card(PENDING, CARD, 0).splitlines() == [
        "1a2b3c4d  one host more",
        "  kind      a change of the plan",
        "  step      read",
        "  domain    xn--aple-h6d.test",
        "  host      xn--aple-h6d.test",
        "  method    POST",
        "  path      /x",
        "  bytes     120",
        "  adds      POST apple.test/x",
        "  digest    f0f0f0f0f0f0f0f0",
        f"  job       {JOB}",
        "  time left 42 s, then refused",
        "  | 1 read",
        "  | 2 write",
        '  the worker says (unchecked): "I need it"',
    ]


@pytest.mark.parametrize(
    "card",
    [
        Card(HOSTILE, CARD.facts, CARD.lines, CARD.words),
        Card(CARD.title, {**CARD.facts, "path": HOSTILE}, CARD.lines, CARD.words),
        Card(CARD.title, {**CARD.facts, "host": HOSTILE}, CARD.lines, CARD.words),
        Card(CARD.title, CARD.facts, (HOSTILE, "2"), CARD.words),
        Card(CARD.title, CARD.facts, CARD.lines, HOSTILE),
    ],
)
def test_text_in_a_card_adds_no_line_and_no_control_characters(card: Card) -> None:
    shown = format_card(PENDING, card, 0)
    assert len(shown.splitlines()) == len(format_card(PENDING, CARD, 0).splitlines())
    assert all(character.isprintable() or character == "\n" for character in shown)


def test_a_workers_words_are_bounded_and_cannot_close_their_quotation() -> None:
    last = format_card(PENDING, Card("t", {}, words='ok" (checked by "root' + "\u202e" * 9999), 0).splitlines()[-1]
    assert last.startswith("  the worker says (unchecked): \"ok' (checked")
    assert last.count('"') == 2
    assert len(last) <= 4000 + len('  the worker says (unchecked): ""')


def test_omitted_lines_are_reported() -> None:
    shown = format_card(PENDING, Card("t", {"adds": "x" * 600}, ("l",) * 250), 0)
    assert "… and 100 more characters; `hotdesk approve --json` shows all" in shown
    assert shown.splitlines()[-1] == "  | … and 50 more lines; `hotdesk approve --json` shows all"


@pytest.mark.parametrize(
    ("now", "text"),
    [(-1000 * 600, "11 min, then refused"), (-86_400_000 * 3, "3 days, then refused"),
     (-3_600_000 * 4, "4 h, then refused"), (41_600, "none left; it counts as refused")],
)  # fmt: skip
def test_how_long_is_left_is_reported_as_people_count(now: int, text: str) -> None:
    assert f"  time left {text}" in format_card(PENDING, CARD, now).splitlines()


def test_a_card_that_is_gone_says_what_can_still_be_done() -> None:
    shown = format_card(PENDING, None, 0)
    assert shown.splitlines()[0] == "1a2b3c4d  the details of this request are missing, so it can only be refused"
    assert "  digest    f0f0f0f0f0f0f0f0" in shown
