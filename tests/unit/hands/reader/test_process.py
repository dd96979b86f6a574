"""Tests of the reader's process, in this process and without its jail."""

from __future__ import annotations

import asyncio
import socket

import anyio
import pytest

from hotdesk.errors import DeskError
from hotdesk.hands.reader import SCREEN_PORT
from hotdesk.hands.reader.process import Ear, ReaderProcess

pytestmark = pytest.mark.anyio


async def test_a_dial_that_the_owner_never_answers_fails() -> None:
    line, owner = socket.socketpair()
    hand, gives = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with line, owner, hand, gives:
        line.setblocking(False)
        process = ReaderProcess(line, hand, {}, stuck=30.0, patience=0.2)
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: Ear(process), sock=line)
        with anyio.fail_after(10), pytest.raises(DeskError, match=r"port 5900 .* within 0 s"):
            await process.dial(SCREEN_PORT)
        assert process.dialled == {}
        transport.close()
        await process.over.wait()
