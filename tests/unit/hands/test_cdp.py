"""Tests of the CDP client with a hostile browser: callers get an error in time, and memory is bounded."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import anyio
import pytest

from hotdesk.errors import DeskError
from hotdesk.hands.reader import Dial, ProtocolError
from hotdesk.hands.reader.cdp import Cdp, CdpError, open_cdp, parse
from hotdesk.hands.reader.chrome import Chrome
from hotdesk.hands.reader.untrusted import UntrustedObject

Play: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

WHERE = b'{"webSocketDebuggerUrl": "ws://127.0.0.1:9222/devtools/browser/0f-1e"}'
SOON = 0.4


def http(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length:{len(body)}\r\n{headers}\r\n".encode() + body


def frame(data: bytes, opcode: int = 1, fin: bool = True, length: int | None = None) -> bytes:
    size = len(data) if length is None else length
    head = bytes([(0x80 if fin else 0) | opcode])
    if size < 126:
        return head + bytes([size]) + data
    return head + b"\x7f" + struct.pack(">Q", size) + data


def said(told: object) -> bytes:
    return frame(json.dumps(told).encode())


async def upgrade(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    key = next(line.split(": ")[1] for line in head.split("\r\n") if line.lower().startswith("sec-websocket-key"))
    mark = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()  # noqa: S324 - as specified
    answer = f"Sec-WebSocket-Accept: {base64.b64encode(mark).decode()}"
    writer.write(f"HTTP/1.1 101 ok\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{answer}\r\n\r\n".encode())


async def asked(reader: asyncio.StreamReader) -> dict[str, object]:
    size = (await reader.readexactly(2))[1] & 0x7F
    if size == 126:
        (size,) = struct.unpack(">H", await reader.readexactly(2))
    mask = await reader.readexactly(4)
    data = await reader.readexactly(size)
    told: dict[str, object] = json.loads(bytes(byte ^ mask[at % 4] for at, byte in enumerate(data)))
    return told


@asynccontextmanager
async def browser(play: Play, first: bytes | None = None) -> AsyncIterator[Dial]:
    tasks: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            tasks.append(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            if (await reader.readline()).startswith(b"GET /json/version "):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(http(WHERE) if first is None else first)
                await writer.drain()
            else:
                await play(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1")
    address = server.sockets[0].getsockname()

    async def dial(port: int) -> socket.socket:
        assert port == 9222
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, address)
        return sock

    try:
        yield dial
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)


async def after_upgrade(data: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await upgrade(reader, writer)
    await asked(reader)
    writer.write(data)
    await writer.drain()
    await reader.read()


def saying(data: bytes) -> Play:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await after_upgrade(data, reader, writer)

    return play


def endless(data: bytes) -> Play:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade(reader, writer)
        while True:
            writer.write(data)
            await writer.drain()

    return play


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


def nothing(session: str, name: str, told: UntrustedObject) -> None:
    pass


async def ask(dial: Dial, seconds: float = 20.0) -> UntrustedObject:
    cdp = await open_cdp(dial, nothing, seconds)
    try:
        return await cdp.call("Target.getTargets", "", seconds)
    finally:
        cdp.close()


@pytest.mark.parametrize(
    "first",
    [
        b"",
        http(b"[]"),
        http(b"{}"),
        http(b'{"webSocketDebuggerUrl": 5}'),
        http(b'{"webSocketDebuggerUrl": "ws://127.0.0.1:9222/devtools/page/1"}'),
        http(b'{"webSocketDebuggerUrl": "ws://192.0.2.1:80/devtools/browser/1"}'),
        http(b'{"webSocketDebuggerUrl": "ws://127.0.0.1:9222/devtools/browser/../x"}'),
        http(b"[" * 60_000),
        http(b"", "302 Found", "Location: http://192.0.2.1/\r\n"),
        http(b"no", "500 no"),
        b"HTTP/1.1 200 OK\r\n\r\n" + WHERE,
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 70\r\nContent-Length: 71\r\n\r\n" + WHERE,
        b"\x00" * 10,
    ],
)
async def test_an_answer_that_does_not_say_where_the_browser_is_is_malformed(first: bytes) -> None:
    async with browser(silent, first) as dial:
        with anyio.fail_after(15), pytest.raises(ProtocolError):
            await ask(dial)


async def test_a_head_without_end_is_not_read_to_its_end() -> None:
    async with browser(silent, b"HTTP/1.1 200 OK\r\nX: " + b"y" * 10_000_000) as dial:
        with anyio.fail_after(15), pytest.raises(ProtocolError, match="response has more than 16384 bytes"):
            await ask(dial)


UPGRADES = [
    b"",
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: ws://192.0.2.1/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 101 ok\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAA\r\n\r\n",
    b"HTTP/1.1 101 ok\r\n" + b"X: y\r\n" * 100_000,
    b"HTTP/1.1 101 " + b"y" * 1_000_000,
    frame(b"{}"),
]


@pytest.mark.parametrize("data", UPGRADES)
async def test_a_wrong_upgrade_is_malformed(data: bytes) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        await writer.drain()

    async with browser(play) as dial:
        with anyio.fail_after(15), pytest.raises(ProtocolError):
            await ask(dial)


MESSAGES = {
    "a frame of 2^63 bytes": frame(b"x", length=1 << 63),
    "a frame of 2^63 - 1 bytes": frame(b"x", length=(1 << 63) - 1),
    "a frame beyond the limit": frame(b"x", length=(32 << 20) + 1),
    "a message in parts beyond the limit": frame(b"x" * (20 << 20), fin=False) + frame(b"x" * (20 << 20), opcode=0),
    "binary": frame(b"{}", opcode=2),
    "an unknown opcode": frame(b"{}", opcode=5),
    "a continuation of nothing": frame(b"{}", opcode=0),
    "a masked frame": b"\x81\x82\0\0\0\0{}",
    "a compressed frame": b"\xc1\x02{}",
    "a close": frame(b"\x03\xe8", opcode=8),
    "deep JSON": frame(b'{"id": 1, "result": ' + b"[" * 200_000),
    "many pieces": frame(b'{"id": 1, "result": {"a": [' + b"[]," * 1_500_000 + b"1]}}"),
    "no JSON": frame(b"hello"),
    "a list": frame(b"[1]"),
    "no UTF-8": frame(b'{"id": 1, "result": {"a": "\xff"}}'),
    "UTF-16": frame('{"id": 1}'.encode("utf-16")),
    "not a number": frame(b'{"id": 1, "result": {"a": NaN}}'),
    "a number of many digits": frame(b'{"id": 1, "result": {"a": ' + b"9" * 10_000 + b"}}"),
    "a result that is a list": said({"id": 1, "result": []}),
    "an error that is a text": said({"id": 1, "error": "no"}),
    "an error whose message is a number": said({"id": 1, "error": {"message": 5}}),
    "an event whose facts are a list": said({"method": "Page.x", "params": []}),
    "an event whose name is a number": said({"method": 5, "params": {}}),
}


@pytest.mark.parametrize("data", MESSAGES.values(), ids=MESSAGES.keys())
async def test_a_malformed_message_is_a_protocol_error(data: bytes) -> None:
    async with browser(saying(data)) as dial:
        with anyio.fail_after(15), pytest.raises(ProtocolError):
            await ask(dial)


OTHERS = {
    "nothing": b"",
    "an answer to another question": said({"id": 7, "result": {}}),
    "an answer for another session": said({"id": 1, "result": {}, "sessionId": "X"}),
    "an id that is a text": said({"id": "1", "result": {}}),
    "an id that is a truth": said({"id": None, "result": {}}),
    "half a message": frame(b"{}", length=5000),
}


@pytest.mark.slow
@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS.keys())
async def test_a_silent_browser_is_not_waited_for_beyond_the_deadline(data: bytes) -> None:
    async with browser(saying(data)) as dial:
        with anyio.fail_after(SOON + 15), pytest.raises(DeskError, match="did not respond"):
            await ask(dial, SOON)


async def test_a_browser_that_accepts_and_says_nothing_is_malformed() -> None:
    async with browser(silent) as dial:
        with anyio.fail_after(SOON + 15), pytest.raises(ProtocolError, match="did not respond within"):
            await ask(dial, SOON)


FLOODS = {
    "events": said({"method": "Page.lifecycleEvent", "params": {"name": "load"}}) * 500,
    "pings": frame(b"x" * 100, opcode=9) * 500,
}


@pytest.mark.slow
@pytest.mark.parametrize("data", FLOODS.values(), ids=FLOODS.keys())
async def test_endless_talk_neither_delays_the_deadline_nor_piles_up(data: bytes) -> None:
    async with browser(endless(data)) as dial:
        cdp = await open_cdp(dial, nothing, SOON)
        with anyio.fail_after(SOON + 15), pytest.raises((DeskError, ProtocolError)):
            await cdp.call("Target.getTargets", "", SOON)
        assert len(cdp.web.waiting) < 2000
        assert len(cdp.web.part) < 1 << 20
        cdp.close()


@pytest.mark.slow
async def test_endless_empty_parts_of_a_message_take_no_room() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade(reader, writer)
        writer.write(frame(b"", fin=False))
        while True:
            writer.write(frame(b"", opcode=0, fin=False) * 1000)
            await writer.drain()

    async with browser(play) as dial:
        cdp = await open_cdp(dial, nothing, SOON)
        with anyio.fail_after(SOON + 15), pytest.raises(DeskError, match="did not respond"):
            await cdp.call("Target.getTargets", "", SOON)
        assert len(cdp.web.part) == 0
        cdp.close()


async def test_closing_in_the_middle_of_a_call_is_a_protocol_error() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade(reader, writer)
        await asked(reader)

    async with browser(play) as dial:
        with anyio.fail_after(15), pytest.raises(ProtocolError, match="closed"):
            await ask(dial)


@pytest.mark.slow
async def test_a_browser_that_does_not_read_is_dropped_without_half_a_message() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade(reader, writer)
        await anyio.sleep(5)

    async with browser(play) as dial:
        cdp: Cdp = await open_cdp(dial, nothing, SOON)
        with anyio.fail_after(SOON + 15), pytest.raises(DeskError, match="did not respond"):
            await cdp.call("Input.insertText", "", SOON, text="x" * (30 << 20))
        assert not cdp.web.is_open


async def test_answers_reach_their_callers_and_refusals_are_reported() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade(reader, writer)
        first = await asked(reader)
        writer.write(said({"method": "Page.x", "params": {}}) + said({"id": first["id"], "result": {"a": 1}}))
        second = await asked(reader)
        writer.write(said({"id": second["id"], "error": {"message": "no\u202e such thing"}}))

    heard: list[str] = []
    async with browser(play) as dial:
        cdp = await open_cdp(dial, lambda session, name, told: heard.append(name), SOON)
        assert (await cdp.call("A.b")).read_number("a") == 1
        with pytest.raises(CdpError, match=r"no\\u202e such thing"):
            await cdp.call("A.c")
        cdp.close()
    assert heard == ["Page.x"]


WRONG_ANSWERS: list[object] = [
    {"targetInfos": 5},
    {"targetInfos": [5]},
    {"targetInfos": [{"targetId": 5, "type": "page"}]},
    {"targetInfos": [{"targetId": "a", "type": []}]},
    {"targetInfos": [{"targetId": "a", "type": "page", "url": {}}]},
]


@pytest.mark.parametrize("wrong", WRONG_ANSWERS)
async def test_answers_of_wrong_types_are_errors_and_the_next_request_reconnects(wrong: object) -> None:
    dialled: list[bool] = []

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialled.append(True)
        await upgrade(reader, writer)
        while True:
            question = await asked(reader)
            result = wrong if question["method"] == "Target.getTargets" else {}
            writer.write(said({"id": question["id"], "result": result}))

    async with browser(play) as dial:
        chrome = Chrome(dial)
        for _ in range(2):
            with anyio.fail_after(15), pytest.raises(ProtocolError):
                await chrome.tabs()
            assert chrome.cdp is None
    assert len(dialled) == 2


USUAL: dict[str, object] = {
    "Target.getTargets": {"targetInfos": [{"targetId": "T", "type": "page", "url": "about:blank"}]},
    "Target.attachToTarget": {"sessionId": "S"},
    "Page.getFrameTree": {"frameTree": {"frame": {"id": "F", "loaderId": "L"}}},
    "Page.createIsolatedWorld": {"executionContextId": 1},
    "Runtime.callFunctionOn": {"result": {"value": {"elements": 1}}},
}


def answering(answers: dict[str, object], delay: float = 0.0) -> Play:
    """Play a browser with one tab that gives these answers, and otherwise minimal ones."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await upgrade(reader, writer)
        while True:
            question = await asked(reader)
            await anyio.sleep(delay)
            told = {"id": question["id"], "result": {**USUAL, **answers}.get(str(question["method"]), {})}
            session = question.get("sessionId")
            writer.write(said(told if session is None else {**told, "sessionId": session}))

    return play


