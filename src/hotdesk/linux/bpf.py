"""Seccomp filters: the system calls that door, keys, readers and volumes may make once they are confined.

An allow-list: every other call fails with EPERM, and a call of a foreign architecture kills the process.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Collection
from typing import TypeAlias

Test: TypeAlias = tuple[int, int, int]
"""A word of the call's data, a mask, and the value that its masked bits must have."""
Cases: TypeAlias = tuple[tuple[Test, ...], ...]
"""Alternatives: the call is admitted if all tests of one of them pass."""

ARCHITECTURES = {"aarch64": 0xC00000B7, "x86_64": 0xC000003E}
NUMBERS = {"aarch64": 0, "x86_64": 1}

SHARED = """
accept4:242:288 accept:202:43 brk:214:12 clock_getres:114:229 clock_gettime:113:228 clock_nanosleep:115:230 close:57:3
connect:203:42 epoll_create1:20:291 epoll_ctl:21:233 epoll_pwait2:441:441 epoll_pwait:22:281 eventfd2:19:290
exit:93:60 exit_group:94:231 faccessat2:439:439 faccessat:48:269 fchmod:52:91 fchown:55:93 fcntl:25:72 fdatasync:83:75
flock:32:73 fstat:80:5 fsync:82:74 ftruncate:46:77 futex:98:202 getcwd:17:79 getdents64:61:217 getegid:177:108
geteuid:175:107 getgid:176:104 getpeername:205:52 getpid:172:39 getrandom:278:318 getrusage:165:98 getsockname:204:51
getsockopt:209:55 gettid:178:186 gettimeofday:169:96 getuid:174:102 ioctl:29:16 linkat:37:265 listen:201:50 lseek:62:8
madvise:233:28 mkdirat:34:258 mmap:222:9 mprotect:226:10 mremap:216:25 munmap:215:11 nanosleep:101:35
newfstatat:79:262 openat2:437:437 openat:56:257 pipe2:59:293 ppoll:73:271 pread64:67:17 prlimit64:261:302
pselect6:72:270 pwrite64:68:18 read:63:0 readlinkat:78:267 readv:65:19 recvfrom:207:45 recvmsg:212:47
renameat2:276:316 renameat:38:264 restart_syscall:128:219 rt_sigaction:134:13 rt_sigprocmask:135:14
rt_sigreturn:139:15 sched_getaffinity:123:204 sched_yield:124:24 sendmsg:211:46 sendto:206:44 setitimer:103:38
setsockopt:208:54 shutdown:210:48 sigaltstack:132:131 socket:198:41 socketpair:199:53 tgkill:131:234 uname:160:63
unlinkat:35:263 write:64:1 writev:66:20
"""
_OLDER = "access:21 epoll_wait:232 lstat:6 poll:7 readlink:89 rename:82 select:23 stat:4 time:201 unlink:87"
"""Calls that only x86_64 has."""

TABLE: dict[str, tuple[int | None, int]] = {
    **{name: (int(arm), int(intel)) for name, arm, intel in (entry.split(":") for entry in SHARED.split())},
    **{name: (None, int(intel)) for name, intel in (entry.split(":") for entry in _OLDER.split())},
}
"""The numbers of all calls named above, on aarch64 (`None`: it lacks the call) and x86_64."""

_DIALLING = frozenset("accept accept4 connect listen setsockopt socket".split())
_STORING = frozenset(
    "access faccessat faccessat2 fchmod fchown fdatasync flock fsync ftruncate linkat pwrite64 readlink readlinkat "
    "rename renameat renameat2".split()
)
_NAMING = frozenset("getcwd getdents64 lstat newfstatat openat stat unlink unlinkat".split())
"""Calls that take a path."""
_TIMING = frozenset({"setitimer"})
_TREES = frozenset({"mkdirat", "openat2"})
DOOR = frozenset(TABLE) - _STORING - _TIMING - _TREES
"""Calls of the door: internet sockets, a scratch folder, memory and time."""
KEYS = frozenset(TABLE) - _DIALLING - _TIMING - _TREES
"""Calls of keys: sockets passed to it, the files of a database, memory and time."""
READER = frozenset(TABLE) - _STORING - _NAMING - _DIALLING - _TREES | {"setsockopt"}
"""Calls of a reader: sockets passed to it, memory and time."""
VOLUME = KEYS - frozenset({"flock", "linkat", "socketpair"}) | _TREES
"""Calls of a volume process: sockets passed to it, files and directories, memory and time."""

