"""A guest that attacks its owner with corrupted replies of real guests; an event loop that skips idle time."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import anyio

from hotdesk_guest import wire
from hotdesk_guest.wire import CREDIT, DATA, EVENT, HELLO, OPEN, PONG, REPLY, SIGNAL, encode, encode_frame

Frame: TypeAlias = tuple[int, int, bytes]
Corpus: TypeAlias = dict[str, list[Frame]]
"""Frames of a real guest's reply, by request; their channel was 1."""

GREETING = encode_frame(HELLO, 0, encode({"version": wire.VERSION, "pid": 1, "home": "/home/user"}))
LINGERING = 1000.0
"""Seconds after which a guest that only listens disconnects: some calls wait as long as their program runs."""
SLOW = 30.0
"""Seconds between two pieces sent by a slow guest."""


# -- a clock -----------------------------------------------------------------------------------------------------


class Watch(selectors.EpollSelector):
    """Skips idle time, and measures the longest turn of its loop."""

    def __init__(self, idle: float) -> None:
        super().__init__()
        self.idle = idle
        self.skipped = 0.0
        self.longest = 0.0
        self.turns = 0
        self.since = time.thread_time()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for the sockets, but skip the rest of the timeout when nothing happens."""
        self.turns += 1
        self.longest = max(self.longest, time.thread_time() - self.since)
        found = super().select(timeout if timeout is None else min(timeout, self.idle))
        if not found and timeout is not None and timeout > self.idle:
            self.skipped += timeout - self.idle
        self.since = time.thread_time()
        return found


class Loop(asyncio.SelectorEventLoop):
    """An event loop in which an hour of silence passes in a moment, provided that all peers run in it."""

    def __init__(self, idle: float = 0.0005) -> None:
        self.watch = Watch(idle)
        self.trouble: list[str] = []
        super().__init__(self.watch)
        self.set_exception_handler(lambda _, what: self.trouble.append(f"{what['message']}: {what.get('exception')!r}"))

    def time(self) -> float:
        return super().time() + self.watch.skipped


class RealLoop(Loop):
    """The same with a clock that skips nothing: for peers in other threads and processes."""

    def __init__(self) -> None:
        super().__init__(3600.0)


def run(work: Callable[..., Any], *arguments: object, loop: type[Loop] = Loop) -> Watch:
    """Run `work` to its end and fail on unhandled exceptions; return the watch of its loop."""
    made: list[Loop] = []

    def make() -> Loop:
        made.append(loop())
        return made[0]

    begin = functools.partial(anyio.run, backend_options={"loop_factory": make})
    contextvars.Context().run(begin, work, *arguments)  # a fresh context, without what other tests' loops left in ours
    assert not made[0].trouble, made[0].trouble
    return made[0].watch


# -- memory ------------------------------------------------------------------------------------------------------


@contextmanager
def memory_within(limit: int) -> Iterator[None]:
    """Fail if this process's memory grows by more than `limit` bytes during the block."""
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmHWM")
    yield
    grown = resident("VmHWM") - before
    assert grown < limit, f"{grown >> 20} MiB more than before"


def resident(line: str, pid: int | str = "self") -> int:
    """Return one of a process's memory figures in /proc, in bytes."""
    return int(Path(f"/proc/{pid}/status").read_text().partition(f"{line}:")[2].split()[0]) * 1024


# -- corrupting replies --------------------------------------------------------------------------------------------


class Raw(bytes):
    """A value in its wire form, however malformed."""


STRANGE = [
    *map(Raw, (b"n", b"t", b"f", b"i0;", b"i-1;", b"i256;", b"i-99999999999999999999;", b"i99999999999999999999;")),
    *map(
        Raw,
        (b"s0:", b"b0:", b"le", b"de", b"s1:\xff", b"s3:\xed\xa0\x80", b"s4:a\0/b", b"s2:..", b"s1:/", b"s8:../../.."),
    ),
    *map(
        Raw, (b"l" * 7 + b"n" + b"e" * 7, b"l" * 30, b"i" + b"9" * 30 + b";", b"i-;", b"s-1:", b"s999999:x", b"e", b"?")
    ),
    Raw(b"s5000:" + b"x" * 5000),
    Raw(b"s9:\x1b[31mevil"),
    Raw(b"l" + b"n" * 3000 + b"e"),
    Raw(b"d" + b"s0:n" * 3000 + b"e"),
    Raw(b"s7:missing"),
    Raw(b"s9:directory"),
    Raw(b"s7:symlink"),
]
"""Values that no honest guest sends in that place."""


def render(value: object) -> bytes:
    if isinstance(value, Raw):
        return bytes(value)
    if isinstance(value, list):
        return b"l" + b"".join(map(render, value)) + b"e"
    if isinstance(value, dict):
        return b"d" + b"".join(render(part) for pair in value.items() for part in pair) + b"e"
    return encode(value)


