"""The system calls to try inside a desk: data, with the answer the filter must give.

The arguments are such that the kernel alone would answer differently, so that the answer shows whether the filter is
active. For example, the kernel refuses a clone that shares threads but no signals, a socket with an impossible flag, or
a device below a missing folder as EINVAL or ENOENT, but the filter refuses them before that with another error. No call
does harm if the rule is missing.
"""

from __future__ import annotations

from hotdesk.dataclass import dataclass

NUMBERS = {
    "add_key": (217, 248),
    "adjtimex": (171, 159),
    "bpf": (280, 321),
    "chroot": (51, 161),
    "clock_settime": (112, 227),
    "clone": (220, 56),
    "clone3": (435, 435),
    "fanotify_init": (262, 300),
    "fsconfig": (431, 431),
    "fsopen": (430, 430),
    "getpid": (172, 39),
    "io_setup": (0, 206),
    "io_submit": (2, 209),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "kcmp": (272, 312),
    "keyctl": (219, 250),
    "mbind": (235, 237),
    "migrate_pages": (238, 256),
    "mknodat": (33, 259),
    "mlockall": (230, 151),
    "mount": (40, 165),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (239, 279),
    "name_to_handle_at": (264, 303),
    "open_by_handle_at": (265, 304),
    "open_tree": (428, 428),
    "perf_event_open": (241, 298),
    "personality": (92, 135),
    "pidfd_getfd": (438, 438),
    "pivot_root": (41, 155),
    "prlimit64": (261, 302),
    "process_madvise": (440, 440),
    "process_vm_readv": (270, 310),
    "process_vm_writev": (271, 311),
    "ptrace": (117, 101),
    "quotactl": (60, 179),
    "reboot": (142, 169),
    "remap_file_pages": (234, 216),
    "request_key": (218, 249),
    "seccomp": (277, 317),
    "set_mempolicy": (237, 238),
    "sethostname": (161, 170),
    "setns": (268, 308),
    "setrlimit": (164, 160),
    "setsockopt": (208, 54),
    "settimeofday": (170, 164),
    "socket": (198, 41),
    "socketpair": (199, 53),
    "splice": (76, 275),
    "swapon": (224, 167),
    "syslog": (116, 103),
    "tee": (77, 276),
    "umount2": (39, 166),
    "unshare": (97, 272),
    "userfaultfd": (282, 323),
    "vmsplice": (75, 278),
}
"""Numbers on aarch64 and x86_64: libc does not offer these calls, or wraps them."""
HIGH = 1 << 32
"""A bit that the kernel drops from an int argument, and that a filter must ignore."""
ODD = 1 << 30
"""A flag no socket has: the kernel refuses it as EINVAL before it checks the family."""
_THREAD = 0x10000
"""CLONE_THREAD, which the kernel refuses as EINVAL without CLONE_SIGHAND."""
NAMESPACE_FLAGS = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)


@dataclass(frozen=True, slots=True)
class ProbedCall:
    """A system call: Python code for the prelude in `probes.py`, and the expected answer."""

    what: str
    code: str
    answer: str | int = "EPERM"


def get_numbers(machine: str) -> dict[str, int]:
    column = ("aarch64", "x86_64").index(machine)
    return {name: pair[column] for name, pair in NUMBERS.items()}


def _make_call(what: str, arguments: str, answer: str | int = "EPERM") -> ProbedCall:
    return ProbedCall(what, f"call('{what}', {arguments})", answer)


