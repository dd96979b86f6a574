from __future__ import annotations

from dataclasses import replace

import pytest
from tests.outgoing import HOST, P, asks, basic, held, refused, send, sent

from hotdesk.door.grant import Refusal
from hotdesk.door.secrets.credential_fields import REACH, FieldWatch
from hotdesk.door.secrets.foreign_credentials import AllowedCredentials, is_credential
from hotdesk.door.secrets.inject import OutgoingRequest, plan_injection


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
        (b"X-Of-Nobody-We-Know-Token", b"k"),
        (b"Cookie", b"session=mine"),
        (b"Proxy-Authorization", b"Basic eA=="),
    ],
)
def test_a_desk_cannot_use_credentials_of_its_own_at_a_granted_host(header: bytes, text: bytes) -> None:
    refusal = refused(asks((header, text)), held())
    assert refusal.signs[0].what == "foreign"
    assert b"mine" not in refusal.reason.encode()
    assert refused(asks((header, text), scheme="http", port=80), held()).signs[0].what == "foreign"
    assert isinstance(send(asks((header, text)), held(foreign=True)), OutgoingRequest)
    assert isinstance(send(asks((header, text), host="open.test"), held()), OutgoingRequest)
    assert isinstance(plan_injection(asks((header, text)), [], ours=[HOST]), Refusal)


@pytest.mark.parametrize(
    "name", [b"access_token", b"API-Key", b"apikey", b"key", b"token", b"sig", b"X-Amz-Signature", b"%6bey"]
)
def test_a_desk_cannot_use_credentials_of_its_own_in_the_query(name: bytes) -> None:
    assert refused(asks(query=b"page=1&" + name + b"=mine"), held()).signs[0].what == "foreign"
    assert isinstance(send(asks(query=b"page=1&keyword=tokens"), held()), OutgoingRequest)


def test_an_unlisted_header_is_removed_unless_the_grant_lists_it() -> None:
    out = asks((b"X-Tenant", b"1"), (b"x_tenant", b"2"), (b"X-Amz-Date", b"3"), (b"Accept", b"*/*"))
    names = [name.lower() for name, _ in sent(out, held()).headers]
    assert b"accept" in names
    assert not {b"x-tenant", b"x_tenant", b"x-amz-date"} & set(names)
    one = held()
    listed = replace(one, grant=replace(one.grant, allow_headers=("x-tenant", "x-shop-token")))
    assert (b"x_tenant", b"2") in sent(out, listed).headers
    assert (b"X-Shop-Token", b"1") in sent(asks((b"X-Shop-Token", b"1")), listed).headers
    assert (b"X-Tenant", b"1") in sent(out, held(foreign=True)).headers
    assert (b"X-Tenant", b"1") in sent(replace(out, host="open.test"), held()).headers


def test_a_grant_lists_parameters_that_are_not_credentials() -> None:
    one = held()
    listed = replace(one, grant=replace(one.grant, allow_fields=("device_token",)))
    assert isinstance(send(asks(query=b"deviceToken=1"), one), Refusal)
    assert isinstance(send(asks(query=b"deviceToken=1"), listed), OutgoingRequest)
    assert isinstance(send(asks(query=b"token=1"), listed), Refusal)


@pytest.mark.parametrize(
    "name",
    "page_token pageToken nextToken NextToken continuation-token $skiptoken csrf_token csrfmiddlewaretoken _token"
    " authenticity_token __RequestVerificationToken max_tokens tokens keyword sort_key author passenger ClientToken"
    " signed design sessions monkey".split(),
)
def test_names_that_only_look_like_credentials_pass(name: str) -> None:
    assert not is_credential("query", name)


def found(
    body: bytes, *types: bytes, piece: int = 0, allowed: AllowedCredentials | None = None
) -> tuple[str, str] | None:
    watch = FieldWatch(types, allowed or AllowedCredentials())
    for at in range(0, len(body), piece or len(body)):
        watch.feed(body[at : at + (piece or len(body))])
    return watch.found


PART = b'Content-Disposition: form-data; filename="a"'
BODIES = [
    (b"a=1&password=x", b"application/x-www-form-urlencoded", ("form field", "password")),
    (b"token=x", b"", ("form field", "token")),
    (b'{"a": {"api_key" : "x"}}', b"application/json", ("JSON field", "api_key")),
    (b'{"a":"' + b"y" * 3 * REACH + b'","client_secret":"x"}', b"application/json", ("JSON field", "client_secret")),
    (PART + b'; name="token"\r\n', b"multipart/form-data", ("multipart field", "token")),
    (b"<a><s:Password>x</s:Password></a>", b"application/soap+xml", ("XML element", "Password")),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("piece", [0, 1, 7, 1000])
@pytest.mark.parametrize(("body", "kind", "expected"), BODIES)
def test_a_credential_in_a_body_is_found_however_it_comes(
    body: bytes, kind: bytes, expected: tuple[str, str], piece: int
) -> None:
    assert found(body, *([kind] if kind else []), piece=piece) == expected
    assert (
        found(body, kind, allowed=AllowedCredentials(fields=frozenset({expected[1].lower().replace("_", "")}))) is None
    )


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"password=" + P, b"application/x-www-form-urlencoded"),
        (b'{"password": "' + P + b'"}', b"application/json"),
        (b'{"text": "\\"password\\": \\"x\\" and a&token=1 <password>"}', b"application/json"),
        (b'{"password": {"type": "string"}, "token": null, "key": "A-1"}', b"application/json"),
        (b'{"password": "x"}', b"application/octet-stream"),
        (b"a=1\n&b=<password>", b"application/x-www-form-urlencoded"),
        (b"x&password=1", b"application/json"),
    ],
)
def test_an_invalid_credential_in_a_body_passes(body: bytes, kind: bytes) -> None:
    assert found(body, kind) is None