LOAD, AND, EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM
NUMBER, ARCHITECTURE = 0, 4
INT = 0xFFFFFFFF
_CURRENT_FOLDER = -100 & INT
PROT_EXEC = 4
KINDS, STREAM = 0xF, 1
COMMANDS = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030)
"""Allowed `fcntl` commands: duplicates, flags and locks; no leases, and no signals to other processes."""
REQUESTS = (0x5421, 0x5450, 0x5451, 0x541B)
"""Allowed `ioctl` requests: set blocking mode and close-on-exec, count readable bytes."""
OPTIONS = {socket.SOL_SOCKET: (2, 7, 8, 9, 13), socket.IPPROTO_TCP: (1, 3, 4, 5, 6, 18)}
"""Allowed `setsockopt` options: address reuse, buffers, keepalive, linger; no delay, cork, keepalive times, timeout."""


def _compute_low_offset(argument: int) -> int:
    return 16 + 8 * argument


def _admit_one_of(argument: int, values: Collection[int]) -> Cases:
    return tuple(((_compute_low_offset(argument), INT, value),) for value in values)


def _build_conditions(pid: int) -> dict[str, Cases]:
    plain_memory: Cases = (((_compute_low_offset(2), PROT_EXEC, 0),),)
    return {
        "fcntl": _admit_one_of(1, COMMANDS),
        "ioctl": _admit_one_of(1, REQUESTS),
        "mmap": plain_memory,
        "mprotect": plain_memory,
        "prlimit64": (((_compute_low_offset(2), INT, 0), (_compute_low_offset(2) + 4, INT, 0)),),
        "setsockopt": tuple(
            ((_compute_low_offset(1), INT, level), (_compute_low_offset(2), INT, option))
            for level, options in OPTIONS.items()
            for option in options
        ),
        "socket": tuple(
            ((_compute_low_offset(0), INT, family), (_compute_low_offset(1), KINDS, STREAM))
            for family in (socket.AF_INET, socket.AF_INET6)
        ),
        "socketpair": _admit_one_of(0, [socket.AF_UNIX]),
        "tgkill": _admit_one_of(0, [pid]),
    }


def build_program(machine: str, names: Collection[str], pid: int) -> bytes:
    """Return the filter for one process on an architecture, as named by `platform.machine()`."""
    code = [encode_instruction(LOAD, ARCHITECTURE), encode_instruction(EQUAL, ARCHITECTURES[machine], 1, 0)]
    code += [encode_instruction(RETURN, KILL), encode_instruction(LOAD, NUMBER)]
    tests = _build_conditions(pid) | ({} if "fsync" in names else {"openat": _admit_one_of(0, [_CURRENT_FOLDER])})
    for name in sorted(names):
        number = TABLE[name][NUMBERS[machine]]
        if number is not None:
            body = _build_admission(tests.get(name))
            code += [encode_instruction(EQUAL, number, 0, len(body)), *body]
    return b"".join([*code, encode_instruction(RETURN, REFUSE)])


def _build_admission(cases: Cases | None) -> list[bytes]:
    """Return the instructions for one call: admit it always, or in the given cases."""
    if cases is None:
        return [encode_instruction(RETURN, ALLOW)]
    body: list[bytes] = []
    for tests in cases:
        for position, (word, mask, value) in enumerate(tests):
            onward = 3 * (len(tests) - position - 1) + 1
            body += [
                encode_instruction(LOAD, word),
                encode_instruction(AND, mask),
                encode_instruction(EQUAL, value, 0, onward),
            ]
        body.append(encode_instruction(RETURN, ALLOW))
    return [*body, encode_instruction(RETURN, REFUSE)]


def encode_instruction(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_so, if_not, value)
