"""Tests of the seccomp profile's promises, by evaluating its rules as libseccomp would."""

from __future__ import annotations

import errno
from functools import cache
from typing import Any

import pytest

from hotdesk.desk.wall.container import seccomp

ALLOW = 0
"""The result of `verdict` for a call that passes; for a refused one it is the errno."""

FORBIDDEN = """
mount umount2 umount unshare setns bpf keyctl add_key request_key io_uring_setup io_uring_enter io_uring_register
perf_event_open userfaultfd kexec_load kexec_file_load init_module finit_module delete_module pivot_root chroot
open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr open_by_handle_at name_to_handle_at process_vm_readv
process_vm_writev pidfd_getfd kcmp quotactl swapon swapoff reboot syslog acct settimeofday clock_settime adjtimex
clock_adjtime sethostname setdomainname fanotify_init lookup_dcookie vhangup iopl ioperm modify_ldt io_setup io_submit
splice tee vmsplice clone3 mbind move_pages migrate_pages set_mempolicy nfsservctl uselib ustat sysfs _sysctl
get_kernel_syms create_module query_module cachestat listmount statmount lsm_set_self_attr mlockall sync
""".split()

COMMON = """
read write openat close mmap munmap mprotect brk futex execve exit_group wait4 pipe2 dup3 fcntl getdents64 newfstatat
statx epoll_pwait ppoll rt_sigaction rt_sigprocmask kill tgkill getrandom clock_nanosleep unlinkat renameat2 linkat
symlinkat fchmodat fchownat ftruncate fsync inotify_add_watch timerfd_create eventfd2 signalfd4 memfd_create
""".split()


def holds(test: dict[str, Any], arguments: tuple[int, ...]) -> bool:
    """Return whether one comparison of a rule is true; arguments are unsigned 64-bit numbers."""
    given = (arguments[test["index"]] if test["index"] < len(arguments) else 0) & 0xFFFFFFFFFFFFFFFF
    value = test["value"]
    match test["op"]:
        case "SCMP_CMP_EQ":
            return bool(given == value)
        case "SCMP_CMP_NE":
            return bool(given != value)
        case "SCMP_CMP_GT":
            return bool(given > value)
        case "SCMP_CMP_LT":
            return bool(given < value)
        case "SCMP_CMP_MASKED_EQ":
            return bool(given & value == test["valueTwo"])
    raise AssertionError(f"an operation this test does not know: {test}")


@cache
def rules_for(name: str, requests: seccomp.IoctlRequests | None = None) -> list[dict[str, Any]]:
    rules: Any = seccomp.build_profile("aarch64", requests)["syscalls"]
    return [rule for rule in rules if name in rule["names"]]


def verdict(name: str, *arguments: int, requests: seccomp.IoctlRequests | None = None) -> int:
    """Return the result of a call; rules that disagree are an error, because their order has no meaning."""
    rules = rules_for(name, requests)
    matching = [rule for rule in rules if all(holds(test, arguments) for test in rule.get("args", []))]
    outcomes = {ALLOW if rule["action"] == "SCMP_ACT_ALLOW" else int(rule["errnoRet"]) for rule in matching}
    assert len(outcomes) <= 1, f"{name}{arguments} is both allowed and refused"
    return outcomes.pop() if outcomes else errno.ENOSYS


def allowed(name: str, *arguments: int) -> bool:
    return any(
        rule["action"] == "SCMP_ACT_ALLOW" and all(holds(test, arguments) for test in rule.get("args", []))
        for rule in rules_for(name)
    )


@pytest.mark.parametrize("machine", ["aarch64", "x86_64"])
def test_only_the_native_architecture_gets_in(machine: str) -> None:
    profile = seccomp.build_profile(machine)
    assert profile["architectures"] == [f"SCMP_ARCH_{machine.upper()}"]
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert profile["defaultErrnoRet"] == errno.ENOSYS
    assert set(profile) <= {"defaultAction", "defaultErrnoRet", "architectures", "syscalls"}


def test_rules_only_allow_or_answer_an_errno() -> None:
    rules: Any = seccomp.build_profile("aarch64")["syscalls"]
    assert {rule["action"] for rule in rules} == {"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"}
    assert all("errnoRet" in rule for rule in rules if rule["action"] == "SCMP_ACT_ERRNO")