NAMESPACES = (
    _make_call("unshare", "0"),
    _make_call("setns", "-1, 0"),
    *(ProbedCall(f"clone {flag:#x}", f"call('clone', {flag | _THREAD}, 0, 0, 0, 0)") for flag in NAMESPACE_FLAGS),
    _make_call("clone3", "0, 0", "ENOSYS"),
    _make_call("mount", "1, 1, 1, 0, 0"),
    _make_call("umount2", "b'/none', 0"),
    _make_call("chroot", "b'/none'"),
    _make_call("open_tree", "-1, b'none', 0x7fffffff"),
    _make_call("mount_setattr", "-1, b'', 0x7fffffff, 0, 0"),
    _make_call("fsconfig", "-1, 0, 0, 0, 0"),
)
UNNEEDED = (
    _make_call("bpf", "0, 1, 1 << 20"),
    _make_call("perf_event_open", "1, 0, -1, -1, 0"),
    _make_call("io_uring_setup", "1, 1"),
    _make_call("io_uring_enter", "-1, 0, 0, 1 << 30, 0, 0"),
    _make_call("io_uring_register", "-1, 0, 0, 0"),
    _make_call("userfaultfd", "1"),
    _make_call("keyctl", "0, -1, 0"),
    _make_call("add_key", "b'user', b'x', b'x', 1, -1"),
    _make_call("request_key", "b'user', b'x', 0, 0"),
    _make_call("kcmp", "os.getpid(), os.getpid(), 2, 0, 0"),
    _make_call("name_to_handle_at", "-100, b'/', 1, 1, 0"),
    _make_call("open_by_handle_at", "-100, 1, 0"),
    _make_call("process_vm_readv", "os.getpid(), 0, 0, 0, 0, 0"),
    _make_call("process_vm_writev", "os.getpid(), 0, 0, 0, 0, 0"),
    _make_call("process_madvise", "-1, 0, 0, 0, 1"),
    _make_call("pidfd_getfd", "-1, 0, 0"),
    _make_call("fanotify_init", "0x200 | 1 << 31, 0"),
    _make_call("quotactl", "3, 0, 0, 0"),
    _make_call("mbind", "0, 0, 9999, 0, 0, 0"),
    _make_call("set_mempolicy", "9999, 0, 0"),
    _make_call("move_pages", "0, 0, 0, 0, 0, 1 << 30"),
    _make_call("migrate_pages", "0, 1 << 30, 1, 1"),
    _make_call("remap_file_pages", "0, 0, 0, 0, 0"),
    _make_call("mlockall", "0"),
    _make_call("adjtimex", "0"),
    _make_call("clock_settime", "9999, 0"),
    _make_call("settimeofday", "1, 0"),
    _make_call("io_setup", "8, ctypes.byref(ctypes.c_ulong(0))", "ENOSYS"),
    _make_call("io_submit", "0, 0, 0", "ENOSYS"),
)
_SPLICES = (
    _make_call("splice", "*pipes(), 1, 0", "EINVAL"),
    _make_call("tee", "-1, -1, 1, 0", "EINVAL"),
    _make_call("vmsplice", "-1, 0, 0, 0", "EINVAL"),
)
UNSEEN = (
    _make_call("pivot_root", "1, 1"),
    _make_call("fsopen", "1, 0xffff"),
    _make_call("move_mount", "-1, b'', -1, b'', 0x7fffffff"),
    _make_call("reboot", "0, 0, 0, 0"),
    _make_call("sethostname", "1, 1"),
    _make_call("swapon", "1, 0"),
    _make_call("syslog", "10, 0, 0"),
)
"""Calls that the kernel refuses an ordinary user before any other check, with the same answer as the filter."""
ARGUMENTS = (
    ProbedCall(
        "personality that disables address randomization", "apart(lambda: call('personality', 0x0040000))", "ENOSYS"
    ),
    ProbedCall("personality that maps page zero", "apart(lambda: call('personality', 0x0100000))", "ENOSYS"),
    ProbedCall("a seccomp listener", "apart(lambda: call('seccomp', 1, 8, program()))"),
    ProbedCall("a character device", "call('mknodat', -100, b'/none/c', 0o20666, 0x103)"),
    ProbedCall("a block device", "call('mknodat', -100, b'/none/b', 0o60666, 0x700)"),
    ProbedCall("a lower core size limit", "apart(lambda: call('prlimit64', 0, 4, struct.pack('QQ', 0, 0), 0))"),
    ProbedCall("a lower core size limit by setrlimit", "apart(lambda: call('setrlimit', 4, struct.pack('QQ', 0, 0)))"),
    ProbedCall("tracing pid 1", "call('ptrace', 7, 1, 0, 0)"),
    ProbedCall("tracing pid 1 with high argument bits set", f"call('ptrace', 7, {1 | HIGH}, 0, 0)"),
)
FAMILIES = (
    *(
        ProbedCall(f"family {family}", f"call('socket', {family}, {ODD | 2}, 0)", "EAFNOSUPPORT")
        for family in (*range(47), 255, 17 | HIGH)
        if family not in (1, 2, 10, 16)
    ),
    *(
        ProbedCall(
            f"a socket pair of family {family}", f"call('socketpair', {family}, {ODD | 1}, 0, pair())", "EAFNOSUPPORT"
        )
        for family in (2, 10, 16, 17, 38, 40, 17 | HIGH)
    ),
    *(
        ProbedCall(
            f"a socket of family {family}, protocol {protocol}",
            f"call('socket', {family}, {ODD | kind}, {protocol})",
            answer,
        )
        for family in (2, 10)
        for kind, protocol in ((1, 262), (2, 136), (1, 132), (2, 1), (2, 58), (3, 1), (3, 6), (3, 255), (10, 0))
        for answer in ("EPROTONOSUPPORT",)
    ),
    *(
        ProbedCall(f"netlink protocol {protocol}", f"call('socket', 16, {ODD | 3}, {protocol})", "EPROTONOSUPPORT")
        for protocol in (2, 4, 6, 9, 10, 12, 15, 16, 20, 21)
    ),
)
OPTIONS = (
    ProbedCall("TCP_ULP", "option(1, 6, 31, b'tls')"),
    ProbedCall("UDP_ENCAP", "option(2, 17, 100, struct.pack('i', 2))"),
    ProbedCall("UDP_ENCAP with high argument bits set", f"option(2, 17, {100 | HIGH}, struct.pack('i', 2))"),
    ProbedCall("SO_ATTACH_FILTER", "option(2, 1, 26, program())"),
    ProbedCall("SO_ATTACH_BPF", "option(2, 1, 50, struct.pack('i', -1))"),
    ProbedCall("SO_ATTACH_REUSEPORT_CBPF", "option(2, 1, 51, program())"),
    ProbedCall("SO_ATTACH_REUSEPORT_EBPF", "option(2, 1, 52, struct.pack('i', -1))"),
)
PAGE_CACHE = ("family 33", "family 38", "UDP_ENCAP", "splice", "vmsplice", "clone 0x10000000")
"""Calls that exploits of Copy Fail (CVE-2026-31431) and Dirty Frag (CVE-2026-43284, CVE-2026-43500) need: AF_RXRPC,
AF_ALG, ESP in UDP, splicing pages from files, and a user namespace in which to configure IPsec.
"""
GROUPS = {
    "namespaces": NAMESPACES,
    "unneeded": UNNEEDED,
    "splices": _SPLICES,
    "unseen": UNSEEN,
    "arguments": ARGUMENTS,
    "families": FAMILIES,
    "options": OPTIONS,
}
