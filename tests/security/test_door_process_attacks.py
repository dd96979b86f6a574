"""Attacks by one desk on the process that is the door of all desks of its owner."""

from __future__ import annotations

import asyncio
import gc
import os
import string
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from hotdesk.brief import Scope, parse_rule
from hotdesk.brief.data import EgressProxy
from hotdesk.door.alarms import PER_WINDOW
from hotdesk.door.egress import DECODERS
from hotdesk.door.process import BACKLOG, DESK_BACKLOG
from hotdesk.door.secrets.encodings import Brotli, Zstd
from hotdesk.door.secrets.scrub import ScrubbedSecret
from hotdesk.event import Exchange
from tests.security.door_room import FLOODER, NEIGHBOUR, THIRD, DoorRoom, door_room
from tests.security.guards import Removal, falls_without, no_guard

SCOPE = Scope((parse_rule("http://a.test"),), may_ask=False)


PROXIED = replace(SCOPE, proxy=EgressProxy("proxy.test", 1080, tls=True, server_name="proxy.test", ca="not PEM"))


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[DoorRoom]:
    async with door_room(tmp_path) as found:
        for desk in (FLOODER, NEIGHBOUR):
            found.open(desk)
            await found.charter(desk, SCOPE)
        yield found


def invent(count: int) -> list[bytes]:
    """Invent placeholders of as many secrets that nobody granted."""
    names = islice(product(string.ascii_lowercase, repeat=3), count)
    return [b"hotdesk-secret-" + "".join(each).encode() + b"-" + b"a" * 26 for each in names]


FULL_OF_PLACEHOLDERS = b"".join(
    b"X-Note-%d: %b\r\n" % (number, b",".join(names))
    for number, names in enumerate(zip(*[iter(invent(1280))] * 128, strict=True))
)


@falls_without(
    "one desk does not flood the journal",
    Removal("door/alarms.py", "PER_WINDOW = 30", "PER_WINDOW = 1 << 20"),
    Removal("door/process.py", "DESK_BACKLOG = 2 << 20", "DESK_BACKLOG = 1 << 40"),
)
async def test_invented_placeholders_of_one_desk_do_not_shut_another(room: DoorRoom) -> None:
    request = b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n" + FULL_OF_PLACEHOLDERS + b"\r\n"
    flood = [asyncio.create_task(room.send(FLOODER, request)) for _ in range(80)]  # keys read nothing meanwhile
    answers = await asyncio.gather(*flood)
    assert all(answer.startswith(b"HTTP/1.1 403 ") for answer in answers)
    events = await room.read_events()
    assert (await room.status(NEIGHBOUR))["open"]
    alarms = [event for event in events if event["event"] == "Alarm"]
    assert 1 <= len(alarms) <= PER_WINDOW
    assert sum(event["event"] == "Exchange" for event in events) == 80


@falls_without("one desk does not flood the journal")
async def test_the_alarms_that_were_left_out_are_counted(room: DoorRoom) -> None:
    request = b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n" + FULL_OF_PLACEHOLDERS + b"\r\n"
    await room.send(FLOODER, request)
    room.door.ways[FLOODER].alarms.end_window()
    *_, last = [event["data"] for event in await room.read_events() if event["event"] == "Alarm"]
    assert f"the last of {1280 - PER_WINDOW} alarms" in last["note"]


