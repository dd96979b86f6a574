"""Judge the reports of probes inside a desk. They are untrusted; `outside.py` judges the host's view."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection
from pathlib import Path

from hotdesk.doctor import calls
from hotdesk.doctor.measure import (
    Finding,
    JudgedMeasure,
    Measure,
    SilentProbeError,
    report_failure,
    report_flaws,
    report_pass,
    report_untested,
)
from hotdesk.doctor.probes import BEYOND, BEYOND_SIX, TERMINALS, ProbeResult

SHOWN = 6
"""Maximum flaws named per measure."""
REFUSED, IN_USE = "ECONNREFUSED", "EADDRINUSE"
_UNREACHABLE = ("ENETUNREACH", "EADDRNOTAVAIL", "EAFNOSUPPORT")


def _find_wrong_answers(result: ProbeResult, group: str) -> list[str]:
    """Return the calls of a group with an answer other than the expected one."""
    answers = result.get_table(group)
    listed = calls.GROUPS[group]
    if missing := [each.what for each in listed if each.what not in answers]:
        raise SilentProbeError(f"no result for the system call {missing[0]}")
    flaws = [f"{each.what} returned {answers[each.what]}" for each in listed if answers[each.what] != each.answer]
    return flaws[:SHOWN] + ([f"and {len(flaws) - SHOWN} more"] if len(flaws) > SHOWN else [])


def _build_judge(*groups: str) -> Callable[[ProbeResult], Finding]:
    def judge(result: ProbeResult) -> Finding:
        flaws = [flaw for group in groups for flaw in _find_wrong_answers(result, group)]
        return report_flaws(flaws, f"{sum(len(calls.GROUPS[group]) for group in groups)} system calls were refused")

    return judge


def _judge_unseen(result: ProbeResult) -> Finding:
    if flaws := _find_wrong_answers(result, "unseen"):
        return report_failure(", ".join(flaws))
    names = ", ".join(each.what for each in calls.UNSEEN)
    return report_untested(
        f"the kernel itself refuses {names}, sync and unknown system calls to an ordinary user, so the effect of the "
        "filter cannot be seen"
    )


def _page_cache(result: ProbeResult) -> Finding:
    answers: dict[str, object] = {}
    for group in ("families", "options", "splices", "namespaces"):
        answers.update(result.get_table(group))
    expected = {each.what: each.answer for listed in calls.GROUPS.values() for each in listed}
    flaws = [f"{what} returned {answers.get(what)}" for what in calls.PAGE_CACHE if answers.get(what) != expected[what]]
    return report_flaws(
        flaws,
        "the calls that exploits of CVE-2026-31431, -43284 and -43500 need are refused, whether or not this "
        "kernel has the fixes",
    )


def judge_32bit_programs(result: ProbeResult) -> Finding:
    number, code = result.get_list("width", 2)
    if number == signal.SIGSYS:
        return report_pass("the system call filter ends a 32-bit program at its first call")
    if code == 7:
        return report_untested(
            "this processor or kernel does not run 32-bit programs, so the system call filter is not reached"
        )
    return report_failure(f"a 32-bit program ended with signal {number}, code {code}")


def _judge_x32(result: ProbeResult) -> Finding:
    if (machine := os.uname().machine) != "x86_64":
        return report_untested(f"{machine} has no x32 system calls")
    answer = result.values.get("x32")
    if answer == f"ended by signal {int(signal.SIGSYS)}":
        return report_pass("the filter ends a program that makes an x32 call")
    if answer == "ENOSYS":
        return report_untested(
            "the call returned ENOSYS: this kernel may lack x32 calls, which has the same result as the filter"
        )
    return report_failure(f"an x32 call returned {answer}")


def judge_beyond(result: ProbeResult, unreachable: Collection[str] = _UNREACHABLE) -> Finding:
    """Judge which addresses a desk can route to; `unreachable` has the kernel's answers if there is no route."""
    answers = result.get_table("beyond")
    if len(answers) < len(BEYOND) + len(BEYOND_SIX):
        raise SilentProbeError("results for some addresses are missing")
    flaws = [f"connecting to {host} returned {answer}" for host, answer in answers.items() if answer not in unreachable]
    return report_flaws(
        flaws, f"the desk has no route to any of {len(answers)} addresses, including this machine's own"
    )


def _judge_host_sockets(result: ProbeResult) -> Finding:
    names = ("connecting to the host's loopback TCP port", "connecting to the host's abstract unix socket")
    answers = result.get_list("host", 2)
    flaws = [f"{name} returned {answer}" for name, answer in zip(names, answers, strict=True) if answer != REFUSED]
    return report_flaws(flaws, "the desk could not reach a TCP port and an abstract socket of the host")


