"""Tests of the seccomp rules: every system call they restrict, with the errno it must return."""

from __future__ import annotations

import os
import signal
import struct

import pytest

from hotdesk.desk.seam import Desk
from tests.security.conftest import Attack, Rows
from tests.security.guards import (
    ALL_CAPABILITIES,
    CALLS_ALLOWED,
    FIRST_PROCESS_TRACED,
    Removal,
    falls_without,
    no_guard,
)

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

HIGH = 1 << 32
"""Bits the kernel drops from an int argument, which must not mislead a filter."""

NAMESPACES: Rows = {
    "unshare a user namespace": ("call('unshare', 0x10000000)", "EPERM"),
    "unshare nothing": ("call('unshare', 0)", "EPERM"),
    "join a namespace": ("call('setns', -1, 0)", "EPERM"),
    "join the namespaces of a pidfd": ("call('setns', call('pidfd_open', os.getpid(), 0), 0x7f)", "EPERM"),
    "clone into a user namespace": ("call('clone', 0x10000011, 0, 0, 0, 0)", "EPERM"),
    "clone into a mount namespace": ("call('clone', 0x00020011, 0, 0, 0, 0)", "EPERM"),
    "clone into a user and a pid namespace": ("call('clone', 0x30000011, 0, 0, 0, 0)", "EPERM"),
    "clone into a user and a network namespace": ("call('clone', 0x50000011, 0, 0, 0, 0)", "EPERM"),
    "clone into an odd mix": ("call('clone', 0x40000800 | 0x200, 0, 0, 0, 0)", "EPERM"),
    "clone3, whose flags no filter sees": ("call('clone3', 0, 0)", "ENOSYS"),
    "clone3 into a cgroup": ("call('clone3', struct.pack('11Q', 0x200000000, *[0] * 9, 0), 88)", "ENOSYS"),
    "mount": ("call('mount', 1, 1, 1, 0, 0)", "EPERM"),
    "umount": ("call('umount2', b'/none', 0)", "EPERM"),
    "pivot_root": ("call('pivot_root', 1, 1)", "EPERM"),
    "chroot": ("call('chroot', b'/none')", "EPERM"),
    "fsopen": ("call('fsopen', 1, 0xffff)", "EPERM"),
    "fsconfig": ("call('fsconfig', -1, 0, 0, 0, 0)", "EPERM"),
    "fsmount": ("call('fsmount', -1, 0, 0)", "EPERM"),
    "fspick": ("call('fspick', -1, b'/none', 0)", "EPERM"),
    "open_tree": ("call('open_tree', -1, b'none', 0x7fffffff)", "EPERM"),
    "move_mount": ("call('move_mount', -1, b'', -1, b'', 0x7fffffff)", "EPERM"),
    "mount_setattr": ("call('mount_setattr', -1, b'', 0x7fffffff, 0, 0)", "EPERM"),
    "open_tree_attr, newer than the list": ("call('open_tree_attr', -1, b'none', 0x7fffffff, 0, 0)", "ENOSYS"),
    "statmount, which tells of other mounts": ("call('statmount', 0, 0, 0, 0)", "ENOSYS"),
    "listmount, which lists them": ("call('listmount', 0, 0, 0, 0)", "ENOSYS"),
    "sethostname": ("call('sethostname', 1, 4)", "EPERM"),
    "setdomainname": ("call('setdomainname', 1, 4)", "EPERM"),
}
UNNEEDED: Rows = {
    "bpf": ("call('bpf', 0, 1, 1 << 20)", "EPERM"),
    "perf_event_open": ("call('perf_event_open', 1, 0, -1, -1, 0)", "EPERM"),
    "io_uring_setup": ("call('io_uring_setup', 1, 1)", "EPERM"),
    "io_uring_enter": ("call('io_uring_enter', -1, 0, 0, 0, 0, 0)", "EPERM"),
    "io_uring_register": ("call('io_uring_register', -1, 0, 0, 0)", "EPERM"),
    "userfaultfd": ("call('userfaultfd', 1)", "EPERM"),
    "keyctl": ("call('keyctl', 0, -1, 0)", "EPERM"),
    "add_key": ("call('add_key', b'user', b'x', b'x', 1, -1)", "EPERM"),
    "request_key": ("call('request_key', b'user', b'x', 0, 0)", "EPERM"),
    "kcmp": ("call('kcmp', os.getpid(), os.getpid(), 2, 0, 0)", "EPERM"),
    "name_to_handle_at": ("call('name_to_handle_at', -100, b'/', 1, 1, 0)", "EPERM"),
    "open_by_handle_at": ("call('open_by_handle_at', -100, 1, 0)", "EPERM"),
    "process_vm_readv": ("call('process_vm_readv', os.getpid(), 0, 0, 0, 0, 0)", "EPERM"),
    "process_vm_writev": ("call('process_vm_writev', os.getpid(), 0, 0, 0, 0, 0)", "EPERM"),
    "process_madvise": ("call('process_madvise', -1, 0, 0, 0, 0xff)", "EPERM"),
    "process_mrelease": ("call('process_mrelease', -1, 0)", "ENOSYS"),
    "pidfd_getfd": ("call('pidfd_getfd', -1, 0, 0)", "EPERM"),
    "remap_file_pages": ("call('remap_file_pages', 0, 0, 0, 0, 0)", "EPERM"),
    "mlockall": ("call('mlockall', 0)", "EPERM"),
    "mbind": ("call('mbind', 0, 0, 99, 0, 0, 99)", "EPERM"),
    "set_mempolicy": ("call('set_mempolicy', 99, 0, 0)", "EPERM"),
    "set_mempolicy_home_node": ("call('set_mempolicy_home_node', 1, 0, 0, 0)", "ENOSYS"),
    "migrate_pages": ("call('migrate_pages', 1 << 22, 0, 0, 0)", "EPERM"),
    "move_pages": ("call('move_pages', 0, 0, 0, 0, 0, 0xff)", "EPERM"),
    "cachestat, which tells what others read": ("call('cachestat', -1, 0, 0, 1)", "ENOSYS"),
    "fanotify_init": ("call('fanotify_init', 0x200, 0)", "EPERM"),
    "adjtimex": ("call('adjtimex', 0)", "EPERM"),
    "clock_adjtime": ("call('clock_adjtime', 0, 1)", "EPERM"),
    "clock_settime": ("call('clock_settime', 99, 0)", "EPERM"),
    "settimeofday": ("call('settimeofday', 1, 0)", "EPERM"),
    "syslog": ("call('syslog', 10, 0, 0)", "EPERM"),
    "reboot": ("call('reboot', 0, 0, 0, 0)", "EPERM"),
    "acct": ("call('acct', b'/none')", "EPERM"),
    "swapon": ("call('swapon', b'/none', 0)", "EPERM"),
    "swapoff": ("call('swapoff', b'/none')", "EPERM"),
    "quotactl": ("call('quotactl', 0xff, 0, 0, 0)", "EPERM"),
    "quotactl_fd": ("call('quotactl_fd', -1, 0, 0, 0)", "ENOSYS"),
    "vhangup": ("call('vhangup')", "EPERM"),
    "lookup_dcookie": ("call('lookup_dcookie', 0, 0, 0)", "EPERM"),
    "nfsservctl": ("call('nfsservctl', 0, 0, 0)", "EPERM"),
    "load a module": ("call('init_module', 0, 0, b'')", "EPERM"),
    "load a module by descriptor": ("call('finit_module', -1, b'', 0)", "EPERM"),
    "unload a module": ("call('delete_module', b'none', 0)", "EPERM"),
    "load a kernel": ("call('kexec_load', 0, 0, 0, 0)", "EPERM"),
    "load a kernel by descriptor": ("call('kexec_file_load', -1, -1, 0, 0, 0)", "EPERM"),
    "io_setup": ("call('io_setup', 8, ctypes.byref(ctypes.c_ulong(0)))", "ENOSYS"),
    "io_submit": ("call('io_submit', 0, 0, 0)", "ENOSYS"),
    "io_getevents": ("call('io_getevents', 0, 0, 0, 0, 0)", "ENOSYS"),
    "io_destroy": ("call('io_destroy', 0)", "ENOSYS"),
    "io_cancel": ("call('io_cancel', 0, 0, 0)", "ENOSYS"),
    "splice": ("call('splice', *pipes(), 1, 0)", "EINVAL"),
    "tee": ("call('tee', -1, -1, 1, 0)", "EINVAL"),
    "vmsplice": ("call('vmsplice', -1, 0, 0, 0)", "EINVAL"),
    "sync, which does nothing and says so": ("(call('sync'), os.sync())[0]", 0),
    "a number no kernel has": ("name(-1) and call_number(1 << 20)", "ENOSYS"),
}
ARGUMENTS: Rows = {
    "personality without random addresses": ("call('personality', 0x0040000)", "ENOSYS"),
    "personality that maps page zero": ("call('personality', 0x0100000)", "ENOSYS"),
    "personality that makes data executable": ("call('personality', 0x0400000)", "ENOSYS"),
    "personality asked only": ("call('personality', 0xffffffff)", 0),
    "a seccomp listener": ("call('seccomp', 1, 8, program())", "EPERM"),
    "a seccomp listener beside another flag": ("call('seccomp', 1, 9 | 1 << 33, program())", "EPERM"),
    "a character device": ("call('mknodat', -100, b'/tmp/c', 0o20666, 0x103)", "EPERM"),
    "a block device": ("call('mknodat', -100, b'/tmp/b', 0o60666, 0x700)", "EPERM"),
    "a whiteout": ("call('mknodat', -100, b'/dev/shm/w', 0o20000, 0)", "EPERM"),
    "a pipe in the file system": ("call('mknodat', -100, b'/tmp/f%d' % os.getpid(), 0o10600, 0)", 0),
    "lower the core limit": ("call('prlimit64', 0, 4, struct.pack('QQ', 0, 0), 0)", "EPERM"),
    "lower the core limit by setrlimit": ("call('setrlimit', 4, struct.pack('QQ', 0, 0))", "EPERM"),
    "lower the core limit with high bits": (
        f"(call('prlimit64', 0, 4 | {HIGH}, struct.pack('QQ', 0, 0), 0), resource.getrlimit(4)[1])[1]",
        1,
    ),
    "lower the core limit by setrlimit with high bits": (
        f"(call('setrlimit', 4 | {HIGH}, struct.pack('QQ', 0, 0)), resource.getrlimit(4)[1])[1]",
        1,
    ),
    "ask the core limit": ("call('prlimit64', 0, 4, 0, ctypes.create_string_buffer(16))", 0),
    "ptrace pid 1": ("call('ptrace', 7, 1, 0, 0)", "EPERM"),
    "ptrace pid 1 with high bits": (f"call('ptrace', 7, 1 | {HIGH}, 0, 0)", "EPERM"),
}
SOCKETS: Rows = {
    "MPTCP": ("call('socket', 2, 1, 262)", "EPROTONOSUPPORT"),
    "MPTCP on IPv6": ("call('socket', 10, 1, 262)", "EPROTONOSUPPORT"),
    "UDPLITE": ("call('socket', 2, 2, 136)", "EPROTONOSUPPORT"),
    "SCTP": ("call('socket', 2, 1, 132)", "EPROTONOSUPPORT"),
    "ICMP without root": ("call('socket', 2, 2, 1)", "EPROTONOSUPPORT"),
    "a raw socket": ("call('socket', 2, 3, 1)", "EPROTONOSUPPORT"),
    "a raw socket of TCP": ("call('socket', 2, 3, 6)", "EPROTONOSUPPORT"),
    "a raw socket on IPv6": ("call('socket', 10, 3, 58)", "EPROTONOSUPPORT"),
    "a raw socket of any protocol": ("call('socket', 2, 3, 255)", "EPROTONOSUPPORT"),
    "a socket of type packet": ("call('socket', 2, 10, 0)", "EPROTONOSUPPORT"),
    "a protocol with high bits": (f"call('socket', 2, 1, 262 | {HIGH})", "EPROTONOSUPPORT"),
    "a family with high bits": (f"call('socket', 17 | {HIGH}, 3, 0)", "EAFNOSUPPORT"),
    "netlink of routes": ("call('socket', 16, 3, 0) > 2", True),
    **{
        f"netlink protocol {number}": (f"call('socket', 16, 3, {number})", "EPROTONOSUPPORT")
        for number in (2, 4, 6, 9, 10, 12, 15, 16, 20, 21)
    },
    **{
        f"socket family {family} of type {kind}": (f"call('socket', {family}, {kind}, 0)", "EAFNOSUPPORT")
        for family in (*range(47), 255)
        if family not in (1, 2, 10, 16)
        for kind in ((2,) if family not in (17, 31, 38, 40) else (1, 2, 3, 5))
    },
    **{
        f"socketpair family {family}": (f"call('socketpair', {family}, 1, 0, ctypes.byref(pair()))", "EAFNOSUPPORT")
        for family in (0, 2, 10, 15, 16, 17, 30, 31, 38, 40, 44, 45, 17 | HIGH)
    },
    "socketpair of unix": ("call('socketpair', 1, 1, 0, ctypes.byref(pair()))", 0),
}
OPTIONS: Rows = {
    "TCP_ULP": ("option(1, 6, 31, b'tls')", "EPERM"),
    "TCP_ULP with high bits": (f"option(1, 6, 31 | {HIGH}, b'tls')", "EPERM"),
    "UDP_ENCAP": ("option(2, 17, 100, struct.pack('i', 2))", "EPERM"),
    "UDP_ENCAP with high bits": (f"option(2, 17, 100 | {HIGH}, struct.pack('i', 2))", "EPERM"),
    "SO_ATTACH_FILTER": ("option(2, 1, 26, bpf())", "EPERM"),
    "SO_ATTACH_FILTER with high bits": (f"option(2, 1, 26 | {HIGH}, bpf())", "EPERM"),
    "SO_ATTACH_BPF": ("option(2, 1, 50, struct.pack('i', -1))", "EPERM"),
    "SO_ATTACH_REUSEPORT_CBPF": ("option(2, 1, 51, bpf())", "EPERM"),
    "SO_ATTACH_REUSEPORT_EBPF": ("option(2, 1, 52, struct.pack('i', -1))", "EPERM"),
    "TCP_NODELAY, which is fine": ("option(1, 6, 1, struct.pack('i', 1))", 0),
    "SO_KEEPALIVE, which is fine": ("option(1, 1, 9, struct.pack('i', 1))", 0),
    "SO_INCOMING_CPU, which is fine": ("option(1, 1, 49, struct.pack('i', 0))", 0),
}
ROWS: Rows = NAMESPACES | UNNEEDED | ARGUMENTS | SOCKETS | OPTIONS
"""A row must fail without its rule: the kernel alone answers its arguments differently, wherever that is possible.

The rows for which the kernel's own answer is the same are listed in `no_guard` below.
"""

