"""Tests of how hostile text is shown to people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotdesk.errors import make_printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, ümläute, 日本語, 🙂", "plain text, ümläute, 日本語, 🙂"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x9b31m", r"\x9b31m"),
        ("line\nbreak\ttab\r", r"line\nbreak\ttab\r"),
        ("\u202etxt.exe", r"\u202etxt.exe"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("no\u00a0break", r"no\xa0break"),
        ("filler\u3164\u115f\uffa0\u2800", r"filler\u3164\u115f\uffa0\u2800"),
        ("selector\ufe0f\U000e0101", r"selector\ufe0f\U000e0101"),
        ("lone \udc80", r"lone \udc80"),
        ("", ""),
    ],
)
def test_control_and_invisible_characters_are_escaped(text: str, shown: str) -> None:
    assert make_printable(text) == shown


@pytest.mark.slow
@given(st.text(st.characters(codec=None)))
def test_shown_text_is_one_line_of_visible_characters(text: str) -> None:
    assert make_printable(text).isprintable()
