"""Tests of a server's settings: every mistake is named, and unsafe listeners are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.api.settings import Serving, check, read
from hotdesk.errors import BriefError

TLS = Serving(tls_port=443, certificate=Path("chain.pem"), private_key=Path("key.pem"))


def test_without_a_table_there_are_defaults() -> None:
    assert read({}) == Serving()


def test_a_table_of_settings_is_read() -> None:
    table = {
        "host": "0.0.0.0", "tls_port": 443, "certificate": "/c.pem", "private_key": "/k.pem", "egress": "deny",
        "names": ["desk.example.test"], "domain": "box.example.test", "ready": {"base": 8}, "longest": 3600,
    }  # fmt: skip
    found = read(table)
    assert (found.host, found.tls_port, found.names) == ("0.0.0.0", 443, ("desk.example.test",))
    assert (found.ready, found.longest, found.egress) == ({"base": 8}, 3600.0, "deny")
    assert found.certificate == Path("/c.pem")


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"colour": 1}, "unknown setting 'colour'"),
        ({"host": "everywhere"}, "must be an IP address"),
        ({"port": 70000}, "from 0 to 65535"),
        ({"names": "desk.example.test"}, "must be a list of lower-case host names"),
        ({"names": ["Desk.Example.Test"]}, "lower-case host names"),
        ({"domain": "box.example.test:8443"}, "without a port"),
        ({"egress": "some"}, "deny, packages, open"),
        ({"ready": {"base": -1}}, "from 0 to 1000"),
        ({"longest": 100000}, "from 1 to 86400"),
        ({"shutdown": "keep"}, "must be one of burn, leave"),
        ({"models": "anthropic:x"}, "must be a list of models"),
        ({"models": ["gpt-5"]}, "anthropic:MODEL, openai:MODEL"),
        ({"models": ["chat:x@file:///etc/passwd"]}, "is not a model name"),
    ],
)
def test_a_mistake_is_reported_by_name(table: dict[str, object], why: str) -> None:
    with pytest.raises(BriefError, match=why):
        read(table)


@pytest.mark.parametrize(
    ("serving", "has_keys", "why"),
    [
        (Serving(host="192.0.2.1"), True, "not loopback: keys would be sent unencrypted"),
        (Serving("0.0.0.0", 0, 443, Path("c"), Path("k")), False, "there is no key yet"),
        (Serving(tls_port=443), True, "TLS needs a certificate"),
        (Serving(certificate=Path("c"), private_key=Path("k")), True, "add --tls-port"),
        (Serving(names=("localhost",)), True, "the sandbox domain"),
        (Serving(names=("desk.box.test",), domain="box.test"), True, "below it"),
    ],
    ids=["no TLS", "no key", "no certificate", "no TLS port", "one name for both", "a name below"],
)
def test_an_unsafe_listener_is_refused(serving: Serving, has_keys: bool, why: str) -> None:
    with pytest.raises(BriefError, match=why):
        check(serving, has_keys)


def test_loopback_needs_neither_key_nor_tls() -> None:
    assert check(Serving(), has_keys=False).is_local


@pytest.mark.parametrize(
    ("serving", "reached"),
    [(Serving(port=3700), "localhost:3700"), (TLS, "localhost"), (Serving(tls_port=8443), "localhost:8443")],
    ids=["plain", "443", "another"],
)
def test_clients_are_told_the_sandboxes_address(serving: Serving, reached: str) -> None:
    assert serving.reached == reached


def test_sync_without_nodes_is_refused() -> None:
    with pytest.raises(BriefError, match="`\\[serve\\] nodes` is not set; remove `sync`"):
        check(read({"sync": True}), has_keys=False)
    assert check(read({"sync": True, "nodes": ["127.0.0.1:3710"], "identity": "/n"}), has_keys=False).sync
