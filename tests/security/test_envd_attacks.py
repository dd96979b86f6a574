"""What a stranger, or a program inside, may try at envd: tokens, signatures, frames, descriptions."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import pytest

from hotdesk.api.e2b.envd import connect, entries, signing
from hotdesk.api.e2b.responses import ErrorResponse
from hotdesk.errors import LinkError

TOKEN = "0123456789abcdef" * 4
GOOD = signing.Signed("/home/user/f", "read", "user", "", "")
ENTRY = {
    "name": "f", "path": "/f", "permissions": "-rw-r--r--", "owner": "user", "group": "user", "size": 1, "mode": 0o644,
    "modified": 0, "kind": "file", "target": None, "metadata": {},
}  # fmt: skip


@dataclass(frozen=True)
class Holder:
    """Something with a token."""

    token: str


def signed(told: signing.Signed) -> signing.Signed:
    """Sign something with the token."""
    return replace(told, signature=told.by(TOKEN))


@pytest.mark.parametrize("shown", ["", TOKEN[:-1], TOKEN + "0", TOKEN.upper(), "ä"])
def test_a_token_that_is_not_the_sandboxes_opens_nothing(shown: str) -> None:
    with pytest.raises(ErrorResponse, match="unauthorized"):
        signing.check_token(shown, TOKEN)


@pytest.mark.parametrize("change", [{"path": "/etc/x"}, {"act": "write"}, {"username": "root"}, {"expiration": "9"}])
def test_a_signature_opens_only_what_was_signed(change: dict[str, str]) -> None:
    assert signing.find(signed(GOOD), [Holder("another"), Holder(TOKEN)]).token == TOKEN
    with pytest.raises(ErrorResponse, match="invalid signature"):
        signing.find(replace(signed(GOOD), **change), [Holder(TOKEN)])  # type: ignore[arg-type]


def test_an_empty_token_signs_nothing() -> None:
    with pytest.raises(ErrorResponse, match="invalid signature"):
        signing.find(replace(GOOD, signature=GOOD.by("")), [Holder("")])


def test_an_address_that_expired_opens_nothing() -> None:
    with pytest.raises(ErrorResponse, match="already expired"):
        signing.find(signed(replace(GOOD, expiration=str(int(time.time()) - 5))), [Holder(TOKEN)])


def test_a_colon_cannot_move_where_a_signed_field_ends() -> None:
    with pytest.raises(ErrorResponse, match="no colon"):
        signing.read({"path": "/f", "username": "user:x", "signature": "v1_x"}, "read")


def test_an_address_that_guesses_is_refused() -> None:
    tries = signing.Tries()
    for _ in range(signing.TRIES):
        tries.check("127.0.0.1")
        tries.note("127.0.0.1")
    with pytest.raises(ErrorResponse, match="too many"):
        tries.check("127.0.0.1")
    tries.check("127.0.0.2")


def test_a_message_without_end_is_not_held() -> None:
    with pytest.raises(connect.RpcError, match="more than"):
        connect.take(bytearray(b"\0\xff\xff\xff\xff"))


@pytest.mark.parametrize("field", ["name", "path", "owner", "size", "mode", "modified", "metadata"])
def test_a_description_that_makes_no_sense_is_refused(field: str) -> None:
    assert entries.as_entry(ENTRY)["name"] == "f"
    with pytest.raises(LinkError):
        entries.as_entry({**ENTRY, field: ["x"]})
