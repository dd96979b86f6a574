"""Give a fork of a desk its own host name: a program of a few instructions, generated here and run once in the fork.

The name is in the sentry's memory, so a fork starts with that of its origin. Setting it needs CAP_SYS_ADMIN inside the
sentry. No program from the desk's files gets that: root inside may have replaced any of them.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable

from hotdesk.desk.room.layout import LINK
from hotdesk.desk.room.room import Room
from hotdesk.desk.wall.gvisor import bundle, sentry
from hotdesk.desk.wall.gvisor import runsc as program
from hotdesk.desk.wall.gvisor.runsc import BUNDLE, CONTAINER, RENAME, ROOT_LOG, Runsc

_SYS_ADMIN = 21
FILE = "rename"
"""The program's name in the folder that a desk can read and not write."""
_HEADER, _PROGRAM_HEADER = 64, 56
_BASE = 0x400000
_MACHINES = {"aarch64": 183, "x86_64": 62}
"""Architectures as numbered in an ELF header."""


def _write_code(machine: str, length: int) -> bytes:
    """Return instructions that set the host name to the bytes that follow them, and exit with the result."""
    if machine == "aarch64":
        # movz x8, 161 (sethostname); adr x0, NAME; movz x1, LENGTH; svc 0; movz x8, 93 (exit); svc 0
        words = (0xD2801428, 0x100000A0, 0xD2800001 | length << 5, 0xD4000001, 0xD2800BA8, 0xD4000001)
        return struct.pack("<6I", *words)
    # mov eax, 170 (sethostname); lea rdi, [NAME]; mov esi, LENGTH
    setting = b"\xb8\xaa\0\0\0\x48\x8d\x3d\x10\0\0\0\xbe" + struct.pack("<I", length)
    # syscall; mov edi, eax; mov eax, 60 (exit); syscall
    return setting + b"\x0f\x05\x89\xc7\xb8\x3c\0\0\0\x0f\x05"


def build_program(name: str, machine: str) -> bytes:
    """Return an executable that sets the host name and exits."""
    text = name.encode()
    body = _write_code(machine, len(text)) + text
    size = _HEADER + _PROGRAM_HEADER + len(body)
    start = _BASE + _HEADER + _PROGRAM_HEADER
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack(
        "<HHIQQQIHHHHHH", 2, _MACHINES[machine], 1, start, _HEADER, 0, 0, _HEADER, _PROGRAM_HEADER, 1, 0, 0, 0
    )
    loaded = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x10000)
    return ident + header + loaded + body


def prepare(room: Room, settings: bundle.GvisorBundle) -> None:
    path = room.folder / "link" / FILE
    path.unlink(missing_ok=True)
    path.write_bytes(build_program(room.desk[:12], os.uname().machine))
    os.chmod(path, 0o500)
    os.chown(path, room.base, room.base)
    process = bundle.build_guest_process(settings, 0, ["CAP_SYS_ADMIN"], {}, "/", [])
    (room.folder / BUNDLE / RENAME).write_text(json.dumps({**process, "args": [f"{LINK}/{FILE}"]}))


def begin(runsc: Runsc, room: Room, userns: int) -> Callable[[], bool]:
    """Start a confined process for renaming a fork; return a function that renames it once the fork runs."""
    asking = sentry.Asking(runsc, room, userns, lambda: sentry.run_once(f"{LINK}/{FILE}", _SYS_ADMIN))

    def rename() -> bool:
        is_named = asking.do(0)
        asking.end()
        if is_named:
            return True
        arguments = ["exec", f"--process=/{BUNDLE}/{RENAME}", CONTAINER]
        return program.wait(program.start_inside(runsc, room, userns, ROOT_LOG, arguments)) == 0

    return rename
