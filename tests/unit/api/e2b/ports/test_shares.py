"""Tests of share link tokens: signed, for one port, with an expiry."""

from __future__ import annotations

from typing import Any

import pytest

from hotdesk.api.e2b.ports import shares
from hotdesk.api.e2b.ports.shares import Share

KEY, SANDBOX = shares.derive_key("secret"), "i" + "a" * 20
SHARE = Share("0123456789ab", 8000, 2_000_000_000)
NOW = 1_999_999_999.0


def scope(query: bytes = b"", path: bytes = b"/", *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http", "query_string": query, "raw_path": path, "headers": list(headers), "method": "GET"}


def test_a_token_is_valid_for_one_port_of_one_sandbox_until_it_expires() -> None:
    token = shares.sign(KEY, SANDBOX, SHARE)
    assert shares.verify(KEY, SANDBOX, 8000, token, NOW) == SHARE
    assert shares.verify(KEY, SANDBOX, 8000, token, SHARE.expires) is None
    assert shares.verify(KEY, SANDBOX, 8001, token, NOW) is None
    assert shares.verify(KEY, "i" + "b" * 20, 8000, token, NOW) is None
    assert shares.verify(shares.derive_key("other"), SANDBOX, 8000, token, NOW) is None


@pytest.mark.parametrize(
    ("old", "new"), [("8000", "8001"), ("2000000000", "2000000009"), ("0123456789ab", "0123456789ac"), (".", "..")]
)
def test_a_changed_token_is_invalid(old: str, new: str) -> None:
    changed = shares.sign(KEY, SANDBOX, SHARE).replace(old, new, 1)
    assert [shares.verify(KEY, SANDBOX, port, changed, NOW) for port in (8000, 8001)] == [None, None]


@pytest.mark.parametrize("token", ["", "x", "a" * 5000, "0123456789ab.8000.2000000000.", "\u0660" * 12])
def test_a_malformed_token_is_invalid(token: str) -> None:
    assert shares.verify(KEY, SANDBOX, 8000, token, NOW) is None


def test_a_token_is_found_in_header_cookie_and_address() -> None:
    found = shares.list_tokens(
        scope(b"a=1&hotdesk-share=three", b"/", (b"hotdesk-share", b"one"), (b"cookie", b"x=y; hotdesk-share=two"))
    )
    assert found == ["one", "two", "three"]
    assert shares.list_tokens(scope(b"", b"/", (b"cookie", b"__Host-hotdesk-share=four"))) == ["four"]


def test_a_token_is_found_after_any_number_of_parameters() -> None:
    assert shares.find_query_token(scope(b"a=1&" * 5000 + b"hotdesk-share=t%2e")) == "t."
    assert shares.find_query_token(scope(b"a=1&" * 5000)) == ""


def test_a_token_that_would_not_be_removed_from_the_address_gives_no_access() -> None:
    query = b"hotdesk%2Dshare=t"
    assert shares.strip_query(query) == query
    assert shares.list_tokens(scope(query)) == []


@pytest.mark.parametrize(
    ("query", "rest"),
    [(b"hotdesk-share=t", b""), (b"a=1&hotdesk-share=t", b"a=1"), (b"hotdesk-share=t&a=1", b"a=1"),
     (b"a=1&hotdesk-share=t&b=%20", b"a=1&b=%20"), (b"xhotdesk-share=t", b"xhotdesk-share=t"), (b"", b"")],
)  # fmt: skip
def test_no_program_inside_receives_the_token(query: bytes, rest: bytes) -> None:
    assert shares.strip_query(query) == rest


@pytest.mark.parametrize("path", [b"//evil.test/x", b"/\\evil.test", b"///evil.test"])
def test_a_redirect_never_leads_to_another_host(path: bytes) -> None:
    assert shares.clean_address(scope(b"hotdesk-share=t", path)).startswith("/evil.test")


def test_a_cookie_lasts_as_long_as_its_link() -> None:
    cookie = shares.build_cookie("t", SHARE, tls=True, now=SHARE.expires - 60)
    assert cookie == "__Host-hotdesk-share=t; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure"
    assert "Secure" not in shares.build_cookie("t", SHARE, tls=False, now=0)
