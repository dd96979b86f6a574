"""The system calls a desk may make: an allow-list in OCI's format. Refused calls fail with the error libraries expect.

Unknown calls fail with ENOSYS, so that libc falls back; refused ones with EPERM; socket families that do not exist here
with EAFNOSUPPORT. Only the native architecture is listed, so 32-bit and x32 calls are impossible.
"""

from __future__ import annotations

import errno
from collections.abc import Collection
from typing import TypeAlias

from hotdesk.dataclass import dataclass

Rule: TypeAlias = dict[str, object]
Test: TypeAlias = dict[str, object]

ARCHITECTURES = {"aarch64": "SCMP_ARCH_AARCH64", "x86_64": "SCMP_ARCH_X86_64"}

ALLOWED = """
accept accept4 access alarm arch_prctl bind brk capget capset chdir chmod chown clock_getres clock_gettime
clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1
epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit exit_group faccessat
faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr
flistxattr flock fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_wait futex_wake
futex_requeue futex_waitv futimesat getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer
getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit get_robust_list
getrusage getsid getsockname getsockopt gettid gettimeofday getuid getxattr inotify_add_watch inotify_init
inotify_init1 inotify_rm_watch ioprio_get ioprio_set kill landlock_add_rule landlock_create_ruleset
landlock_restrict_self lchown lgetxattr link linkat listen listxattr llistxattr lremovexattr lseek lsetxattr
lstat madvise map_shadow_stack membarrier memfd_create mincore mkdir mkdirat mlock mlock2 mmap mprotect
mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv msgsnd
msync munlock munlockall munmap nanosleep newfstatat open openat openat2 pause pidfd_open pidfd_send_signal pipe
pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64 preadv preadv2 pselect6 pwrite64 pwritev
pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg removexattr rename renameat
renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn
rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_getaffinity sched_getattr sched_getparam
sched_get_priority_max sched_get_priority_min sched_getscheduler sched_rr_get_interval sched_setaffinity
sched_setattr sched_setparam sched_setscheduler sched_yield select semctl semget semop semtimedop sendfile
sendmmsg sendmsg sendto setfsgid setfsuid setgid setgroups setitimer setpgid setpriority setregid setresgid
setresuid setreuid set_robust_list setsid set_tid_address setuid setxattr shmat shmctl shmdt shmget shutdown
sigaltstack signalfd signalfd4 stat statfs statx symlink symlinkat sync_file_range syncfs sysinfo tgkill time
timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime
timerfd_settime times tkill truncate umask uname unlink unlinkat utime utimensat utimes vfork wait4 waitid write
writev
""".split()

REFUSED = """
acct add_key adjtimex bpf chroot clock_adjtime clock_settime delete_module fanotify_init finit_module fsconfig
fsmount fsopen fspick init_module io_uring_enter io_uring_register io_uring_setup kcmp kexec_file_load
kexec_load keyctl lookup_dcookie mbind migrate_pages mlockall mount mount_setattr move_mount move_pages
name_to_handle_at nfsservctl open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_madvise
process_vm_readv process_vm_writev quotactl reboot remap_file_pages request_key set_mempolicy setdomainname
sethostname setns settimeofday swapoff swapon syslog umount2 unshare userfaultfd vhangup
""".split()