TOOLS = """
keep = []

def pipes():
    (r1, w1), (r2, w2) = os.pipe(), os.pipe()
    os.write(w1, b"x")
    return r1, 0, w2, 0

def pair():
    return (ctypes.c_int * 2)()

def call_number(number):
    given["syscalls"]["it"] = number
    return call("it")

def bpf():
    code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xffff))
    keep.append(code)
    return struct.pack("HxxxxxxQ", 1, ctypes.addressof(code))

def program():
    code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
    keep.append(code)
    return struct.pack("HxxxxxxQ", 1, ctypes.addressof(code))

def option(kind, level, number, value):
    s = socket.socket(socket.AF_INET, kind)
    return call("setsockopt", s.fileno(), level, number, value, len(value))
"""


@falls_without(
    "calls that are known and refused",
    CALLS_ALLOWED,
    cases="""
    unshare a user namespace | unshare nothing | join a namespace | join the namespaces of a pidfd | mount |
    umount | chroot | fsconfig | open_tree | mount_setattr | bpf | perf_event_open | io_uring_setup |
    io_uring_enter | io_uring_register | userfaultfd | keyctl | add_key | request_key | kcmp | name_to_handle_at |
    open_by_handle_at | process_vm_readv | process_vm_writev | process_madvise | pidfd_getfd | remap_file_pages |
    mlockall | mbind | set_mempolicy | migrate_pages | move_pages | fanotify_init | adjtimex | clock_adjtime |
    clock_settime | settimeofday | quotactl | lookup_dcookie | nfsservctl | load a module |
    load a module by descriptor | unload a module | load a kernel | load a kernel by descriptor
    """,
)
@falls_without(
    "calls that are refused, and the capabilities they need",
    CALLS_ALLOWED,
    *ALL_CAPABILITIES,
    cases="pivot_root | fsopen | fsmount | fspick | move_mount | sethostname | setdomainname | reboot",
)
@falls_without(
    "calls nobody has listed",
    Removal(
        "container/seccomp.py",
        '"defaultAction": "SCMP_ACT_ERRNO",\n        "defaultErrnoRet": errno.ENOSYS,\n',
        '"defaultAction": "SCMP_ACT_ALLOW",\n',
    ),
    cases="""
    open_tree_attr, newer than the list | statmount, which tells of other mounts | listmount, which lists them |
    process_mrelease | set_mempolicy_home_node | cachestat, which tells what others read | quotactl_fd | io_setup |
    io_submit | io_getevents | io_destroy | io_cancel | personality without random addresses |
    personality that maps page zero | personality that makes data executable
    """,
)
@falls_without(
    "clone without namespaces",
    Removal(
        "container/seccomp.py",
        'rules += [refuse("clone", errno.EPERM, match_bits(0, flag, flag)) for flag in NAMESPACE_FLAGS]',
        'rules = [allow("clone")]',
    ),
    cases="""
    clone into a user namespace | clone into a user and a pid namespace |
    clone into a user and a network namespace | clone into an odd mix
    """,
)
@falls_without(
    "no clone3",
    Removal("container/seccomp.py", 'refuse("clone3", errno.ENOSYS)', 'allow("clone3")'),
    cases="clone3, whose flags no filter sees | clone3 into a cgroup",
)
@falls_without(
    "socket families",
    Removal(
        "container/seccomp.py",
        'rules += [refuse("socket", errno.EAFNOSUPPORT, test) for test in',
        'rules += [allow("socket", test) for test in',
    ),
    cases="""
    a family with high bits | socket family 44 of type 2 | socket family 17 of type 1 | socket family 17 of type 2 |
    socket family 17 of type 3 | socket family 17 of type 5 | socket family 40 of type 1 |
    socket family 40 of type 2 | socket family 40 of type 3 | socket family 40 of type 5
    """,
)
@falls_without(
    "pairs of unix sockets only",
    Removal(
        "container/seccomp.py",
        'rules += [refuse("socketpair", errno.EAFNOSUPPORT, test) for test in',
        'rules += [allow("socketpair", test) for test in',
    ),
    cases="""
    socketpair family 2 | socketpair family 10 | socketpair family 16 | socketpair family 17 |
    socketpair family 40 | socketpair family 44 | socketpair family 4294967313
    """,
)
@falls_without(
    "TCP and UDP only",
    Removal(
        "container/seccomp.py",
        'rules.append(allow("socket", *tests) if fits else refuse("socket", errno.EPROTONOSUPPORT, *tests))',
        'rules.append(allow("socket", *tests) if fits or True else {})',
    ),
    Removal(
        "container/seccomp.py",
        'refuse("socket", errno.EPROTONOSUPPORT, match_equal(0, family), test)\n',
        'allow("socket", match_equal(0, family), test)\n',
    ),
    cases="""
    MPTCP | MPTCP on IPv6 | UDPLITE | ICMP without root | a raw socket | a raw socket of TCP |
    a raw socket on IPv6 | a raw socket of any protocol | a socket of type packet | a protocol with high bits
    """,
)
@falls_without(
    "netlink of routes only",
    Removal(
        "container/seccomp.py",
        'rules += [refuse("socket", errno.EPROTONOSUPPORT, match_equal(0, NETLINK), test) for',
        'rules += [allow("socket", match_equal(0, NETLINK), test) for',
    ),
    cases="""
    netlink protocol 2 | netlink protocol 4 | netlink protocol 6 | netlink protocol 9 | netlink protocol 10 |
    netlink protocol 12 | netlink protocol 15 | netlink protocol 16
    """,
)
@falls_without(
    "socket options",
    Removal(
        "container/seccomp.py",
        'refuse("setsockopt", errno.EPERM, match_equal(1, level), match_equal(2, option)) for',
        'allow("setsockopt", match_equal(1, level), match_equal(2, option)) for',
    ),
    cases="""
    TCP_ULP | UDP_ENCAP | SO_ATTACH_FILTER | SO_ATTACH_BPF | SO_ATTACH_REUSEPORT_CBPF | SO_ATTACH_REUSEPORT_EBPF
    """,
)
@falls_without(
    "an int has 32 bits, where it is compared",
    Removal(
        "container/seccomp.py", "    return match_bits(index, INT, value)\n", "    return match_u64(index, value)\n"
    ),
    cases="""
    ptrace pid 1 with high bits | TCP_ULP with high bits | UDP_ENCAP with high bits |
    SO_ATTACH_FILTER with high bits
    """,
)
@falls_without(
    "an int has 32 bits, where all but one value pass",
    Removal(
        "container/seccomp.py",
        "    return cover(31, 0, list(values))\n",
        "    return [match_other(index, *values)] if len(values) == 1 else cover(31, 0, list(values))\n",
    ),
    cases="""
    lower the core limit with high bits | lower the core limit by setrlimit with high bits |
    ptrace pid 1 with high bits
    """,
)
@falls_without(
    "the core limit",
    Removal(
        "container/seccomp.py",
        'refuse("setrlimit", errno.EPERM, match_equal(0, RLIMIT_CORE))',
        'allow("setrlimit", match_equal(0, RLIMIT_CORE))',
    ),
    Removal(
        "container/seccomp.py",
        'refuse("prlimit64", errno.EPERM, match_equal(1, RLIMIT_CORE), match_other(2, 0))',
        'allow("prlimit64", match_equal(1, RLIMIT_CORE), match_other(2, 0))',
    ),
    cases="lower the core limit | lower the core limit by setrlimit",
)
@falls_without("no tracing of the first process", FIRST_PROCESS_TRACED, cases="ptrace pid 1")
@falls_without(
    "no seccomp listener",
    Removal(
        "container/seccomp.py",
        'refuse("seccomp", errno.EPERM, match_bits(1, NEW_LISTENER, NEW_LISTENER))',
        'allow("seccomp", match_bits(1, NEW_LISTENER, NEW_LISTENER))',
    ),
    cases="a seccomp listener | a seccomp listener beside another flag",
)
@falls_without(
    "no splice",
    Removal("container/seccomp.py", 'refuse("splice tee vmsplice", errno.EINVAL)', 'allow("splice tee vmsplice")'),
    cases="splice | tee | vmsplice",
)
@falls_without(
    "no device nodes",
    Removal(
        "container/seccomp.py",
        "refuse(name, errno.EPERM, match_bits(mode, FILE_KINDS_MASK, kind))",
        "allow(name, match_bits(mode, FILE_KINDS_MASK, kind))",
    ),
    cases="a whiteout",
)
@no_guard(
    "it must pass: that the rules are not wider than they need be",
    cases="""
    personality asked only | a pipe in the file system | ask the core limit | netlink of routes |
    socketpair of unix | TCP_NODELAY, which is fine | SO_KEEPALIVE, which is fine | SO_INCOMING_CPU, which is fine
    """,
)
@no_guard(
    "the kernel wants a capability over the host's own user namespace before it looks at anything",
    cases="""
    clone into a mount namespace | syslog | acct | swapon | swapoff | vhangup | a character device | a block device
    """,
)
@no_guard(
    "this machine's kernel was built without it, and answers as the rule does",
    cases=(
        "SCTP",
        *(f"socket family {family} of type {kind}" for family in (31, 38) for kind in (1, 3, 5)),
        *(
            f"socket family {family} of type 2"
            for family in (0, *range(3, 10), *range(11, 16), *range(18, 40), 41, 42, 43, 45, 46, 255)
        ),
        *(f"netlink protocol {protocol}" for protocol in (20, 21)),
        *(f"socketpair family {family}" for family in (0, 15, 30, 31, 38, 45)),
    ),
)
@no_guard("sync says 0 whether it does something or not", cases="sync, which does nothing and says so")
@no_guard("the kernel answers the same", cases="a number no kernel has")
@pytest.mark.parametrize("what", ROWS)
async def test_a_system_call_is_answered_as_the_rules_say(answers: dict[str, object], what: str) -> None:
    assert answers[what] == ROWS[what][1]


