"""Tests of events as sentences for people."""

from __future__ import annotations

import pytest

from hotdesk.event import Alarm
from hotdesk.job.event_text import describe_alarm


@pytest.mark.parametrize(
    ("alarm", "text"),
    [
        (
            Alarm("i1", "placeholder", "erp-token", "evil.test", "why"),
            "the door refused a request to evil.test that had the placeholder of the secret erp-token: why",
        ),
        (
            Alarm("i1", "leak", "erp-token", "erp.test"),
            "erp.test returned the secret erp-token, so its grant was revoked",
        ),
        (
            Alarm("i1", "foreign", "", "erp.test", "why"),
            "the door refused a request to erp.test that had a credential of the desk's own: why",
        ),
    ],
)
def test_an_alarm_is_a_sentence_with_its_note(alarm: Alarm, text: str) -> None:
    assert describe_alarm(alarm) == text