def gate_refuses(result: ProbeResult) -> Finding:
    answer = result.get_word("gate")
    return (
        report_pass(f"the egress proxy's port responded {answer[:40]!r}")
        if answer.startswith("HTTP/1.1 403")
        else report_failure(f"the egress proxy's port responded {answer[:80]!r}")
    )


def _gate_stays(result: ProbeResult) -> Finding:
    places = ("127.0.0.1:3128", "0.0.0.0:3128")
    answers = result.get_list("take", 2)
    flaws = [
        f"binding {place} returned {answer}" for place, answer in zip(places, answers, strict=True) if answer != IN_USE
    ]
    return report_flaws(
        flaws, "binding the egress proxy's port again fails with EADDRINUSE, with and without SO_REUSEPORT"
    )


def _judge_loopback(result: ProbeResult) -> Finding:
    answer = result.get_word("flags")
    return (
        report_pass("changing the flags of the loopback interface fails with EPERM")
        if answer == "EPERM"
        else report_failure(f"changing the flags of the loopback interface returned {answer}")
    )


def _judge_second_caller(result: ProbeResult) -> Finding:
    answer = result.get_word("link")
    if answer in ("disconnected", "ECONNREFUSED", "ECONNRESET", "ENOENT"):
        return report_pass(f"another process that connected to the socket of hotdesk's process got {answer}")
    return report_failure(f"another process that connected to the socket of hotdesk's process got {answer}")


def _judge_terminals(result: ProbeResult) -> Finding:
    count = result.get_number("terminals")
    return (
        report_pass(f"{count} terminals could be opened, and no more")
        if 0 < count <= TERMINALS
        else report_failure(f"{count} terminals could be opened; {TERMINALS} are allowed")
    )


def _judge_first_process(result: ProbeResult) -> Finding:
    answers = result.get_table("first")
    flaws = [f"{what} returned {answer}" for what, answer in answers.items() if answer not in ("EACCES", "EPERM")]
    if len(answers) < 9:
        raise SilentProbeError("results of some ways to reach the first process are missing")
    return report_flaws(
        flaws, f"{len(answers)} ways to read or trace the first process were refused; it survived SIGKILL and SIGSTOP"
    )


def _judge_core_dump(result: ProbeResult) -> Finding:
    number, dumped = result.get_list("crash", 2)
    if number != signal.SIGSEGV:
        raise SilentProbeError(f"the program that should crash with SIGSEGV ended with signal {number}")
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    piped = f"core_pattern pipes cores to a program of the host ({pattern}); only the limit of 1 byte prevents it"
    return (
        report_failure("a crash in the desk dumped a core")
        if dumped
        else report_pass("a crash in the desk dumped no core", piped if pattern[:1] == "|" else "")
    )


def _judge_host_name(result: ProbeResult) -> Finding:
    name = result.get_word("name")
    return (
        report_failure("the desk has this machine's host name")
        if name == os.uname().nodename
        else report_pass(f"the host name in the desk is {name[:64]!r}")
    )


