"""The reader's process: confined, it gets connections into one desk, and answers its owner's requests."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Coroutine, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

from hotdesk.errors import DeskError
from hotdesk.hands.reader import PARTS, PeerError, ProtocolError, VerbResult, make_reader_frames
from hotdesk.ipc.frames import FrameError, write
from hotdesk.linux import bpf, jail

MEMORY = 1 << 30
"""Bytes of address space: a picture of the screen needs four million, a page's tree a few more."""
FILES = 128
"""File descriptors. Socket buffers are not part of the address space, and a hostile reader could fill many."""
PACKET = 4096
_DIAL_TIMEOUT_S = 180.0
"""Seconds the owner may take to connect: it starts the screen and the browser first, 60 seconds each."""


class ReaderProcess:
    """Serves one owner until it disconnects."""

    def __init__(
        self,
        line: socket.socket,
        hand: socket.socket,
        kinds: dict[str, Any],
        stuck: float,
        patience: float = _DIAL_TIMEOUT_S,
    ) -> None:
        self.line = line
        self.hand = hand
        self.parts = {name: kind(self.dial) for name, kind in kinds.items()}
        self.frames = make_reader_frames()
        self.transport: asyncio.WriteTransport | None = None
        self.requests: dict[int, asyncio.Task[None]] = {}
        self.dialled: dict[int, asyncio.Future[socket.socket]] = {}
        self.number = 0
        self.stuck = stuck
        """Seconds without an iteration of the event loop after which the kernel ends this process."""
        self.patience = patience
        self.joined: set[asyncio.Task[None]] = set()
        self.over = asyncio.Event()

    async def run(self) -> None:
        """Answer requests until the owner is gone."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self.hand, self.take)
        await loop.create_connection(lambda: Ear(self), sock=self.line)
        pulse = loop.create_task(self.pulse())
        await self.over.wait()
        pulse.cancel()

    async def pulse(self) -> None:
        """Reset the watchdog that ends a process whose loop is stuck."""
        while True:
            signal.setitimer(signal.ITIMER_REAL, self.stuck)
            await asyncio.sleep(self.stuck / 6)

    def say(self, message: dict[str, object], blob: bytes = b"") -> None:
        assert self.transport is not None
        self.transport.write(write(message, blob))

    # -- connections ------------------------------------------------------------------------------------------

    async def dial(self, port: int) -> socket.socket:
        self.number += 1
        number = self.number
        self.dialled[number] = asyncio.get_running_loop().create_future()
        try:
            self.say({"dial": number, "port": port})
            return await asyncio.wait_for(self.dialled[number], self.patience)
        except TimeoutError as e:
            raise DeskError(f"hotdesk did not connect to port {port} of the desk within {self.patience:.0f} s") from e
        finally:
            del self.dialled[number]

    def take(self) -> None:
        """Receive a connection: one that was requested, or a viewer's."""
        data, fds, _, _ = socket.recv_fds(self.hand, PACKET, 1, socket.MSG_CMSG_CLOEXEC)
        if not data:
            self.over.set()
            return
        message = json.loads(data)
        sock = socket.socket(fileno=fds[0]) if fds else None
        if sock is not None:
            sock.setblocking(False)
        if "view" in message and sock is not None:
            self.start(self.join(sock, int(message["view"])))
        elif (waiting := self.dialled.get(message.get("dial", 0))) is None or waiting.done():
            if sock is not None:
                sock.close()
        elif sock is None:
            waiting.set_exception(DeskError(str(message.get("text"))))
        else:
            waiting.set_result(sock)

    async def join(self, viewer: socket.socket, number: int) -> None:
        try:
            await self.parts["view"].join(viewer, number)
        except (ProtocolError, DeskError, OSError):
            pass  # a viewer or desk disconnected: the owner sees the connection end
        finally:
            viewer.close()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.joined.add(task)
        task.add_done_callback(self.joined.discard)
        return task

    # -- requests ---------------------------------------------------------------------------------------------

    def hear(self, data: bytes) -> None:
        for message, _ in self.frames.feed(data):
            if "cancel" in message:
                if (task := self.requests.get(int(str(message["cancel"])))) is not None:
                    task.cancel()
                continue
            number = int(str(message["n"]))
            self.requests[number] = self.start(self.answer(number, message))

    async def answer(self, number: int, message: dict[str, object]) -> None:
        try:
            result = await self.do(str(message["verb"]), message["arguments"])
            answer = write({"n": number, "ok": result.value}, result.blob)
        except PeerError as e:
            answer = write({"n": number, "error": "failed", "text": str(e)[:500]})
        except ProtocolError as e:
            answer = write({"n": number, "error": "strange", "text": str(e)[:500]})
        except (DeskError, OSError) as e:
            answer = write({"n": number, "error": "desk", "text": str(e)[:1000]})
        except FrameError as e:
            answer = write({"n": number, "error": "strange", "text": f"the reply is too large: {e}"})
        except Exception as e:  # noqa: BLE001 - a rim: hostile data hit a bug, which must affect this process only
            text = f"hotdesk could not parse what the screen or browser of this desk sent ({repr(e)[:300]})"
            answer = write({"n": number, "error": "defect", "text": text})
        finally:
            self.requests.pop(number, None)
        if self.transport is not None:
            self.transport.write(answer)

    async def do(self, verb: str, arguments: Any) -> VerbResult:
        name, _, method = verb.partition(".")
        part = self.parts[name]
        if method not in part.VERBS:
            raise DeskError(f"unknown request {verb}")
        result: VerbResult = await getattr(part, method)(**arguments)
        return result


class Ear(asyncio.Protocol):
    """The reader's end of the connection to its owner."""

    def __init__(self, reader: ReaderProcess) -> None:
        self.reader = reader

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.reader.transport = transport

    def data_received(self, data: bytes) -> None:
        self.reader.hear(data)

    def connection_lost(self, _why: Exception | None) -> None:
        """End this process together with its owner."""
        self.reader.over.set()


def main(parts: Mapping[str, str] = PARTS) -> None:
    """Serve the owner at file descriptors 3 and 4, in a jail."""
    settings = json.loads(sys.argv[3])
    line, hand = socket.socket(fileno=3), socket.socket(fileno=4)
    for each in (line, hand):
        each.set_inheritable(False)
        each.setblocking(False)
    anyio.run(rehearse)
    kinds = {name: load(path) for name, path in parts.items()}
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    jail.enter(Path(settings["root"]), int(settings["uid"]), bpf.READER, leashed=True)
    gc.freeze()
    asyncio.run(ReaderProcess(line, hand, kinds, float(settings["stuck"])).run())
    os._exit(0)


async def rehearse() -> None:
    """Load the modules that libraries import only at run time."""
    with anyio.fail_after(1):
        await anyio.lowlevel.checkpoint()


def load(path: str) -> Any:
    """Return the class of a part; import everything it needs now, because there are no files later."""
    module, _, kind = path.partition(":")
    found = getattr(import_module(module), kind)
    if warm := getattr(found, "warm", None):
        warm()
    return found