NAMESPACE_FLAGS = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
"""NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET of clone(2)."""
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
STREAM, DGRAM = 1, 2
KINDS = 0xF
"""The bits of a socket's type that are not flags."""
TCP, UDP = 6, 17
INT = 0xFFFFFFFF
FILE_KINDS_MASK, REGULAR, FIFO, SOCKET, CHARACTER, BLOCK = (
    0o170000,
    0o100000,
    0o010000,
    0o140000,
    0o020000,
    0o060000,
)
RLIMIT_CORE = 4
NEW_LISTENER = 8
REQUEST_KIND = 0xFF00
"""The bits of an ioctl's request that name its subsystem."""
_PERSONALITIES = (0, 8, 0x20000, 0x20008, 0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class IoctlRequests:
    """Requests that `ioctl` admits."""

    numbers: tuple[int, ...]
    kinds: tuple[int, ...] = ()
    """Subsystems of which all requests are admitted: the bits of `REQUEST_KIND`."""


def match_u64(index: int, value: int) -> Test:
    return {"index": index, "value": value, "op": "SCMP_CMP_EQ"}


def match_other(index: int, value: int) -> Test:
    return {"index": index, "value": value, "op": "SCMP_CMP_NE"}


def match_equal(index: int, value: int) -> Test:
    """Test that an int argument has a value. The kernel reads 32 bits of it, so the others must be ignored."""
    return match_bits(index, INT, value)


def match_none_of(index: int, values: Collection[int]) -> list[Test]:
    """Return tests of which exactly one is true if an int argument has none of the values.

    libseccomp has no "not equal" under a mask: walk the bits from the top, and cover each half that contains no value.
    """

    def cover(bit: int, prefix: int, values: list[int]) -> list[Test]:
        if not values:
            return [match_bits(index, INT & ~((1 << bit + 1) - 1), prefix)]
        if bit < 0:
            return []
        halves = [[value for value in values if value >> bit & 1 == side] for side in (0, 1)]
        return [test for side in (0, 1) for test in cover(bit - 1, prefix | side << bit, halves[side])]

    return cover(31, 0, list(values))


def match_bits(index: int, mask: int, value: int) -> Test:
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def allow(names: str | list[str], *tests: Test) -> Rule:
    rule: Rule = {"names": names.split() if isinstance(names, str) else names, "action": "SCMP_ACT_ALLOW"}
    return {**rule, "args": list(tests)} if tests else rule


def refuse(names: str | list[str], number: int, *tests: Test) -> Rule:
    """Return a rule that fails calls with an errno."""
    return {**allow(names, *tests), "action": "SCMP_ACT_ERRNO", "errnoRet": number}


def _build_namespace_rules() -> list[Rule]:
    """Allow new threads and processes, but no new namespaces. clone3 hides its flags, so libc must fall back."""
    rules = [allow("clone", match_bits(0, sum(NAMESPACE_FLAGS), 0))]
    rules += [refuse("clone", errno.EPERM, match_bits(0, flag, flag)) for flag in NAMESPACE_FLAGS]
    return [*rules, refuse("clone3", errno.ENOSYS)]


def _build_socket_rules() -> list[Rule]:
    """Allow unix, TCP and UDP sockets and the routing netlink; other families fail as if they did not exist."""
    rules = [allow("socket", match_equal(0, UNIX)), allow("socketpair", match_equal(0, UNIX))]
    rules += [refuse("socketpair", errno.EAFNOSUPPORT, test) for test in match_none_of(0, [UNIX])]
    rules += [refuse("socket", errno.EAFNOSUPPORT, test) for test in match_none_of(0, [UNIX, INET, INET6, NETLINK])]
    protocols = {STREAM: (0, TCP), DGRAM: (0, UDP)}
    for family in (INET, INET6):
        for kind in range(KINDS + 1):
            for protocol in (0, TCP, UDP):
                tests = (match_equal(0, family), match_bits(1, KINDS, kind), match_equal(2, protocol))
                fits = protocol in protocols.get(kind, ())
                rules.append(allow("socket", *tests) if fits else refuse("socket", errno.EPROTONOSUPPORT, *tests))
        rules += [
            refuse("socket", errno.EPROTONOSUPPORT, match_equal(0, family), test)
            for test in match_none_of(2, [0, TCP, UDP])
        ]
    rules.append(allow("socket", match_equal(0, NETLINK), match_equal(2, 0)))
    rules += [refuse("socket", errno.EPROTONOSUPPORT, match_equal(0, NETLINK), test) for test in match_none_of(2, [0])]
    return rules


def _build_option_rules() -> list[Rule]:
    """Allow socket options except those that reach rarely used kernel code: filters, TCP's ULPs, UDP's ESP."""
    refused = {1: (26, 50, 51, 52), TCP: (31,), UDP: (100,)}
    rules = [allow("setsockopt", match_equal(1, level)) for level in (0, 41, 58, 270)]
    for level, options in refused.items():
        rules += [
            refuse("setsockopt", errno.EPERM, match_equal(1, level), match_equal(2, option)) for option in options
        ]
        rules += [allow("setsockopt", match_equal(1, level), test) for test in match_none_of(2, options)]
    return rules


def _build_argument_rules() -> list[Rule]:
    rules = [allow("personality", match_equal(0, value)) for value in _PERSONALITIES]
    for name, mode in (("mknod", 1), ("mknodat", 2)):
        rules += [allow(name, match_bits(mode, FILE_KINDS_MASK, kind)) for kind in (0, REGULAR, FIFO, SOCKET)]
        rules += [refuse(name, errno.EPERM, match_bits(mode, FILE_KINDS_MASK, kind)) for kind in (CHARACTER, BLOCK)]
    rules += [allow("setrlimit", test) for test in match_none_of(0, [RLIMIT_CORE])]
    rules += [allow("prlimit64", test) for test in match_none_of(1, [RLIMIT_CORE])]
    rules += [allow("ptrace", test) for test in match_none_of(1, [1])]
    return [
        *rules,
        refuse("setrlimit", errno.EPERM, match_equal(0, RLIMIT_CORE)),
        allow("prlimit64", match_equal(1, RLIMIT_CORE), match_u64(2, 0)),
        refuse("prlimit64", errno.EPERM, match_equal(1, RLIMIT_CORE), match_other(2, 0)),
        refuse("ptrace", errno.EPERM, match_equal(1, 1)),
        allow("seccomp", match_bits(1, NEW_LISTENER, 0)),
        refuse("seccomp", errno.EPERM, match_bits(1, NEW_LISTENER, NEW_LISTENER)),
        refuse("sync", 0),
        refuse("splice tee vmsplice", errno.EINVAL),
    ]


def _build_request_rules(requests: IoctlRequests | None) -> list[Rule]:
    """Allow these ioctls, or all."""
    if requests is None:
        return [allow("ioctl")]
    numbers = [match_equal(1, number) for number in requests.numbers]
    kinds = [match_bits(1, INT & REQUEST_KIND, kind) for kind in requests.kinds]
    return [allow("ioctl", test) for test in (*numbers, *kinds)]


def build_profile(machine: str, requests: IoctlRequests | None = None) -> dict[str, object]:
    """Return the profile for an architecture; `requests` limits ioctls."""
    rules = [
        allow(ALLOWED),
        *_build_request_rules(requests),
        *_build_argument_rules(),
        *_build_namespace_rules(),
        *_build_socket_rules(),
        *_build_option_rules(),
    ]
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": errno.ENOSYS,
        "architectures": [ARCHITECTURES[machine]],
        "syscalls": [*rules, refuse(REFUSED, errno.EPERM)],
    }
