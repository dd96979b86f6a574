"""MCP over standard input and output: one client, which is gone when it closes its end of the pipe."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator
from dataclasses import field
from typing import Any, cast

import anyio
from mcp.server.stdio import stdio_server

from hotdesk.api.mcp.protocol import build_server
from hotdesk.api.mcp.session import McpSession
from hotdesk.dataclass import dataclass

_MAX_LINE_BYTES = 4 << 20
"""Maximum bytes of a line; a longer one is not a message."""
CHUNK = 1 << 16
_PIPE_BUF = 4096
"""Bytes that a writable pipe accepts at once."""


@dataclass(slots=True)
class Lines:
    """The lines of a pipe, read without a thread, which could not be interrupted."""

    fd: int
    rest: bytearray = field(default_factory=bytearray)

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield each line; for one that is too long, yield a text that is no message."""
        pollable = not stat.S_ISREG(os.fstat(self.fd).st_mode)
        dropped = False
        while True:
            if pollable:
                await anyio.wait_readable(self.fd)
            data = os.read(self.fd, CHUNK)
            if not data:
                return
            *whole, last = bytes(self.rest + data).split(b"\n")
            for line in whole:
                yield "too long" if dropped or len(line) > _MAX_LINE_BYTES else line.decode("utf-8", "replace")
                dropped = False
            self.rest[:] = last
            if len(self.rest) > _MAX_LINE_BYTES:
                self.rest.clear()
                dropped = True


@dataclass(frozen=True, slots=True)
class PipeWriter:
    """A pipe that is written to without a thread."""

    fd: int

    async def write(self, text: str) -> None:
        remaining = memoryview(text.encode())
        while remaining:
            await anyio.wait_writable(self.fd)
            remaining = remaining[os.write(self.fd, remaining[:_PIPE_BUF]) :]

    async def flush(self) -> None:
        """Do nothing: writes are not buffered."""


async def serve(session: McpSession) -> None:
    """Serve one client until it disconnects; then burn its desk."""
    source, sink = _claim_stdio()
    server = build_server(session)
    streams = stdio_server(cast("Any", Lines(source)), cast("Any", PipeWriter(sink)))
    async with streams as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _claim_stdio() -> tuple[int, int]:
    """Reserve standard input and output for the client: what anything else prints goes to standard error."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return source, sink
