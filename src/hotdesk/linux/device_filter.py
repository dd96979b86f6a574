"""Device rules on cgroup v2: a BPF program that the kernel calls when a process in a cgroup opens a device."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from functools import cache

from hotdesk.linux.libc import check, libc

_SYS_BPF = {"aarch64": 280, "x86_64": 321}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_TYPE_CGROUP_DEVICE, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI, _REPLACE = 15, 6, 2, 4
_CHARACTER, _MAKES_NODE = 2, 1 << 16
"""The first word of the program's context: the kind of device in the lower half, the requested access in the upper."""
_LOAD, _COPY, _AND, _SET, _EXIT = 0x61, 0xBF, 0x57, 0xB7, 0x95
_EQUAL, _NOT_EQUAL, _HAS_BIT, _JUMP = 0x15, 0x55, 0x45, 0x05
_ATTR_SIZE = 128


def encode_instruction(code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("=BBhi", code, target | source << 4, offset, value)


def build_program(devices: Iterable[str]) -> bytes:
    """Return the program that admits reading and writing these character devices, such as `c 1:3` or `c 136:*`."""
    tests = []
    for device in devices:
        kind, _, numbers = device.partition(" ")
        first, _, second = numbers.partition(":")
        if kind != "c":
            raise ValueError(f"{device!r} is not a character device such as 'c 1:3'")
        tests.append((int(first), None if second == "*" else int(second)))
    code = [
        *(
            encode_instruction(_LOAD, 2 + word, 1, 4 * word) for word in range(3)
        ),  # r2: requested access and kind; r3: major number; r4: minor number
        encode_instruction(_SET, 0, value=0),
        encode_instruction(_COPY, 5, 2),
        encode_instruction(_AND, 5, value=0xFFFF),
    ]
    refuse = len(code) + 2 + 2 * len(tests)
    code.append(encode_instruction(_NOT_EQUAL, 5, offset=refuse - len(code) - 1, value=_CHARACTER))
    code.append(encode_instruction(_HAS_BIT, 2, offset=refuse - len(code) - 1, value=_MAKES_NODE))
    for wanted_major, wanted_minor in tests:
        code.append(encode_instruction(_NOT_EQUAL, 3, offset=1, value=wanted_major))
        admit = refuse + 1 - len(code) - 1
        if wanted_minor is None:
            code.append(encode_instruction(_JUMP, offset=admit))
        else:
            code.append(encode_instruction(_EQUAL, 4, offset=admit, value=wanted_minor))
    return b"".join([*code, encode_instruction(_EXIT), encode_instruction(_SET, 0, value=1), encode_instruction(_EXIT)])


def call(command: int, attributes: bytes, what: str) -> int:
    buffer = ctypes.create_string_buffer(attributes, _ATTR_SIZE)
    return check(libc.syscall(_SYS_BPF[os.uname().machine], command, buffer, _ATTR_SIZE), what)


@cache
def load(devices: tuple[str, ...]) -> int:
    """Load the program into the kernel, once per process; return its file descriptor."""
    code = ctypes.create_string_buffer(build_program(devices))
    text = ctypes.create_string_buffer(b"Apache-2.0")
    head = struct.pack(
        "=IIQQ", _TYPE_CGROUP_DEVICE, len(build_program(devices)) // 8, *map(ctypes.addressof, (code, text))
    )
    return call(_PROG_LOAD, head, "load the device filter")


def attach(folder: str, devices: tuple[str, ...], instead_of: tuple[str, ...] = ()) -> None:
    """Admit only these devices in a cgroup, until it is removed; `instead_of` names those of the filter to replace."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = _ALLOW_MULTI | _REPLACE if instead_of else _ALLOW_MULTI
        replaced = load(instead_of) if instead_of else 0
        values = struct.pack("=IIIII", fd, load(devices), _ATTACH_CGROUP_DEVICE, flags, replaced)
        call(_PROG_ATTACH, values, "attach the device filter")
    finally:
        os.close(fd)
