"""Root inside a desk, as its owner handles it: every act is recorded before it begins."""

from __future__ import annotations

from contextlib import suppress

import anyio.to_thread

from hotdesk.config import MIB
from hotdesk.desk.link.channel import GuestEvent
from hotdesk.desk.link.link import Link
from hotdesk.errors import HostError, HotdeskError, LinkError
from hotdesk.event import Event, Note, RootAct, RootActEnded, to_json
from hotdesk_guest import wire

MAX_NOTED_BYTES = 16 * MIB
"""Bytes of acts recorded per desk, so that it cannot fill its host's journal."""
MAX_ACTS = 1 << 32
"""Upper bound of act numbers, more than a desk can have recorded."""


class RootLedger:
    """The record of root's acts in one desk, across all its guests for root."""

    def __init__(self, desk: str, note: Note, room: int = MAX_NOTED_BYTES) -> None:
        self.desk = desk
        self.note = note
        self.room = room

    async def write(self, event: Event) -> None:
        """Write an event to disk, in a thread, because the owner serves other callers."""
        await anyio.to_thread.run_sync(self.note, event)

    async def enter(self, event: Event) -> bool:
        """Record an act of the desk; return False if its quota is used up, or recording fails."""
        size = len(to_json(event))
        if size > self.room:
            return False
        self.room -= size
        try:
            await self.write(event)
        except HostError:
            return False
        return True


def note_programs(link: Link, ledger: RootLedger) -> None:
    """Record every program started over the link to the guest for root, whichever caller requested it."""

    async def note(payload: bytes) -> None:
        ask = wire.decode(payload)
        if isinstance(ask, dict) and ask.get("op") == "exec":
            argv = ask.get("argv")
            await ledger.write(RootAct(ledger.desk, "owner", _as_argv(argv), str(ask.get("cwd") or "")))

    link.opening = note


async def supervise(link: Link, ledger: RootLedger) -> None:
    """Record and allow `sudo` requests until the link ends. A request that cannot be recorded is refused."""
    running: set[int] = set()
    with suppress(HotdeskError):
        channel = await link.open({"op": "acts"})
        while link.failure is None:
            item = await channel.receive()
            match item.value if isinstance(item, GuestEvent) else None:
                case {"act": int(number), "argv": list(argv), "cwd": str(cwd)} if 0 < number < MAX_ACTS:
                    allowed = await ledger.enter(RootAct(ledger.desk, "sudo", _as_argv(argv), cwd, number))
                    if allowed:
                        running.add(number)
                    await channel.order({"act": number, "allow": allowed})
                case {"act": int(number), "code": int(code)} if number in running and 0 <= code < 256:
                    running.remove(number)
                    await ledger.enter(RootActEnded(ledger.desk, number, code))
                case _:
                    link.break_off(
                        LinkError(
                            f"hotdesk's process for root in desk {ledger.desk} sent a malformed record of a command; "
                            "burn the desk and open another"
                        )
                    )


def _as_argv(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
