"""Tests of denials: what a desk reads about a refused request."""

from __future__ import annotations

from hotdesk.door.denials import HOW_TO_ASK, NO_PERMISSION_MISSING, describe_denial


def test_a_denial_says_how_to_ask_only_where_a_permission_is_missing() -> None:
    assert describe_denial("GET https://a.test/", "no rule admits it", may_ask=True)["ask"] == HOW_TO_ASK
    assert "cannot request more access" in str(describe_denial("GET https://a.test/", "no rule admits it")["ask"])
    told = describe_denial("a request", "the Host header is missing", may_ask=True, remedy=NO_PERMISSION_MISSING)
    assert told["ask"] == NO_PERMISSION_MISSING