PICTURE = "Page.captureScreenshot"
TREE = "Accessibility.getFullAXTree"
RUN = "Runtime.callFunctionOn"
WRONG: list[tuple[str, dict[str, object], str, object]] = [
    ("screenshot", {}, PICTURE, {}),
    ("screenshot", {}, PICTURE, {"data": 5}),
    ("screenshot", {}, PICTURE, {"data": "no base64!"}),
    ("screenshot", {}, PICTURE, {"data": base64.b64encode(b"GIF89a").decode()}),
    ("screenshot", {"form": "jpeg"}, PICTURE, {"data": base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()}),
    ("screenshot", {}, PICTURE, {"data": "A" * (23 << 20)}),
    ("screenshot", {"full": True}, "Page.getLayoutMetrics", {"cssContentSize": {"width": "9", "height": 9}}),
    ("snapshot", {}, TREE, {"nodes": {}}),
    ("snapshot", {}, TREE, {"nodes": [5]}),
    ("snapshot", {}, TREE, {"nodes": [{"nodeId": 5}]}),
    ("snapshot", {}, TREE, {"nodes": [{"nodeId": "1", "role": []}]}),
    ("snapshot", {}, TREE, {"nodes": [{"nodeId": "1", "childIds": [5]}]}),
    ("snapshot", {}, TREE, {"nodes": [{}] * 100_001}),
    ("snapshot", {}, RUN, {"result": {"value": 5}}),
    ("snapshot", {}, RUN, {"result": {"value": {"elements": "1"}}}),
    ("read", {}, RUN, {"result": {"value": {"cut": "no"}}}),
    ("read", {}, "Page.createIsolatedWorld", {"executionContextId": {}}),
    ("evaluate", {"expression": "1"}, "Runtime.evaluate", {"result": {"value": 5}}),
    ("goto", {"url": "about:blank"}, "Page.navigate", {"errorText": 5}),
    ("back", {}, "Page.getNavigationHistory", {"currentIndex": 1, "entries": [{"id": {}}]}),
    ("tabs", {}, "Target.attachToTarget", {"sessionId": ""}),
]


