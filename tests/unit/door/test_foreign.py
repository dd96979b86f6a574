from __future__ import annotations

import pytest
from tests.outgoing import HOST, asks, basic, held, refused, send

from hotdesk.door.held import Refusal
from hotdesk.door.inject import Sent, plan


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (b"Authorization", b"Bearer mine"),
        (b"authorization", basic(b"me:mine")),
        (b"X-Api-Key", b"k"),
        (b"x_api_key", b"k"),
        (b"Private-Token", b"k"),
        (b"X-AMZ-Security-Token", b"k"),
        (b"X-Goog-Api-Key", b"k"),
        (b"X-Vault-Token", b"k"),
        (b"Cookie", b"session=mine"),
        (b"Proxy-Authorization", b"Basic eA=="),
    ],
)
def test_a_desk_brings_no_credentials_of_its_own_to_a_granted_host(header: bytes, text: bytes) -> None:
    refusal = refused(asks((header, text)), held())
    assert refusal.signs[0].what == "foreign"
    assert b"mine" not in refusal.reason.encode()
    assert refused(asks((header, text), scheme="http", port=80), held()).signs[0].what == "foreign"
    assert isinstance(send(asks((header, text)), held(foreign=True)), Sent)
    assert isinstance(send(asks((header, text), host="open.test"), held()), Sent)
    assert isinstance(plan(asks((header, text)), [], ours=[HOST]), Refusal)


@pytest.mark.parametrize(
    "name", [b"access_token", b"API-Key", b"apikey", b"key", b"token", b"sig", b"X-Amz-Signature", b"%6bey"]
)
def test_nor_in_the_query(name: bytes) -> None:
    assert refused(asks(query=b"page=1&" + name + b"=mine"), held()).signs[0].what == "foreign"
    assert isinstance(send(asks(query=b"page=1&keyword=tokens"), held()), Sent)