def spoil_value(chance: Random, value: object) -> object:
    if isinstance(value, list) and value and chance.random() < 0.8:
        changed = list(value)
        place = chance.randrange(len(changed))
        act = chance.random()
        if act < 0.6:
            changed[place] = spoil_value(chance, changed[place])
        elif act < 0.8:
            changed *= chance.randrange(5)
        else:
            del changed[place]
        return changed
    if isinstance(value, dict) and value and chance.random() < 0.9:
        name = chance.choice(sorted(value))
        if chance.random() < 0.2:
            return {key: item for key, item in value.items() if key != name}
        return {**value, name: spoil_value(chance, value[name])}
    return chance.choice(STRANGE)


def spoil_payload(chance: Random, payload: bytes) -> bytes:
    """Corrupt a frame's payload: as a value if it is one, else as bytes."""
    if chance.random() < 0.7:
        try:
            return render(spoil_value(chance, wire.decode(payload)))
        except wire.WireError:
            pass
    return spoil_bytes(chance, payload)


def spoil_bytes(chance: Random, data: bytes) -> bytes:
    """Flip, cut, double or add bytes."""
    place = chance.randrange(len(data) + 1)
    match chance.randrange(5):
        case 0:
            return data[:place]
        case 1:
            return data[:place] + chance.randbytes(chance.choice((1, 4, 50, 3000))) + data[place:]
        case 2:
            return data + data[place:]
        case 3:
            return data[:place] + data[place + 1 :]
    flipped = bytearray(data or b"\0")
    flipped[place % len(flipped)] ^= 1 << chance.randrange(8)
    return bytes(flipped)


def any_frame(chance: Random, last: int) -> Frame:
    kinds = sorted(wire.GUEST_KINDS) if chance.random() < 0.9 else range(256)
    number = chance.choice((0, 1, last, last, last, last + 1, 0xFFFFFFFF, chance.randrange(1, last + 2)))
    payload = bytes(chance.choice(STRANGE))
    match chance.randrange(6):
        case 0:
            payload = chance.randbytes(chance.choice((0, 1, 2, 4, 100, 5000)))
        case 1:
            payload = chance.choice((0, 1, 1000, wire.WINDOW, 1 << 30, (1 << 32) - 1)).to_bytes(4, "big")
        case 2:
            payload = bytes((chance.choice((0, 1, 2, 3, 255)),)) + bytes(chance.choice((0, 1, 1000, 32768, 60000)))
        case 3:
            payload = render({"code": 0, "pid": 7, "entry": chance.choice(STRANGE), "error": chance.choice(STRANGE)})
    return chance.choice(list(kinds)), number, payload


def spoil_frames(chance: Random, frames: list[Frame], last: int) -> list[Frame]:
    """Change one thing in a reply: a frame, the order of frames, or their number."""
    changed = list(frames)
    place = chance.randrange(len(changed)) if changed else 0
    act = chance.randrange(8) if changed else 0
    if act == 0:
        changed.insert(place, any_frame(chance, last))
    elif act == 1:
        del changed[place]
    elif act == 2:
        changed.insert(place, changed[place])
    elif act == 3:
        chance.shuffle(changed)
    elif act == 4:
        changed.append(changed.pop(place))
    elif act == 5:
        kind, number, payload = changed[place]
        changed[place] = (chance.choice(sorted(wire.GUEST_KINDS)), number, payload)
    else:
        kind, number, payload = changed[place]
        changed[place] = (kind, number, spoil_payload(chance, payload))
    return changed


# -- the guest ---------------------------------------------------------------------------------------------------


def asked(ask: dict[str, Any]) -> str:
    return f"{ask.get('op')}{'+tell' if ask.get('tell') else ''}"


