"""Tests of the SOCKS5 client: what is sent, and every malformed reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from tests.socks_server import socks_server

from hotdesk.brief.data import EgressProxy
from hotdesk.door.http.socks import SocksError, SocksProxy, encode_host, request_connection
from hotdesk.door.http.wire import Wire

CONNECTED = bytes((5, 0)) + bytes((5, 0, 0, 1)) + bytes(6)


@asynccontextmanager
async def proxy_that_says(data: bytes) -> AsyncIterator[tuple[Wire, list[bytes]]]:
    heard: list[bytes] = []
    over = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        with suppress(OSError):
            while piece := await reader.read(4096):
                heard.append(piece)
        writer.close()
        over.set()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        address = server.sockets[0].getsockname()
        _, wire = await asyncio.get_running_loop().create_connection(Wire, *address)
        yield wire, heard
        wire.abort()
        await over.wait()
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("example.com", b"\x03\x0bexample.com"),
        ("192.0.2.1", b"\x01\xc0\x00\x02\x01"),
        ("2001:db8::1", b"\x04\x20\x01\x0d\xb8" + bytes(11) + b"\x01"),
    ],
)
def test_a_host_is_an_address_or_a_name_that_the_proxy_resolves(host: str, expected: bytes) -> None:
    assert encode_host(host) == expected


@pytest.mark.parametrize(
    ("data", "username", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", b"", "did not answer in SOCKS5"),
        (b"\x05\xff", b"", "requires a user name"),
        (b"\x05\x02", b"", "requires a user name"),
        (b"\x05\x01", b"a", "requires an authentication that hotdesk does not support"),
        (b"\x05\x02\x01\x01", b"a", "rejected the user name"),
        (b"\x05\x00\x05\x02\x00\x01" + bytes(6), b"", "connection not allowed"),
        (b"\x05\x00\x05\x63\x00\x01" + bytes(6), b"", "unknown reason"),
        (b"\x05\x00\x05\x00\x00\x09" + bytes(6), b"", "sent a malformed reply"),
        (b"\x05\x00\x04\x00\x00\x01" + bytes(6), b"", "did not answer in SOCKS5"),
    ],
)
@pytest.mark.anyio
async def test_a_proxy_that_does_not_connect_is_reported(data: bytes, username: bytes, why: str) -> None:
    async with proxy_that_says(data) as (wire, _):
        with pytest.raises(SocksError, match=why):
            await request_connection(wire, SocksProxy("p", 1, username), "example.com", 443)


@pytest.mark.anyio
async def test_bytes_after_the_reply_are_left_for_the_next_reader() -> None:
    async with proxy_that_says(CONNECTED + b"first") as (wire, _):
        await request_connection(wire, SocksProxy("p", 1), "example.com", 443)
        assert await wire.read(5) == b"first"


@pytest.mark.anyio
async def test_a_proxy_that_hangs_up_is_reported() -> None:
    with socks_server(reply=0) as proxy:
        _, wire = await asyncio.get_running_loop().create_connection(Wire, "127.0.0.1", proxy.port)
        with pytest.raises(SocksError, match="host unreachable"):
            await request_connection(wire, SocksProxy("p", 1), "example.com", 443)
        assert proxy.requests == [(3, "example.com", 443)]
        wire.abort()


def test_a_password_is_in_no_text() -> None:
    assert "hidden" not in repr(SocksProxy.of(EgressProxy("a.com", 1, "user"), b"hidden"))