FILTER = "the seccomp filter is not active: reinstall hotdesk, remove `cache` from its state directory, update crun"
CHECKS: tuple[JudgedMeasure[ProbeResult], ...] = (
    JudgedMeasure(
        Measure(
            "first-process",
            "user",
            "the desk's first process cannot be read, traced or stopped",
            "tested from inside: try to read /proc/1, trace pid 1 and send it signals from another process",
            "run `sudo sysctl kernel.yama.ptrace_scope=1`; if that does not help, reinstall hotdesk",
        ),
        _judge_first_process,
    ),
    JudgedMeasure(
        Measure(
            "core-dumps",
            "user",
            "a crash never dumps core on the host",
            "tested from inside: crash a child process with SIGSEGV",
            "start hotdesk from a shell in which `ulimit -Hc` prints 1 or more, or run "
            "`sudo sysctl kernel.core_pattern=core`",
        ),
        _judge_core_dump,
    ),
    JudgedMeasure(
        Measure(
            "namespace-calls",
            "calls",
            "no new namespace can be created, and nothing can be mounted",
            "tested from inside: try unshare, setns, clone with each namespace, clone3, mount and others",
            FILTER,
        ),
        _build_judge("namespaces"),
    ),
    JudgedMeasure(
        Measure(
            "unneeded-calls",
            "calls",
            "system calls that no desk needs are refused",
            "tested from inside: try bpf, io_uring, keyctl, perf, userfaultfd, aio, splice and others",
            FILTER,
        ),
        _build_judge("unneeded", "splices"),
    ),
    JudgedMeasure(
        Measure(
            "call-arguments",
            "calls",
            "allowed system calls are refused if their arguments are dangerous",
            "tested from inside: try to create devices, trace pid 1, lower the core size limit and set unusual "
            "personalities",
            FILTER,
        ),
        _build_judge("arguments"),
    ),
    JudgedMeasure(
        Measure(
            "socket-families",
            "calls",
            "only unix, TCP, UDP and route sockets can be opened; other socket families and protocols are refused",
            "tested from inside: try to open sockets and socket pairs of every family, and of unusual and netlink "
            "protocols",
            FILTER,
        ),
        _build_judge("families"),
    ),
    JudgedMeasure(
        Measure(
            "socket-options",
            "calls",
            "socket filters, upper-layer protocols for TCP and ESP in UDP cannot be set",
            "tested from inside: try to set seven socket options",
            FILTER,
        ),
        _build_judge("options"),
    ),
    JudgedMeasure(
        Measure(
            "page-cache-flaws",
            "calls",
            "the kernel flaws Copy Fail and Dirty Frag cannot be exploited",
            "tested from inside: try to use AF_ALG, AF_RXRPC, UDP_ENCAP, splice and a user namespace",
            "install your distribution's newest kernel; if that does not help: " + FILTER,
        ),
        _page_cache,
    ),
    JudgedMeasure(
        Measure(
            "32-bit-calls",
            "calls",
            "32-bit programs do not run",
            "tested from inside: execute a 32-bit program",
            FILTER,
        ),
        judge_32bit_programs,
    ),
    JudgedMeasure(
        Measure(
            "x32-calls",
            "calls",
            "the system call filter cannot be avoided with x32 calls",
            "tested from inside: make an x32 call",
            FILTER,
        ),
        _judge_x32,
    ),
    JudgedMeasure(
        Measure(
            "unseen-calls",
            "calls",
            "the system call filter refuses these calls even where the kernel would refuse them by itself",
            "tested from inside: make these calls; here the kernel and the filter return the same error",
            FILTER,
        ),
        _judge_unseen,
    ),
    JudgedMeasure(
        Measure(
            "no-way-out",
            "network",
            "no address beyond the desk can be reached",
            "tested from inside: connect UDP sockets to outside addresses, which looks up a route and sends nothing",
            "the desk's network namespace has an interface or route: end the program that added it, and burn the desk",
        ),
        judge_beyond,
    ),
    JudgedMeasure(
        Measure(
            "host-sockets",
            "network",
            "the host's loopback ports and abstract sockets cannot be reached",
            "tested from inside: try to connect to both, while doctor listens there",
            "the desk shares the host's network: burn it, and reinstall hotdesk",
        ),
        _judge_host_sockets,
    ),
    JudgedMeasure(
        Measure(
            "loopback-stays",
            "network",
            "a desk cannot change its network interface",
            "tested from inside: try to set the flags of the loopback interface",
            "the network namespace belongs to the desk's user namespace: reinstall hotdesk",
        ),
        _judge_loopback,
    ),
    JudgedMeasure(
        Measure(
            "gate-refuses",
            "network",
            "the egress proxy's port responds, and refuses a request that no rule allows",
            "tested from inside: send one request to 127.0.0.1:3128",
            "the door did not start, or admits requests it should refuse; see `sudo hotdesk run --debug -- curl -x "
            "http://127.0.0.1:3128 http://x/`",
        ),
        gate_refuses,
    ),
    JudgedMeasure(
        Measure(
            "gate-stays",
            "network",
            "no program in a desk can take the egress proxy's port",
            "tested from inside: try to bind port 3128, with and without SO_REUSEPORT",
            "the keeper process does not own the socket of that port: reinstall hotdesk",
        ),
        _gate_stays,
    ),
    JudgedMeasure(
        Measure(
            "host-name",
            "files",
            "the desk has its own host name",
            "tested from inside: compare `uname -n` with this machine's",
            "reinstall hotdesk; check whether the runtime creates a UTS namespace",
        ),
        _judge_host_name,
    ),
    JudgedMeasure(
        Measure(
            "terminals",
            "limits",
            f"a desk can open at most {TERMINALS} of the kernel's 4096 terminals",
            "tested from inside: open terminals until one is refused",
            "the runtime drops devpts' `max` option: use a newer crun",
        ),
        _judge_terminals,
    ),
    JudgedMeasure(
        Measure(
            "one-caller",
            "life",
            "only the desk's first process is accepted as hotdesk's process in it",
            "tested from inside: connect another process to the socket of hotdesk's process",
            "reinstall hotdesk",
        ),
        _judge_second_caller,
    ),
)
