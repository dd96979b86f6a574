"""Attacks on envd's parsers and tokens: by unknown callers and by programs inside a sandbox."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import pytest

from hotdesk.api.e2b.envd import connect, entries, signing
from hotdesk.api.e2b.responses import E2bError
from hotdesk.errors import LinkError
from tests.security.guards import Removal, falls_without

TOKEN = "0123456789abcdef" * 4
GOOD = signing.Signed("/home/user/f", "read", "user", "", "")
ENTRY = {
    "name": "f", "path": "/f", "permissions": "-rw-r--r--", "owner": "user", "group": "user", "size": 1, "mode": 0o644,
    "modified": 0, "kind": "file", "target": None, "metadata": {},
}  # fmt: skip


@dataclass(frozen=True)
class Holder:
    """Something that has an access token."""

    token: str


def signed(told: signing.Signed) -> signing.Signed:
    return replace(told, signature=told.compute_signature(TOKEN))


@falls_without(
    "envd's token",
    Removal(
        "envd/signing.py", "    if not hmac.compare_digest(shown.encode(), token.encode()):\n", "    if shown == '?':\n"
    ),
)
@pytest.mark.parametrize("shown", ["", TOKEN[:-1], TOKEN + "0", TOKEN.upper(), "ä"])
def test_a_token_of_something_else_gives_no_access(shown: str) -> None:
    with pytest.raises(E2bError, match="unauthorized"):
        signing.check_token(shown, TOKEN)


@falls_without(
    "the signature of an address",
    Removal("envd/signing.py", "    if not found:\n", "    found = found or list(holders)\n    if not found:\n"),
)
@pytest.mark.parametrize("change", [{"path": "/etc/x"}, {"act": "write"}, {"username": "root"}, {"expiration": "9"}])
def test_a_signature_is_valid_only_for_what_was_signed(change: dict[str, str]) -> None:
    assert signing.find(signed(GOOD), [Holder("another"), Holder(TOKEN)]).token == TOKEN
    with pytest.raises(E2bError, match="invalid signature"):
        signing.find(replace(signed(GOOD), **change), [Holder(TOKEN)])  # type: ignore[arg-type]


@falls_without("the signature of an address")
@falls_without("a token that is none", Removal("envd/signing.py", "return bool(token) and hmac", "return hmac"))
def test_an_empty_token_signs_nothing() -> None:
    with pytest.raises(E2bError, match="invalid signature"):
        signing.find(replace(GOOD, signature=GOOD.compute_signature("")), [Holder("")])


@falls_without(
    "the time of an address",
    Removal("envd/signing.py", "    if int(digits) < time.time():\n", "    if int(digits) < 0:\n"),
)
def test_an_expired_signed_address_gives_no_access() -> None:
    with pytest.raises(E2bError, match="already expired"):
        signing.find(signed(replace(GOOD, expiration=str(int(time.time()) - 5))), [Holder(TOKEN)])


@falls_without(
    "names without a colon",
    Removal("envd/signing.py", '    if ":" in signed.username:\n', '    if ":::" in signed.username:\n'),
)
def test_a_colon_does_not_move_the_boundary_of_a_signed_field() -> None:
    with pytest.raises(E2bError, match="must not contain a colon"):
        signing.read({"path": "/f", "username": "user:x", "signature": "v1_x"}, "read")


@falls_without(
    "wrong signatures are counted",
    Removal("envd/signing.py", "    if len(recent) >= MAX_FAILURES:\n", "    if len(recent) > MAX_FAILURES:\n"),
)
def test_a_caller_that_guesses_tokens_is_refused() -> None:
    tries = signing.Tries()
    for _ in range(signing.MAX_FAILURES):
        tries.check("127.0.0.1")
        tries.note("127.0.0.1")
    with pytest.raises(E2bError, match="too many"):
        tries.check("127.0.0.1")
    tries.check("127.0.0.2")


@falls_without(
    "the size of a message",
    Removal("envd/connect.py", "    if size > MAX_BYTES:\n", "    if size > MAX_BYTES << 20:\n"),
)
def test_an_oversized_message_is_refused_unread() -> None:
    with pytest.raises(connect.RpcError, match="more than"):
        connect.take(bytearray(b"\0\xff\xff\xff\xff"))


@falls_without(
    "descriptions are checked",
    Removal("envd/entries.py", "not all(isinstance(value.get(name), str) for name in TEXTS)", "False"),
    Removal("envd/entries.py", "    if type(size) is not int or type(mode) is not int or ", "    if "),
    Removal("envd/entries.py", "type(modified) is not int:\n", "modified is None:\n"),
    Removal("envd/entries.py", "    if not isinstance(value, dict):\n", "    if value is None:\n"),
)
@pytest.mark.parametrize("field", ["name", "path", "owner", "size", "mode", "modified", "metadata"])
def test_a_malformed_file_entry_is_refused(field: str) -> None:
    assert entries.as_entry(ENTRY)["name"] == "f"
    with pytest.raises(LinkError):
        entries.as_entry({**ENTRY, field: ["x"]})
