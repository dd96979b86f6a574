"""Tests of parsing messages to keys: errors never repeat the message."""

from __future__ import annotations

import pytest

from hotdesk.errors import BriefError
from hotdesk.keys.parse import parse_values


@pytest.mark.parametrize("told", ["%%%", "abc", "aGk", "a\u00e9==", "aGk=\n", "\ud800"])
def test_a_secret_that_is_not_base64_is_refused_without_repeating_it(told: str) -> None:
    with pytest.raises(BriefError, match="in base64") as refused:
        parse_values({"token": told})
    assert told not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("told", [None, [], "x", {"token": 1}, {"token": None}])
def test_secrets_are_reported_by_name(told: object) -> None:
    with pytest.raises(BriefError, match="object of names"):
        parse_values(told)


def test_secrets_are_read() -> None:
    assert parse_values({"token": "aGk=", "empty": ""}) == {"token": b"hi", "empty": b""}
