"""Tests of the text of a question at the door, and of answering it."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hotdesk.cli.jobs.approve import format_question, format_questions
from hotdesk.errors import BriefError
from hotdesk.event import Asked
from hotdesk.job.people.questions import PendingQuestion, select_question

ASKED = Asked(
    "i" + "a1b2" * 5, "1a2b3c4d", "f0" * 32, "GET xn--80ak6aa92e.com/x", "GET", "xn--80ak6aa92e.com", "/x", 41.6,
    "I need it",
)  # fmt: skip


def test_a_card_shows_facts_first_and_the_desks_words_last() -> None:
    assert format_question(ASKED).splitlines() == [
        "1a2b3c4d",
        "  domain  xn--80ak6aa92e.com",
        "  host    xn--80ak6aa92e.com",
        "  method  GET",
        "  path    /x",
        "  adds    GET xn--80ak6aa92e.com/x",
        "  digest  f0f0f0f0f0f0f0f0",
        f"  desk    {ASKED.desk}",
        "  left    42 s",
        '  the desk says (unchecked): "I need it"',
    ]


def test_a_desk_without_words_gets_no_line_for_them() -> None:
    assert "says" not in format_question(replace(ASKED, reason=""))


@pytest.mark.parametrize("field", ["method", "host", "path", "rule", "reason"])
def test_text_of_a_desk_adds_no_line_and_no_control_characters(field: str) -> None:
    hostile = Asked(**{**asdict(ASKED), field: 'x\n  host    good.test\r\x1b[2J\u202e"'})
    shown = format_question(hostile)
    assert len(shown.splitlines()) == len(format_question(ASKED).splitlines())
    assert all(character.isprintable() or character == "\n" for character in shown)


def test_a_desk_cannot_close_its_own_quotation() -> None:
    last = format_question(replace(ASKED, reason='ok" (checked by "root')).splitlines()[-1]
    assert last.count('"') == 2


def test_a_desks_words_are_bounded() -> None:
    assert format_question(replace(ASKED, reason="x" * 1000)).splitlines()[-1].count("x") == 300


@pytest.mark.parametrize(("size", "shown"), [(1234, "1,234"), (0, "0"), (-2, "unknown")])
def test_how_much_a_request_would_send_is_reported(size: int, shown: str) -> None:
    assert f"  bytes   {shown}" in format_question(replace(ASKED, size=size)).splitlines()


def test_omitted_parts_of_a_rule_are_reported() -> None:
    line = format_question(replace(ASKED, rule="GET a.test/" + "x" * 1000)).splitlines()[5]
    assert line.endswith("… and 511 more characters; `hotdesk approve --json` shows all")


def test_a_question_is_found_by_its_whole_id_and_digest() -> None:
    found = [PendingQuestion(Path("a"), ASKED), PendingQuestion(Path("b"), replace(ASKED, id="99999999"))]
    assert select_question(found, "1a2b3c4d").owner == Path("a")
    assert select_question(found, "1a2b3c4d", "f0f0").owner == Path("a")
    for number, digest in (("1a2b", ""), ("1a2b3c4d", "00"), ("", "")):
        with pytest.raises(BriefError, match="is pending"):
            select_question(found, number, digest)


def test_an_id_that_two_questions_have_answers_neither() -> None:
    with pytest.raises(BriefError, match="more than one request has the id"):
        select_question([PendingQuestion(Path("a"), ASKED), PendingQuestion(Path("b"), ASKED)], "1a2b3c4d")


def test_an_empty_list_says_so() -> None:
    assert format_questions([]) == "no request is pending"
    assert format_questions([PendingQuestion(Path("a"), ASKED)] * 2).count("1a2b3c4d") == 2