def program_of_32_bits() -> bytes:
    """Build a minimal program for this machine's 32-bit sibling architecture: it exits with 42."""
    kind, flags, code = {
        "aarch64": (40, 0x05000000, bytes.fromhex("0170a0e32a00a0e3000000ef")),
        "x86_64": (3, 0, bytes.fromhex("b801000000bb2a000000cd80")),
    }[os.uname().machine]
    base, start = 0x10000, 52 + 32
    ident = b"\x7fELF\x01\x01\x01" + bytes(9)
    header = ident + struct.pack("<HHIIIIIHHHHHH", 2, kind, 1, base + start, 52, 0, flags, 52, 32, 1, 0, 0, 0)
    size = start + len(code)
    return header + struct.pack("<8I", 1, 0, base, base, size, size, 5, 0x10000) + code


@falls_without(
    "the native architecture only",
    Removal(
        "container/seccomp.py",
        '"architectures": [ARCHITECTURES[machine]],',
        '"architectures": [ARCHITECTURES[machine], {"aarch64": "SCMP_ARCH_ARM", "x86_64": "SCMP_ARCH_X86"}[machine]],',
    ),
)
async def test_no_program_of_32_bits_gets_past_the_filter(desk: Desk, attack: Attack) -> None:
    """Where processor and kernel could run it, the filter kills it at its first call; elsewhere it does not start."""
    await desk.write("/tmp/small", program_of_32_bits(), mode=0o755)
    code = "tell(apart(lambda: attempt(os.execv, '/tmp/small', ['small'])))"
    assert await attack(desk, code) in ("ENOEXEC", f"died {int(signal.SIGSYS)}", f"died {int(signal.SIGSYS) | 0x80}")


HAS_X32 = os.uname().machine == "x86_64"
X32_GUARDED = (
    falls_without(
        "no calls of x32",
        Removal(
            "container/seccomp.py",
            '"architectures": [ARCHITECTURES[machine]],',
            '"architectures": [ARCHITECTURES[machine], "SCMP_ARCH_X32"],',
        ),
    )
    if HAS_X32
    else no_guard("this machine's processor has no such calls")
)


@X32_GUARDED
@pytest.mark.skipif(not HAS_X32, reason="x32 is a set of system calls of x86_64 alone")
async def test_no_call_of_x32_gets_past_the_filter(desk: Desk, attack: Attack) -> None:
    """Without the filter the call returns a process id, or ENOSYS where the kernel has none of them."""
    code = "given['syscalls']['getpid of x32'] = 39 | 1 << 30\ntell(apart(lambda: call('getpid of x32')))"
    assert await attack(desk, code) in (f"died {int(signal.SIGSYS)}", f"died {int(signal.SIGSYS) | 0x80}")
