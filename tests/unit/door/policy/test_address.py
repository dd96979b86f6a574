"""Tests of which addresses may be dialled, as one table."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotdesk.door.policy.address import GLOBAL_V6, METADATA, as_network, check, normalise_address

REFUSED = {
    "unspecified": "0.0.0.0 0.1.2.3 ::",
    "loopback": "127.0.0.1 127.255.255.254 ::1",
    "link-local": "169.254.0.1 169.254.169.253 fe80::1 fe80::1%eth0 febf::1 fe80::5efe:8.8.8.8",
    "a private network": (
        "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 100.127.255.255 fc00::1 fdff::1 fec0::1"
    ),
    "a cloud metadata address": "169.254.169.254 169.254.170.2 100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254",
    "multicast": "224.0.0.1 239.255.255.255 ff02::1",
    "broadcast": "255.255.255.255",
    "reserved": (
        "192.0.0.8 240.0.0.1 100::1 2001:10::1 2001:20::1 4000::1 ::8.8.8.8 ::10.0.0.1 64:ff9b:1::808:808 5f00::1"
    ),
    "6to4": "2002:808:808::1 2002:7f00:1::1 2002:c0a8:101::1",
    "Teredo": "2001:0:808:808::f5ff:fffe 2001:0:a00:1::f7f7:f7f7",
    "documentation": "192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1",
    "benchmarking": "198.18.0.1 198.19.255.255 2001:2::1",
}
CARRIED = {
    "::ffff:127.0.0.1": "127.0.0.1 is loopback",
    "::ffff:169.254.169.254": "169.254.169.254 is a cloud metadata address",
    "::ffff:168.63.129.16": "168.63.129.16 is a cloud metadata address",
    "64:ff9b::7f00:1": "loopback",
    "64:ff9b::a00:1": "a private network",
    "64:ff9b::a9fe:a9fe": "a cloud metadata address",
    "64:ff9b::a83f:8110": "a cloud metadata address",
    "2a00:1450:4001:800::5efe:a00:1": "a private network",
    "2a00:1450:4001:800:200:5efe:7f00:1": "loopback",
}
INSIDE = ("a private network", "documentation", "benchmarking")
PUBLIC = """
1.1.1.1 9.255.255.255 100.63.255.255 172.32.0.1 2606:4700::1 2001:4860::1 ::ffff:8.8.8.8
64:ff9b::808:808
"""


@pytest.mark.parametrize(("text", "kind"), [(text, kind) for kind, texts in REFUSED.items() for text in texts.split()])
def test_addresses_outside_the_internet_are_refused_by_kind(text: str, kind: str) -> None:
    assert check(ip_address(text)) == f"{normalise_address(ip_address(text))} is {kind}"


@pytest.mark.parametrize(("text", "reason"), CARRIED.items())
def test_an_embedding_form_is_judged_by_the_address_inside(text: str, reason: str) -> None:
    assert (check(ip_address(text)) or "").endswith(reason)


@pytest.mark.parametrize("text", PUBLIC.split())
def test_the_internet_may_be_dialled(text: str) -> None:
    assert check(ip_address(text)) is None


@pytest.mark.parametrize("text", ["8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::808:808", "2606:4700::1%lo"])
def test_this_host_is_refused_by_any_of_its_addresses(text: str) -> None:
    own = {ip_address("8.8.8.8"), ip_address("2606:4700::1"), ip_address("127.0.0.1")}
    assert (check(ip_address(text), own=own) or "").endswith("is an address of this machine")


NAMED = [
    ("127.0.0.1", "127.0.0.1", True),
    ("127.0.0.0/8", "127.0.0.1", True),
    ("127.0.0.1", "127.0.0.2", False),
    ("127.0.0.1", "::ffff:127.0.0.1", True),
    ("127.0.0.1", "64:ff9b::7f00:1", False),
    ("10.0.0.0/8", "10.1.2.3", True),
    ("10.0.0.0/8", "192.168.1.1", False),
    ("10.0.0.0/8", "10.9.9.9", False),  # this host's own
    ("10.9.9.9", "10.9.9.9", True),
    ("fd00::/8", "fd00::1", True),
    ("fd00::/8", "fd00:ec2::254", False),
    ("fd00:ec2::254", "fd00:ec2::254", True),
    ("169.254.0.0/16", "169.254.1.1", True),
    ("169.254.0.0/16", "169.254.169.254", False),
    ("169.254.169.254/32", "169.254.169.254", True),
    ("64:ff9b::/96", "64:ff9b::a9fe:a9fe", False),
    ("0.0.0.0/0", "168.63.129.16", False),
]


@pytest.mark.parametrize(("written", "text", "admitted"), NAMED)
def test_only_explicitly_listed_addresses_may_be_dialled(written: str, text: str, admitted: bool) -> None:
    own = {ip_address("10.9.9.9"), ip_address("127.0.0.1")}
    assert (check(ip_address(text), [ip_network(written)], own) is None) is admitted


@pytest.mark.parametrize(
    ("text", "admitted"),
    [
        *((text, kind in INSIDE) for kind, texts in REFUSED.items() for text in texts.split()),
        ("10.9.9.9", False),
    ],
)
def test_private_admits_what_only_private_networks_answer_at(text: str, admitted: bool) -> None:
    own = {ip_address("10.9.9.9")}
    assert (check(ip_address(text), own=own, private=True) is None) is admitted


@given(st.ip_addresses())
def test_no_address_the_library_calls_private_is_ever_dialled(address: object) -> None:
    found = normalise_address(ip_address(str(address)))
    if check(found) is None:
        assert found not in METADATA
        assert not (found.is_private or found.is_loopback or found.is_multicast) or found in GLOBAL_V6
        assert not (found.is_link_local or found.is_unspecified or found.is_reserved) or found.version == 6


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("10.0.0.1", "10.0.0.1/32"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("::1", "::1/128"),
        ("example.test", None),
        ("127.1", None),
    ],
)
def test_addresses_and_names_are_distinguished(text: str, network: str | None) -> None:
    assert as_network(text) == (ip_network(network) if network else None)
