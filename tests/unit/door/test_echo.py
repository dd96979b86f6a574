"""Tests of the door's echo host: its answers, who reaches it, and that nothing else may have its name."""

from __future__ import annotations

import asyncio
import base64
import hashlib

import pytest

from hotdesk.brief import Grant, Rule, Scope
from hotdesk.door import canary, echo
from hotdesk.door.http import framing
from hotdesk.errors import BriefError
from hotdesk.keys.charter import grant_canary

VALUE = b"a-value-nobody-knows-0123456789"


def asked(method: str = "GET", target: str = "/canary", *headers: tuple[str, str]) -> framing.Request:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {canary.HOST}", *(f"{name}: {value}" for name, value in headers)]
    return framing.parse_request("\r\n".join([*lines, "", ""]).encode())


def test_the_echo_repeats_head_body_and_base64() -> None:
    head, _, body = echo.answer(asked("GET", "/canary", ("Authorization", f"Bearer {VALUE.decode()}"))).partition(
        b"\r\n\r\n"
    )
    lines = head.split(b"\r\n")
    assert lines[0].startswith(b"HTTP/1.1 200")
    assert b"X-Canary: " + VALUE in lines
    assert b"X-Canary-Digest: " + hashlib.sha256(VALUE).hexdigest().encode() in lines
    assert body == VALUE + b"\n" + base64.b64encode(VALUE) + b"\n"


@pytest.mark.parametrize(
    "request_",
    [
        asked("GET", "/canary"),
        asked("GET", "/", ("Authorization", "Bearer x")),
        asked("GET", "/canary?x=1", ("Authorization", "Bearer x")),
        asked("HEAD", "/canary", ("Authorization", "Bearer x")),
        asked("POST", "/canary", ("Authorization", "Bearer x"), ("Content-Length", "1")),
    ],
    ids=["no credentials", "another path", "a query", "another method", "a body"],
)
def test_it_answers_nothing_but_its_one_request(request_: framing.Request) -> None:
    assert echo.answer(request_).startswith(b"HTTP/1.1 404")


async def test_it_is_reached_in_memory_answers_in_order_and_disconnects_on_garbage() -> None:
    async with asyncio.timeout(5):
        wire = await echo.connect()
        head = framing.request_head(
            "GET", b"/canary", framing.Headers(((b"Host", b"x"), (b"Authorization", b"Bearer 1")))
        )
        wire.write(head + head[:20])
        assert (await wire.read(5)).count(b"HTTP/1.1 200") == 1
        wire.write(head[20:])
        assert (await wire.read(5)).count(b"HTTP/1.1 200") == 1
        wire.write(b"\x16\x03\x01 no request\r\n\r\n")
        assert await wire.read(5) == b""
        wire.close()


@pytest.mark.parametrize(
    "scope",
    [
        Scope(rules=(Rule(canary.HOST, verdict="deny", methods=("*",)),)),
        Scope(rules=(Rule("*.door.local", tunnel=True),)),
        Scope(grants=(Grant("erp-token", canary.HOST),)),
        Scope(names={canary.HOST: "127.0.0.1:1"}),
    ],
    ids=["a rule", "a tunnel above it", "a grant", "a name"],
)
def test_no_scope_may_have_its_name(scope: Scope) -> None:
    with pytest.raises(BriefError, match="reserved for the door's self-test"):
        canary.check_free(scope)


def test_a_wider_rule_that_is_not_a_tunnel_may_be() -> None:
    canary.check_free(Scope(rules=(Rule("*.local"), Rule("*.test", tunnel=True))))


def test_each_canary_is_another_and_its_owner_knows_only_its_digest() -> None:
    (one, known), (other, _) = grant_canary(), grant_canary()
    value = base64.b64decode(one.values["value"])
    assert known.digest == hashlib.sha256(value).hexdigest()
    assert known.placeholder == one.placeholder
    assert value.decode() not in repr((one, known))
    assert one.values != other.values
    assert one.placeholder != other.placeholder
