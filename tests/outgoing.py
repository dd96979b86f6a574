"""Grants and requests for tests of the outgoing requests of the door."""

from __future__ import annotations

import base64

from hotdesk.brief import Grant, SecretPlace
from hotdesk.door.grant import Kind, LiveGrant, Refusal
from hotdesk.door.secrets.inject import OutgoingRequest, apply, list_needed_grants, plan_injection
from hotdesk.door.secrets.outgoing import Headers, Outgoing
from hotdesk.door.secrets.placeholder import make_placeholder

VALUE = b"real-value-of-the-erp-token"
P = make_placeholder("erp-token").encode()
OTHER = make_placeholder("bank").encode()
HOST = "erp.test"
FORM = SecretPlace("form", "password", method="POST", path="/login", swap=True)
JSON = SecretPlace("json", "auth.password", method="POST", path="/login", swap=True)
IS_FORM = (b"Content-Type", b"application/x-www-form-urlencoded")
IS_JSON = (b"content-type", b"application/json; charset=UTF-8")


def held(
    *places: SecretPlace, kind: Kind = "token", placeholder: bytes = P, foreign: bool = False, id: str = "g1"
) -> LiveGrant:
    return LiveGrant(id, Grant("erp-token", HOST, places=places, foreign=foreign), placeholder, kind)


def asks(
    *headers: tuple[bytes, bytes],
    method: str = "GET",
    path: str = "/v1/items",
    query: bytes = b"",
    host: str = HOST,
    port: int = 443,
    scheme: str = "https",
) -> Outgoing:
    return Outgoing(scheme, host, port, method, path, query, [(b"Host", host.encode()), *headers])


def send(out: Outgoing, *grants: LiveGrant, body: bytes = b"", value: bytes = VALUE) -> OutgoingRequest | Refusal:
    made = plan_injection(out, grants)
    if isinstance(made, Refusal):
        return made
    return apply(made, out, body, dict.fromkeys(list_needed_grants(made, body), value))


def sent(out: Outgoing, *grants: LiveGrant, body: bytes = b"", value: bytes = VALUE) -> OutgoingRequest:
    """Return the request as the door sends it; fail if it is refused."""
    done = send(out, *grants, body=body, value=value)
    assert isinstance(done, OutgoingRequest), done
    return done


def refused(out: Outgoing, *grants: LiveGrant, body: bytes = b"") -> Refusal:
    """Return why the door refuses the request; fail if it is sent."""
    done = send(out, *grants, body=body)
    assert isinstance(done, Refusal), done.headers
    return done


def values(headers: Headers, name: bytes) -> list[bytes]:
    return [value for one, value in headers if one.lower() == name]


def basic(pair: bytes) -> bytes:
    return b"Basic " + base64.b64encode(pair)
