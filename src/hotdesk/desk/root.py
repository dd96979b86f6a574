"""Root inside a desk, as its owner sees it: every act is written down before it begins."""

from __future__ import annotations

from contextlib import suppress

from hotdesk.config import MIB
from hotdesk.desk.link import Link, Told
from hotdesk.errors import HotdeskError, LinkError
from hotdesk.event import Event, Note, RootAct, RootActEnded
from hotdesk_guest import wire

NOTED = 16 * MIB
"""Bytes of acts one desk may have noted, so that it cannot fill its host's journal."""


def note_programs(link: Link, desk: str, note: Note) -> None:
    """Have every program that is started over root's link noted, whoever of this owner's callers asked."""

    def heard(payload: bytes) -> None:
        ask = wire.decode(payload)
        if isinstance(ask, dict) and ask.get("op") == "exec":
            argv = ask.get("argv")
            note(RootAct(desk, "owner", as_argv(argv), str(ask.get("cwd") or "")))

    link.opening = heard


async def supervise(link: Link, desk: str, note: Note, room: int = NOTED) -> None:
    """Hear what `sudo` asks for, note it, allow it; until the link ends. What is not noted is not allowed."""
    with suppress(HotdeskError):
        channel = await link.open({"op": "acts"})
        while isinstance(item := await channel.receive(), Told):
            room -= item.size
            match item.value:
                case {"act": int(number), "argv": list(argv), "cwd": str(cwd)}:
                    allowed = room > 0 and noted(note, RootAct(desk, "sudo", as_argv(argv), cwd, number))
                    await channel.order({"act": number, "allow": allowed})
                case {"act": int(number), "code": int(code)}:
                    if room > 0:
                        noted(note, RootActEnded(desk, number, code))
                case _:
                    link.break_off(LinkError("root's guest told of an act strangely"))


def noted(note: Note, event: Event) -> bool:
    """Take an event down, or say that it cannot be: a full disk must not end an owner."""
    try:
        note(event)
    except OSError:
        return False
    return True


def as_argv(value: object) -> tuple[str, ...]:
    """Give a command as it is noted."""
    return tuple(map(str, value)) if isinstance(value, list) else ()