@pytest.mark.parametrize("name", FORBIDDEN)
def test_no_rule_lets_a_dangerous_call_through(name: str) -> None:
    rules: Any = seccomp.build_profile("aarch64")["syscalls"]
    assert not [rule for rule in rules if name in rule["names"] and rule["action"] == "SCMP_ACT_ALLOW"]


@pytest.mark.parametrize("name", COMMON)
def test_ordinary_calls_pass(name: str) -> None:
    assert verdict(name) == ALLOW


def test_no_call_is_both_allowed_and_refused_outright() -> None:
    assert not set(seccomp.ALLOWED) & set(seccomp.REFUSED)
    assert len(seccomp.ALLOWED) == len(set(seccomp.ALLOWED))


UNIX, INET, INET6, NETLINK, PACKET, ALG, VSOCK, XDP = 1, 2, 10, 16, 17, 38, 40, 44
STREAM, DGRAM, RAW, SEQPACKET = 1, 2, 3, 5
CLOEXEC_NONBLOCK = 0o2000000 | 0o4000


@pytest.mark.parametrize(
    ("family", "kind", "protocol", "answer"),
    [
        (UNIX, STREAM, 0, ALLOW),
        (UNIX, SEQPACKET | CLOEXEC_NONBLOCK, 0, ALLOW),
        (INET, STREAM, 0, ALLOW),
        (INET, STREAM | CLOEXEC_NONBLOCK, 6, ALLOW),
        (INET, DGRAM, 17, ALLOW),
        (INET6, DGRAM | CLOEXEC_NONBLOCK, 0, ALLOW),
        (INET6, STREAM, 6, ALLOW),
        (NETLINK, RAW, 0, ALLOW),
        (INET, STREAM, 262, errno.EPROTONOSUPPORT),  # MPTCP
        (INET, STREAM, 132, errno.EPROTONOSUPPORT),  # SCTP
        (INET, DGRAM, 136, errno.EPROTONOSUPPORT),  # UDPLITE
        (INET, DGRAM, 1, errno.EPROTONOSUPPORT),  # ping
        (INET6, DGRAM, 58, errno.EPROTONOSUPPORT),
        (INET, RAW, 255, errno.EPROTONOSUPPORT),
        (INET, RAW, 0, errno.EPROTONOSUPPORT),
        (INET, RAW, 6, errno.EPROTONOSUPPORT),
        (INET6, SEQPACKET, 0, errno.EPROTONOSUPPORT),
        (INET, STREAM, 1 << 32 | 6, 0),  # the kernel reads 32 bits: this is TCP
        (INET, STREAM, 1 << 32 | 262, errno.EPROTONOSUPPORT),
        (1 << 32 | PACKET, STREAM, 0, errno.EAFNOSUPPORT),
        (NETLINK, RAW, 9, errno.EPROTONOSUPPORT),
        (NETLINK, RAW, 12, errno.EPROTONOSUPPORT),  # netfilter
        (NETLINK, RAW, 16, errno.EPROTONOSUPPORT),
        (PACKET, RAW, 768, errno.EAFNOSUPPORT),
        (ALG, SEQPACKET, 0, errno.EAFNOSUPPORT),
        (VSOCK, STREAM, 0, errno.EAFNOSUPPORT),
        (XDP, RAW, 0, errno.EAFNOSUPPORT),
        (0, STREAM, 0, errno.EAFNOSUPPORT),
        (46, STREAM, 0, errno.EAFNOSUPPORT),
        (1000, STREAM, 0, errno.EAFNOSUPPORT),
        (0xFFFFFFFF, STREAM, 0, errno.EAFNOSUPPORT),
    ],
)
def test_a_socket_family_is_allowed_or_refused(family: int, kind: int, protocol: int, answer: int) -> None:
    assert verdict("socket", family, kind, protocol) == answer


@pytest.mark.slow
def test_no_other_socket_ever_passes() -> None:
    for family in range(60):
        for kind in range(16):
            for protocol in (*range(20), 58, 89, 132, 136, 255, 256, 262, 263):
                if allowed("socket", family, kind, protocol):
                    inet = family in (INET, INET6) and (kind, protocol) in {
                        (STREAM, 0), (STREAM, 6), (DGRAM, 0), (DGRAM, 17),
                    }  # fmt: skip
                    assert family == UNIX or inet or (family, protocol) == (NETLINK, 0)