@falls_without("one desk does not flood the journal")
async def test_a_desk_whose_events_overflow_is_shut_alone(room: DoorRoom) -> None:
    event = Exchange(FLOODER, "", "deny", "r" * 300, "GET", "https", "a.test", 443, "p" * 1000, 403, 0, 0, 0)
    for _ in range(BACKLOG // 1000):
        room.door.note(event)
        if room.door.ways[FLOODER].shut:
            break
    assert sum(map(len, room.door.unsaid)) < DESK_BACKLOG + 4096
    await asyncio.sleep(0)
    await room.read_events()
    assert (await room.status(NEIGHBOUR))["open"]
    assert "faster than the journal" in (await room.status(FLOODER))["why"]


@no_guard("it must pass: that a desk may cause many events")
async def test_events_that_keys_read_in_time_shut_no_desk(room: DoorRoom) -> None:
    event = Exchange(FLOODER, "", "deny", "r" * 300, "GET", "https", "a.test", 443, "p" * 1000, 403, 0, 0, 0)
    for _ in range(6):
        for _ in range(400):
            room.door.note(event)
        await room.read_events()
    assert (await room.status(FLOODER))["open"]


@falls_without(
    "an unusable charter ends no other desk",
    Removal("http/socks.py", "        except ValueError as e:", "        except ZeroDivisionError as e:"),
)
@pytest.mark.parametrize("how", ["at opening", "as a change"])
async def test_invalid_certificates_of_a_proxy_end_its_own_connections_only(room: DoorRoom, how: str) -> None:
    if how == "at opening":
        room.open(THIRD)
        await room.charter(THIRD, PROXIED)
        desk = THIRD
    else:
        await room.rescope(FLOODER, PROXIED)
        desk = FLOODER
    answer = await room.send(desk, b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"certificate authorities of this desk's SOCKS5 proxy are not valid" in answer
    assert (await room.status(NEIGHBOUR))["open"]


def pack(coding: str) -> bytes:
    """Return the beginning of a compressed body with a large window."""
    if coding == "br":
        return bytes(brotli.compress(os.urandom(1 << 17), lgwin=23))
    packer = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=23)
    ).compressobj()
    return packer.compress(os.urandom(1 << 19))


def count_decoders() -> int:
    gc.collect()
    found = [each for each in gc.get_objects() if isinstance(each, Brotli | Zstd)]
    return sum(each.begun if isinstance(each, Brotli) else each.inner is not None for each in found)


@asynccontextmanager
async def server_that_hears(response: bytes = b"") -> AsyncIterator[str]:
    """Run a server that reads everything, and sends this response to each connection; yield its address."""

    connections: list[asyncio.StreamWriter] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        with suppress(OSError):
            writer.write(response)
            while await reader.read(1 << 16):
                pass
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in connections:
            writer.transport.abort()
        await asyncio.sleep(0.05)


async def begin(room: DoorRoom, desk: str, data: bytes) -> asyncio.StreamWriter:
    """Send the beginning of a request."""
    _, writer = await asyncio.open_connection("127.0.0.1", room.gates[desk])
    writer.write(data)
    return writer


@falls_without(
    "few large decoders at once",
    Removal("door/egress.py", "if not needs_large_decoder(coding):", "if True:"),
)
@pytest.mark.parametrize("coding", ["br", "zstd"])
@pytest.mark.parametrize("way", ["uploads", "downloads"])
async def test_unfinished_compressed_bodies_of_one_desk_hold_few_windows(room: DoorRoom, way: str, coding: str) -> None:
    body = pack(coding)
    packed = b"Content-Encoding: %b\r\nContent-Length: 99999999\r\n\r\n%b" % (coding.encode(), body)
    head = b"POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n"
    head, response = (head + packed, b"") if way == "uploads" else (head + b"\r\n", b"HTTP/1.1 200 OK\r\n" + packed)
    async with server_that_hears(response) as address:
        room.open(THIRD)
        await room.charter(THIRD, replace(SCOPE, rules=(parse_rule("write http://a.test"),), names={"a.test": address}))
        room.door.ways[THIRD].scrubber.add(ScrubbedSecret("0", "used", b"a-secret-that-was-used-before-0123"))
        writers = [await begin(room, THIRD, head) for _ in range(DECODERS * 3)]
        await asyncio.sleep(0.7)
        held = count_decoders()
        for writer in writers:
            writer.close()
    assert held == DECODERS


@falls_without(
    "no large window for an upload",
    Removal("secrets/upload_watch.py", "WINDOW_BITS = 23", "WINDOW_BITS = 24"),
)
async def test_an_upload_with_a_larger_window_is_refused(room: DoorRoom) -> None:
    body = brotli.compress(os.urandom(1 << 17), lgwin=24)
    async with server_that_hears() as address:
        room.open(THIRD)
        await room.charter(THIRD, replace(SCOPE, rules=(parse_rule("write http://a.test"),), names={"a.test": address}))
        head = b"POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Encoding: br\r\nContent-Length: %d\r\n\r\n"
        answer = await room.send(THIRD, head % len(body) + body)
    assert b"Brotli window exceeds 8 MiB" in answer