class HostileGuest:
    """A guest for one link, honest except that it corrupts each reply with a given probability."""

    def __init__(self, sock: socket.socket, corpus: Corpus, chance: Random, malice: float) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.corpus = corpus
        self.chance = chance
        self.malice = malice
        self.reader = wire.FrameReader(wire.HOST_KINDS, wire.HOST_LIMIT)
        self.last = 1
        self.said = 0
        self.style = chance.choice(("whole", "whole", "pieces", "bytes", "slow") if malice else ("whole",))
        self.gone = False

    def wicked(self) -> bool:
        return self.chance.random() < self.malice

    async def run(self) -> None:
        """Greet, and reply until the host disconnects or `LINGERING` seconds are over."""
        with self.sock, anyio.move_on_after(LINGERING):
            await self.say(GREETING if not self.wicked() else spoil_bytes(self.chance, GREETING))
            while not self.gone and (frames := await self.hear()) is not None:
                for kind, number, payload in frames:
                    await self.take(kind, number, payload)

    async def take(self, kind: int, number: int, payload: bytes) -> None:
        if kind == OPEN:
            self.last = number
            await self.answer(number, self.corpus.get(asked(self.request(payload)), []))
        elif kind == DATA:
            size = len(payload) - 1 if not self.wicked() else self.chance.choice((0, 1, 1 << 20, (1 << 32) - 1))
            await self.say(encode_frame(CREDIT, number, size.to_bytes(4, "big")))
        elif kind == SIGNAL and "drain" in (order := self.request(payload)):
            await self.answer(number, [(EVENT, number, encode([{"drained": order["drain"]}]))])
        elif self.wicked():
            await self.say(encode_frame(*any_frame(self.chance, self.last)))

    def request(self, payload: bytes) -> dict[str, Any]:
        """Decode a request of the host; empty if it is malformed, as a borrower may make it."""
        try:
            found = wire.decode(payload)
        except wire.WireError:
            return {}
        return found if isinstance(found, dict) else {}

    async def answer(self, number: int, frames: list[Frame]) -> None:
        mine = [(kind, number, payload) for kind, _, payload in frames]
        while self.wicked():
            mine = spoil_frames(self.chance, mine, self.last)
        data = b"".join(encode_frame(*each) for each in mine)
        if self.wicked() and self.wicked():
            data = spoil_bytes(self.chance, data)
        await self.say(data)
        if self.wicked() and self.wicked():
            self.break_off()

    def break_off(self) -> None:
        how = self.chance.choice((socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR, None))
        try:
            if how is None:
                self.gone = True
            else:
                self.sock.shutdown(how)
        except OSError:
            pass  # the host did before

    async def say(self, data: bytes) -> None:
        """Send bytes in this guest's style, until the host stops reading."""
        self.said += 1
        for piece in self.pieces(data):
            view = memoryview(piece)
            while view:
                try:
                    view = view[self.sock.send(view) :]
                except BlockingIOError:
                    await anyio.wait_writable(self.sock)
                except OSError:
                    return
            if len(piece) < len(data):
                await anyio.sleep(SLOW if self.style == "slow" else 0)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        size = {"whole": len(data) or 1, "bytes": 1, "slow": max(1, len(data) // 7)}.get(self.style)
        if len(data) > 3000 and self.style == "bytes":
            size = 1000
        at = 0
        while at < len(data):
            step = size or self.chance.randint(1, 200)
            yield data[at : at + step]
            at += step

    async def hear(self) -> list[Frame] | None:
        """Wait for frames; None if the host disconnected."""
        while True:
            try:
                data = self.sock.recv(1 << 16)
            except BlockingIOError:
                await anyio.wait_readable(self.sock)
                continue
            except OSError:
                return None
            if not data:
                return None
            if frames := self.reader.feed(data):
                return frames


class Flood(threading.Thread):
    """A guest in a thread of its own: it greets, waits for a request, then repeats one message without end.

    A patient one stays within its credit; otherwise the host must have closed the channel, or will close the link.
    """

    def __init__(self, sock: socket.socket, noise: bytes, patient: bool) -> None:
        super().__init__(daemon=True)
        self.sock = sock
        self.noise = noise
        self.patient = patient
        self.reader = wire.FrameReader(wire.HOST_KINDS, wire.HOST_LIMIT)
        self.credit = wire.WINDOW
        self.sent = 0

    def run(self) -> None:
        frames = wire.FrameReader(wire.GUEST_KINDS, wire.GUEST_LIMIT).feed(self.noise)
        price = sum(wire.compute_cost(payload) for _, _, payload in frames)
        with self.sock:
            try:
                self.sock.sendall(GREETING)
                self.hear()
                while True:
                    while self.patient and self.credit < price:
                        self.hear()
                    self.sock.sendall(self.noise)
                    self.credit -= price
                    self.sent += len(self.noise)
            except OSError:
                pass

    def hear(self) -> None:
        """Receive frames of the host, and add up the credit."""
        data = self.sock.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        for kind, _, payload in self.reader.feed(data):
            if kind == CREDIT:
                self.credit += int.from_bytes(payload, "big")


IGNORED: dict[str, bytes] = {
    "tiny frames": encode_frame(PONG, 0) * 7000,
    "credit": encode_frame(CREDIT, 1, bytes(4)) * 5000,
    "words on a channel that is over": encode_frame(DATA, 1, b"\1x") * 6000,
    "large values on a channel that is over": encode_frame(REPLY, 1, b"l" + b"le" * 30_000 + b"e"),
}
"""Frames that a guest may send without end, and the host ignores."""
HEARD: dict[str, bytes] = {
    "bytes": encode_frame(DATA, 1, b"\1" + bytes(wire.CHUNK)),
    "single bytes": encode_frame(DATA, 1, b"\1x") * 1000,
    "tiny values": encode_frame(EVENT, 1, b"n") * 1000,
    "values of many parts": encode_frame(EVENT, 1, b"l" + b"s0:" * 4000 + b"e") * 4,
    "nested values": encode_frame(EVENT, 1, b"l" + b"llleee" * 1200 + b"e") * 8,
}
"""Frames that a guest may send as fast as they are consumed."""