@pytest.mark.parametrize(("verb", "arguments", "method", "wrong"), WRONG)
async def test_a_wrong_answer_to_any_verb_is_malformed(
    verb: str, arguments: dict[str, object], method: str, wrong: object
) -> None:
    async with browser(answering({method: wrong})) as dial:
        chrome = Chrome(dial)
        with anyio.fail_after(15), pytest.raises(ProtocolError):
            await getattr(chrome, verb)(**arguments)
        chrome.drop()


@pytest.mark.slow
async def test_an_act_of_many_calls_has_one_time_for_all() -> None:
    async with browser(answering({}, delay=0.01)) as dial:
        chrome = Chrome(dial, act_seconds=SOON)
        with anyio.fail_after(SOON + 15), pytest.raises(DeskError, match="did not finish this action"):
            await chrome.press(["a"] * 200)
        chrome.drop()


def test_facts_of_wrong_types_are_malformed() -> None:
    told = UntrustedObject(
        {"text": 5, "number": "5", "truth": 1, "list": {}, "object": [], "yes": True, "huge": 10**30}
    )
    for read in (told.read_text, told.read_number, told.read_integer):
        with pytest.raises(ProtocolError):
            read("list")
    for name, kind in (("text", told.read_text), ("number", told.read_number), ("truth", told.flag),
                       ("list", told.read_list), ("object", told.read_object), ("yes", told.read_number),
                       ("huge", told.read_integer)):  # fmt: skip
        with pytest.raises(ProtocolError):
            kind(name)


def test_half_a_character_is_replaced() -> None:
    told = UntrustedObject(parse(rb'{"a": "x\ud800y"}'))
    assert told.read_text("a") == "x?y"
