"""Share links as a way to more than was shared: another port, a longer time, the token itself, another site."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from hotdesk.api.e2b.ports import shares
from hotdesk.api.e2b.ports.shares import Share
from hotdesk.config import Config
from tests.security.guards import Removal, falls_without, no_guard
from tests.security.traffic_room import PORT, Ways, opened

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]
ID = "0123456789ab"


@pytest.fixture
async def ways(settings: Config) -> AsyncIterator[Ways]:
    async with opened(settings) as found:
        found.sandbox.token, found.sandbox.traffic_token = "t" * 64, "right"
        yield found


def token(ways: Ways, port: int = PORT, lasts: float = 60.0, secret: str = "t" * 64, sandbox: str = "") -> str:
    share = Share(ID, port, int(time.time() + lasts))
    return shares.sign(shares.derive_key(secret), sandbox or ways.sandbox.id, share)


@no_guard("no attack: what all the others differ from")
async def test_a_link_that_is_valid_lets_in(ways: Ways) -> None:
    assert (await ways.get(Hotdesk_Share=token(ways))).startswith(b"HTTP/1.1 200")


@falls_without("shares: a link is for one port", Removal("ports/shares.py", " or share.port != port:", ":"))
async def test_a_link_opens_no_other_port(ways: Ways) -> None:
    assert (await ways.get(Hotdesk_Share=token(ways, port=9000))).startswith(b"HTTP/1.1 403")


@falls_without(
    "shares: a link ends",
    Removal("ports/shares.py", "    return share if share.expires > ", "    return share if share or share.expires > "),
)
async def test_a_link_that_has_expired_opens_nothing(ways: Ways) -> None:
    assert (await ways.get(Hotdesk_Share=token(ways, lasts=-1.0))).startswith(b"HTTP/1.1 403")


@falls_without("shares: a link is revoked", Removal("ports/traffic.py", " and share.id not in sandbox.revoked", ""))
async def test_a_link_that_was_revoked_opens_nothing(ways: Ways) -> None:
    ways.sandbox.revoked.add(ID)
    assert (await ways.get(Hotdesk_Share=token(ways))).startswith(b"HTTP/1.1 403")


@falls_without(
    "shares: a link is signed",
    Removal("ports/shares.py", 'if not hmac.compare_digest(_compute_mac(key, sandbox, share), found["mac"]) or', "if"),
)
@pytest.mark.parametrize("case", ["a guess", "another sandbox's"])
async def test_a_link_that_this_sandbox_did_not_sign_opens_nothing(ways: Ways, case: str) -> None:
    made = token(ways, secret="g" * 64) if case == "a guess" else token(ways, sandbox="i" + "0" * 20)
    assert (await ways.get(Hotdesk_Share=made)).startswith(b"HTTP/1.1 403")


@falls_without(
    "shares: tokens stay here",
    Removal("ports/headers.py", "hotdesk-share|", ""),
    Removal("ports/headers.py", 'strip_query(scope["query_string"])', 'scope["query_string"]'),
    cases="a header",
)
@falls_without("traffic: sessions stay here", cases="a cookie")
@no_guard("an address with a token is answered by a redirect, and goes nowhere", cases="an address")
@pytest.mark.parametrize("place", ["a header", "a cookie", "an address"])
async def test_no_program_inside_hears_a_token(ways: Ways, place: str) -> None:
    made = token(ways, port=9000 if place == "a header" else PORT)
    heard = {
        "a header": lambda: ways.get(f"/?hotdesk-share={made}", E2B_Traffic_Access_Token="right", Hotdesk_Share=made),
        "a cookie": lambda: ways.get(Cookie=f"hotdesk-share={made}"),
        "an address": lambda: ways.get(f"/?hotdesk-share={made}"),
    }
    answer = await heard[place]()
    assert made.encode() not in answer.partition(b"\r\n\r\n")[2]


@falls_without("shares: a redirect stays here", Removal("ports/shares.py", '.lstrip("/\\\\")', ""))
@pytest.mark.parametrize("path", ["//evil.test/", "///evil.test/", "/%5cevil.test/../"])
async def test_a_link_leads_to_no_other_site(ways: Ways, path: str) -> None:
    answer = await ways.get(f"{path}?hotdesk-share={token(ways)}")
    lines = answer.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
    (location,) = [line.partition(b": ")[2] for line in lines if line.startswith(b"location")]
    assert location.startswith(b"/")
    assert not location.startswith((b"//", b"/\\"))