def test_pairs_are_unix_only() -> None:
    assert verdict("socketpair", UNIX, STREAM, 0) == ALLOW
    for family in (0, INET, INET6, NETLINK, PACKET, XDP, 1 << 32 | PACKET):
        assert verdict("socketpair", family, STREAM, 0) == errno.EAFNOSUPPORT


@pytest.mark.parametrize("flag", seccomp.NAMESPACE_FLAGS)
def test_no_clone_makes_a_namespace(flag: int) -> None:
    assert not allowed("clone", flag)
    assert not allowed("clone", flag | 0x00010F00 | 17)
    profile: Any = seccomp.build_profile("aarch64")
    refusals = [rule for rule in profile["syscalls"] if rule["names"] == ["clone"] and "errnoRet" in rule]
    assert any(holds(rule["args"][0], (flag,)) for rule in refusals)


def test_ordinary_clones_pass() -> None:
    assert allowed("clone", 17)
    assert allowed("clone", 0x3D0F00)  # a thread of glibc
    assert verdict("clone3") == errno.ENOSYS


def test_all_namespace_flags_are_known() -> None:
    assert sum(seccomp.NAMESPACE_FLAGS) == 0x7E020000


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("mknodat", (0, 0, 0o100644), ALLOW),
        ("mknodat", (0, 0, 0o010644), ALLOW),
        ("mknodat", (0, 0, 0o020644), errno.EPERM),
        ("mknodat", (0, 0, 0o060644), errno.EPERM),
        ("mknod", (0, 0o020000), errno.EPERM),
        ("ptrace", (16, 2), ALLOW),
        ("ptrace", (16, 1), errno.EPERM),
        ("prlimit64", (0, 7, 1), ALLOW),
        ("prlimit64", (0, 4, 0), ALLOW),
        ("prlimit64", (0, 4, 1), errno.EPERM),
        ("setrlimit", (7,), ALLOW),
        ("setrlimit", (4,), errno.EPERM),
        ("seccomp", (1, 0), ALLOW),
        ("seccomp", (1, 8), errno.EPERM),
        ("seccomp", (1, 9), errno.EPERM),
        ("personality", (0,), ALLOW),
        ("personality", (0x40000,), errno.ENOSYS),
        ("setsockopt", (3, 1, 2), ALLOW),  # SO_REUSEADDR
        ("setsockopt", (3, 1, 26), errno.EPERM),  # SO_ATTACH_FILTER
        ("setsockopt", (3, 1, 50), errno.EPERM),
        ("setsockopt", (3, 6, 1), ALLOW),  # TCP_NODELAY
        ("setsockopt", (3, 6, 31), errno.EPERM),  # TCP_ULP
        ("setsockopt", (3, 17, 100), errno.EPERM),  # UDP_ENCAP
        ("setsockopt", (3, 263, 5), errno.ENOSYS),
    ],
)
def test_one_harmful_use_of_a_call_is_refused(name: str, arguments: tuple[int, ...], answer: int) -> None:
    assert verdict(name, *arguments) == answer


BTRFS_SUBVOLUME, FICLONE, FIONBIO, KVM_RUN = 0x5000940E, 0x40049409, 0x5421, 0xAE80


def test_ioctls_are_admitted_by_request_where_a_wall_lists_them() -> None:
    listed = seccomp.IoctlRequests((FIONBIO,))
    assert verdict("ioctl", 3, FIONBIO, requests=listed) == ALLOW
    assert verdict("ioctl", 3, 0xFFFFFFFF00000000 | FIONBIO, requests=listed) == ALLOW, "the kernel reads 32 bits"
    for request in (BTRFS_SUBVOLUME, FICLONE, KVM_RUN, 0, FIONBIO | 0x40000000):
        assert verdict("ioctl", 3, request) == ALLOW
        assert verdict("ioctl", 3, request, requests=listed) == errno.ENOSYS
    with_kvm = seccomp.IoctlRequests((FIONBIO,), (0xAE00,))
    for request in (KVM_RUN, 0xC008AE05):
        assert verdict("ioctl", 3, request, requests=with_kvm) == ALLOW
    assert verdict("ioctl", 3, BTRFS_SUBVOLUME, requests=with_kvm) == errno.ENOSYS
