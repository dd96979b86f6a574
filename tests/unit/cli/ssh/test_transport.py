"""Tests of SSH packets on the server's side: a client that breaks the protocol is refused."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ssh_client import CLIENT, OFFER, SshTestClient, kexinit, packet

from hotdesk.cli.ssh import transport as ssh
from hotdesk.cli.ssh.fields import SshError, encode_string, encode_uint32


def test_keys_are_exchanged_signed_and_changed_during_a_session() -> None:
    client = SshTestClient()
    session = client.exchange()
    assert client.send(client.seal(b"\x05hello")) == [b"\x05hello"]
    client.transport.send(b"\x06answer")
    assert client.read() == b"\x06answer"
    client.exchange(session)
    assert client.send(client.seal(b"\x05again")) == [b"\x05again"]


def test_data_sent_during_a_key_change_waits() -> None:
    client = SshTestClient()
    client.exchange()
    client.send(client.seal(kexinit()))
    client.transport.send(b"\x06late")
    assert client.read()[0] == ssh.KEXINIT
    assert not client.transport.out


def test_a_changed_packet_is_refused() -> None:
    client = SshTestClient()
    client.exchange()
    data = bytearray(client.seal(b"\x05hello"))
    data[9] ^= 1
    with pytest.raises(SshError, match="failed its integrity check"):
        client.send(bytes(data))


def test_a_repeated_packet_is_refused() -> None:
    client = SshTestClient()
    client.exchange()
    data = client.seal(b"\x05hello")
    client.send(data)
    with pytest.raises(SshError, match="failed its integrity check"):
        client.send(data)


HELLO = CLIENT + b"\r\n"
WRONG = {
    "another protocol": b"GET / HTTP/1.1\r\n",
    "an old version": b"SSH-1.5-old\r\n",
    "a line without an end": b"x" * 300,
    "a huge packet": HELLO + encode_uint32(1 << 30),
    "an empty packet": HELLO + encode_uint32(0) + bytes(20),
    "padding beyond the packet": HELLO + encode_uint32(12) + b"\xff" + bytes(11),
    "a message before the keys": HELLO + packet(b"\x05" + encode_string(b"ssh-userauth")),
    "something ignored before strict keys": HELLO + packet(b"\x02" + encode_string(b"")) + packet(kexinit()),
    "something ignored amid strict keys": HELLO + packet(kexinit()) + packet(b"\x02" + encode_string(b"")),
    "keys before an offer": HELLO + packet(bytes((ssh.KEX_ECDH_INIT,)) + encode_string(bytes(32))),
    "new keys before an exchange": HELLO + packet(kexinit()) + packet(bytes((ssh.NEWKEYS,))),
    "two offers": HELLO + packet(kexinit()) + packet(kexinit()),
    "a key that is none": HELLO + packet(kexinit()) + packet(bytes((ssh.KEX_ECDH_INIT,)) + encode_string(bytes(31))),
    "a key of zeros": HELLO + packet(kexinit()) + packet(bytes((ssh.KEX_ECDH_INIT,)) + encode_string(bytes(32))),
    "another exchange": HELLO + packet(kexinit((b"diffie-hellman-group1-sha1",))),
    "another cipher": HELLO + packet(kexinit(cipher=b"3des-cbc")),
    "an offer that ends early": HELLO + packet(kexinit()[:60]),
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG)
def test_protocol_violations_are_refused(data: bytes) -> None:
    with pytest.raises(SshError):
        SshTestClient().send(data)


def test_a_wrong_guess_of_the_exchange_is_ignored() -> None:
    client = SshTestClient()
    offer = kexinit((b"another", *OFFER), follows=1)
    client.send(HELLO + packet(offer) + packet(b"\x1eguess"))
    assert not client.transport.ignores_guess


@given(st.binary(max_size=300))
def test_no_bytes_do_more_than_end_a_connection(data: bytes) -> None:
    for before in (b"", HELLO, HELLO + packet(kexinit())):
        client = SshTestClient()
        try:
            client.send(before + data)
        except SshError:
            pass


@pytest.mark.slow
@given(st.binary(max_size=200))
def test_no_message_of_a_client_does_more_than_end_a_connection(payload: bytes) -> None:
    client = SshTestClient()
    client.exchange()
    try:
        client.send(client.seal(payload or b"\0"))
    except SshError:
        pass


def test_padding_is_never_short() -> None:
    client = SshTestClient()
    client.exchange()
    for size in range(1, 64):
        client.transport.send(os.urandom(size))
        length = int.from_bytes(client.transport.out[:4], "big")
        assert length % 16 == 0
        assert len(client.read()) == size
