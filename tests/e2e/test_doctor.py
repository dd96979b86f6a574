"""Tests of `hotdesk doctor`: all measures pass here, and each fails when its guard is removed from the source."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import hotdesk
from hotdesk.config import Config
from hotdesk.doctor import sentry
from hotdesk.doctor.examination import MEASURES

pytestmark = pytest.mark.container

SOURCE = Path(hotdesk.__file__).parents[1]
PROOF = ("desk/wall/container/prove.py", "while wrong := list_flaws(", "while wrong := [] and list_flaws(")
"""The keeper itself refuses some broken walls; without this check, doctor gets to see them."""


@dataclass(frozen=True)
class Loss:
    """A guard to remove: edits of the source, and the measures that must fail, and no others."""

    edits: tuple[tuple[str, str, str], ...]
    red: frozenset[str]


def loss(red: str, *edits: tuple[str, str, str]) -> Loss:
    return Loss(edits, frozenset(red.split()))


QUICK = {
    "a refused call": loss(
        "unneeded-calls",
        ("desk/wall/container/seccomp.py", "adjtimex bpf chroot", "adjtimex chroot"),
        ("desk/wall/container/seccomp.py", "accept accept4", "bpf accept accept4"),
    ),
    "nodev": loss(
        "mount-flags",
        (
            "desk/wall/container/bundle.py",
            'mount("/dev/shm", "tmpfs", "shm", *plain',
            'mount("/dev/shm", "tmpfs", "shm", "nosuid"',
        ),
    ),
}
"""Guards that a normal run of the tests can afford to remove."""
SLOW = {
    "the limit of socket buffers": loss(
        "socket-buffers",
        ("linux/cgroup.py", '"memory.kmem.tcp.limit_in_bytes", KERNEL_TCP', '"memory.kmem.tcp.limit_in_bytes", -1'),
    ),
    "the limit of processes": loss("processes", ("linux/cgroup.py", '"pids.max", limits.pids', '"pids.max", "max"')),
    "a verifying desk's copy": loss("own-superblock", ("desk/room/rootfs.py", "self.shown.get(layer, layer)", "layer")),
    "the limit of terminals": loss("terminals", ("desk/wall/container/bundle.py", '            "max=64",\n', "")),
    "a mask": loss("proc-masks", ("desk/room/procfs.py", "modules locks partitions", "modules partitions")),
    "the network namespace": loss(
        "namespaces root-inside loopback-only gate-inside gate-refuses gate-stays no-way-out host-sockets",
        ("desk/wall/container/bundle.py", '                {"type": "network", "path": room.netns},\n', ""),
        PROOF,
    ),
    "the ipc namespace": loss(
        "namespaces root-inside", ("desk/wall/container/bundle.py", '"pid", "ipc", "uts"', '"pid", "uts"'), PROOF
    ),
    "own device nodes": loss(
        "device-nodes",
        ("desk/wall/container/bundle.py", 'mount("/dev", "bind", room.dev', 'mount("/dev", "bind", "/dev"'),
    ),
    "the memory limit": loss(
        "memory",
        ("linux/cgroup.py", "self.limit_memory_v1(limits.memory)", "self.limit_memory_v1(1 << 50)"),
        ("linux/cgroup.py", '"memory.max", limits.memory', '"memory.max", "max"'),
    ),
    "the core limit": loss(
        "resource-limits",
        (
            "desk/wall/container/bundle.py",
            "for name, most in LIMITS.items()",
            'for name, most in {**LIMITS, "CORE": 0}.items()',
        ),
    ),
    "the disk's limit": loss(
        "disk", ("desk/room/btrfs.py", "LIMIT_MAX_REFERENCED, most, 0", "LIMIT_MAX_REFERENCED, most * 99, 0")
    ),
    "the CPU quota": loss(
        "cpu",
        ("linux/cgroup.py", '"cpu.cfs_quota_us", limits.quota', '"cpu.cfs_quota_us", -1'),
        ("linux/cgroup.py", 'f"{limits.quota} {PERIOD}"', 'f"max {PERIOD}"'),
    ),
    "the freezer": loss(
        "freeze",
        (
            "linux/cgroup.py",
            "def freeze(self, frozen: bool) -> None:\n",
            "def freeze(self, frozen: bool) -> None:\n        return\n",
        ),
    ),
    "the deadline": loss(
        "deadline",
        ("desk/keeper/keeper.py", "if at <= read_clock():", "if at <= read_clock() and self.desks[desk].runtime:"),
    ),
    "no new privileges": loss(
        "no-new-privileges root-inside",
        ("desk/wall/container/bundle.py", '"noNewPrivileges": True', '"noNewPrivileges": False'),
        PROOF,
    ),
    "an owner for the user namespace": loss(
        "own-charges signals",
        ("desk/room/room.py", "user_namespace.make(self.base + uids.ANCHOR,", "user_namespace.make(0,"),
    ),
    "own sys": loss(
        "own-sys", ("desk/wall/container/bundle.py", 'mount("/sys", "bind", room.sys', 'mount("/sys", "bind", "/sys"')
    ),
    "a read-only /proc/sys": loss(
        "read-only", ("desk/wall/container/bundle.py", '"readonlyPaths": ["/proc/sys"]', '"readonlyPaths": []')
    ),
    "an own boot id": loss(
        "own-identity",
        (
            "desk/wall/container/bundle.py",
            'mount("/proc/sys/kernel/random/boot_id", "bind"',
            'mount("/run/boot_id", "bind"',
        ),
    ),
    "an own machine id": loss(
        "own-identity",
        ("desk/room/identity.py", 'f"{os.urandom(16).hex()}\\n".encode()', 'Path("/etc/machine-id").read_bytes()'),
    ),
    "an own host name": loss(
        "host-name",
        (
            "desk/wall/container/bundle.py",
            '"hostname": room.desk[:12]',
            '"hostname": __import__("os").uname().nodename',
        ),
    ),
    "a clean environment": loss(
        "environment", ("desk/room/layout.py", '"USER": "user",', '"USER": "user", "SECRET": "x",')
    ),
    "pipes for the runtime": loss(
        "open-files",
        (
            "desk/wall/container/crun.py",
            "enumerate((stdin_r, console_w,",
            'enumerate((os.open(room.folder / "bundle/config.json", os.O_RDONLY), console_w,',
        ),
    ),
    "neutral paths": loss("host-paths", ("desk/room/rootfs.py", "upperdir=w/up,", "upperdir={self.folder}/w/up,")),
    "flags on layers": loss(
        "layer-flags", ("linux/syscalls.py", "attributes | ATTR_NOSUID | ATTR_NODEV |", "attributes | ATTR_NOSUID |")
    ),
    "device rules": loss(
        "device-cgroup", ("linux/cgroup.py", '        self.put("devices", "devices.deny", "a")\n', "")
    ),
    "splice refused": loss(
        "unneeded-calls page-cache-flaws",
        (
            "desk/wall/container/seccomp.py",
            'refuse("splice tee vmsplice", errno.EINVAL)',
            'allow("splice tee vmsplice")',
        ),
    ),
    "namespaces of clone refused": loss(
        "namespace-calls page-cache-flaws",
        (
            "desk/wall/container/seccomp.py",
            "NAMESPACE_FLAGS = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000,",
            "NAMESPACE_FLAGS = (0x20000, 0x2000000, 0x4000000, 0x8000000,",
        ),
    ),
    "socket families refused": loss(
        "socket-families page-cache-flaws",
        (
            "desk/wall/container/seccomp.py",
            "for test in match_none_of(0, [UNIX, INET, INET6, NETLINK])]",
            "for test in match_none_of(0, [UNIX, INET, INET6, NETLINK, 38])] + [allow('socket', match_equal(0, 38))]",
        ),
    ),
    "socket options refused": loss("socket-options", ("desk/wall/container/seccomp.py", "TCP: (31,),", "TCP: (99,),")),
    "pid 1 untraced": loss(
        "call-arguments",
        (
            "desk/wall/container/seccomp.py",
            '        refuse("ptrace", errno.EPERM, match_equal(1, 1)),\n',
            '        allow("ptrace", match_equal(1, 1)),\n',
        ),
    ),
    "the map of ids": loss("own-ids", ("linux/uids.py", "{USER + 1}\\n", "{USER + 1}\\n2000 {base + 1010} 1\\n")),
    "an undumpable guest": loss(
        "first-process", ("../hotdesk_guest/agent.py", "(prctl, (4, 0, 0, 0, 0))", "(prctl, (4, 1, 0, 0, 0))")
    ),
    "a bound on capabilities": loss(
        "capabilities root-inside",
        (
            "desk/wall/container/bundle.py",
            '{**sets, "inheritable": []',
            '{**sets, "bounding": ["CAP_SYS_ADMIN"], "inheritable": []',
        ),
        PROOF,
    ),
    "any core limit": loss(
        "core-dumps resource-limits", ("linux/rlimits.py", "CORE_LIMIT = 1", "CORE_LIMIT = 1 << 40")
    ),
    "a door that refuses": loss(
        "gate-refuses",
        ("door/exchange.py", "raise ExchangeError(403, decision.why)", "raise ExchangeError(200, decision.why)"),
    ),
    "a whole burn": loss(
        "burnt",
        (
            "desk/keeper/burn.py",
            "state.clear_runtime(self.settings, tracked.room.desk) + tracked.room.clear()",
            "tracked.room.clear()",
        ),
    ),
    "any filter": loss(
        "filter root-inside namespace-calls unneeded-calls call-arguments socket-families socket-options "
        "page-cache-flaws 32-bit-calls",
        (
            "desk/wall/container/bundle.py",
            '{"annotations": {room.annotation: room.filter}} if room.filter else {}',
            "{}",
        ),
        (
            "desk/wall/container/bundle.py",
            '            **({} if room.filter else {"seccomp": seccomp.build_profile(room.machine, room.requests)}),\n',
            "",
        ),
        PROOF,
    ),
    "one architecture": loss(
        "32-bit-calls",
        (
            "desk/wall/container/seccomp.py",
            "[ARCHITECTURES[machine]]",
            '[ARCHITECTURES[machine], {"aarch64": "SCMP_ARCH_ARM", "x86_64": "SCMP_ARCH_X86"}[machine]]',
        ),
    ),
    "the whole filter": loss(
        "namespace-calls unneeded-calls call-arguments socket-families socket-options page-cache-flaws",
        (
            "desk/wall/container/seccomp.py",
            '        "defaultAction": "SCMP_ACT_ERRNO",',
            '        "defaultAction": "SCMP_ACT_ALLOW",',
        ),
        ("desk/wall/container/seccomp.py", '        "defaultErrnoRet": errno.ENOSYS,\n', ""),
        (
            "desk/wall/container/seccomp.py",
            '"syscalls": [*rules, refuse(REFUSED, errno.EPERM)],',
            '"syscalls": [refuse("nfsservctl", 1)],',
        ),
    ),
    "the link's end": loss(
        "one-caller",
        (
            "desk/keeper/keeper.py",
            "        room.hang_up()\n        os.close(tracked.console)\n",
            "        os.close(tracked.console)\n",
        ),
    ),
    "a command's confinement": loss(
        "command-write command-bind command-signal",
        ("linux/landlock.py", "    if version < 1:", "    if version < 99:"),
    ),
    "a command's lost capabilities": loss(
        "command-rights", ("linux/landlock.py", "    if os.geteuid() == 0:", "    if os.geteuid() == 1:")
    ),
}


UNPROVEN = ("desk/wall/gvisor/prove.py", "while wrong := list_flaws(", "while wrong := [] and list_flaws(")
SENTRY = {
    "a user for the supervisor": loss(
        "sentry-ids",
        ("desk/wall/gvisor/runsc.py", "drop_privileges(room.base + uids.SUPERVISOR)", "drop_privileges(room.base)"),
        UNPROVEN,
    ),
    "a pid namespace": loss(
        "sentry-namespaces",
        ("desk/wall/gvisor/runsc.py", "    syscalls.unshare(syscalls.CLONE_NEWPID)\n", ""),
        UNPROVEN,
    ),
    "a clean environment": loss(
        "sentry-environment", ("desk/wall/gvisor/runsc.py", '{"PATH": "/"})', '{"PATH": "/", "SECRET": "x"})')
    ),
    "the limit of processes": loss(
        "sentry-processes",
        ("desk/room/room.py", "pids = THREADS_PER_PROGRAM * spec.pids + self.kernel_threads if", "pids = 1 << 20 if"),
    ),
    "the memory limit": loss(
        "sentry-memory",
        ("linux/cgroup.py", "self.limit_memory_v1(limits.memory)", "self.limit_memory_v1(1 << 50)"),
        ("linux/cgroup.py", '"memory.max", limits.memory', '"memory.max", "max"'),
    ),
    "the disk's limit": loss(
        "sentry-disk", ("desk/room/btrfs.py", "LIMIT_MAX_REFERENCED, most, 0", "LIMIT_MAX_REFERENCED, most * 99, 0")
    ),
    "the freezer": loss(
        "sentry-freeze",
        (
            "linux/cgroup.py",
            "def freeze(self, frozen: bool) -> None:\n",
            "def freeze(self, frozen: bool) -> None:\n        return\n",
        ),
    ),
    "the link's end": loss(
        "sentry-one-caller",
        (
            "desk/keeper/keeper.py",
            "        room.hang_up()\n        os.close(tracked.console)\n",
            "        os.close(tracked.console)\n",
        ),
    ),
    "a door that refuses": loss(
        "sentry-gate-refuses",
        ("door/exchange.py", "raise ExchangeError(403, decision.why)", "raise ExchangeError(200, decision.why)"),
    ),
    "an own host name": loss(
        "sentry-host-name",
        ("desk/wall/gvisor/bundle.py", '"hostname": room.desk[:12]', '"hostname": __import__("os").uname().nodename'),
    ),
    "a whole burn": loss(
        "sentry-burnt",
        (
            "desk/keeper/burn.py",
            "state.clear_runtime(self.settings, tracked.room.desk) + tracked.room.clear()",
            "tracked.room.clear()",
        ),
    ),
}
"""Guards of a desk behind gVisor."""


def examine(settings: Config, source: Path, wall: str = "container", **env: str) -> tuple[int, dict[str, Any]]:
    """Run doctor from a source folder, on one wall; return its exit code and report."""
    places = {
        "HOTDESK_HOME": str(settings.run.parent),
        "HOTDESK_IMAGES": str(settings.images),
        "PYTHONPATH": str(source),
    }
    argv = [sys.executable, "-c", "from hotdesk.cli import main; main()", "doctor", "--json", "--wall", wall]
    done = subprocess.run(
        argv, env={"PATH": os.environ["PATH"], **places, **env}, capture_output=True, check=False, timeout=90, cwd="/"
    )
    assert done.stderr == b"", done.stderr
    return done.returncode, json.loads(done.stdout)


def named(told: dict[str, Any], state: str) -> set[str]:
    return {measure["name"] for measure in told["measures"] if measure["state"] == state}


def mutate(source: Path, lost: Loss) -> None:
    """Remove a guard from a copy of the source; the bytecode of untouched files stays valid."""
    shutil.copytree(SOURCE, source)
    for name, old, new in lost.edits:
        file = source / "hotdesk" / name
        text = file.read_text()
        assert old in text, f"{name} no longer has {old!r}"
        file.write_text(text.replace(old, new))


def test_every_measure_passes_or_has_a_reason_why_it_was_not_tested(settings: Config) -> None:
    code, told = examine(settings, SOURCE)
    assert (code, named(told, "failed")) == (0, set()), told
    assert [measure["name"] for measure in told["measures"]] == sorted_names(told)
    assert {measure["name"] for measure in told["measures"]} == {measure.name for measure in MEASURES}
    expected = {"unseen-calls", "x32-calls", "32-bit-calls", "command-write", "command-bind", "command-signal", "cpu"}
    assert named(told, "untested") <= expected | {"device-cgroup", "socket-buffers", "kernel-mended"}
    assert told["schema"] == 1
    assert told["counts"]["held"] == len(named(told, "held"))


def sorted_names(told: dict[str, Any]) -> list[str]:
    themes = list(dict.fromkeys(measure["theme"] for measure in told["measures"]))
    order = [measure.name for measure in MEASURES]
    ranked = sorted(told["measures"], key=lambda each: (themes.index(each["theme"]), order.index(each["name"])))
    return [measure["name"] for measure in ranked]


@pytest.mark.sample(1)
@pytest.mark.parametrize("what", QUICK)
def test_a_measure_fails_when_its_guard_is_removed(settings: Config, home: Path, what: str) -> None:
    see_red(settings, home / "mutant", QUICK[what])


@pytest.mark.long
@pytest.mark.parametrize("what", SLOW)
def test_every_measure_fails_when_its_guard_is_removed(settings: Config, home: Path, what: str) -> None:
    see_red(settings, home / "mutant", SLOW[what])


@pytest.mark.gvisor
def test_every_measure_of_a_desk_behind_gvisor_passes(settings: Config) -> None:
    code, told = examine(settings, SOURCE, "gvisor", HOTDESK_GVISOR_PROGRAM=settings.gvisor_program)
    assert (code, named(told, "failed")) == (0, set()), told
    behind = {measure["name"]: measure["state"] for measure in told["measures"] if measure["wall"] == "gvisor"}
    assert behind == dict.fromkeys((measure.name for measure in sentry.MEASURES), "held")
    (wall,) = [each for each in told["walls"] if each["name"] == "gvisor"]
    assert wall["idle_memory"] > 0
    assert wall["age_years"] is not None
    assert not {measure.name for measure in MEASURES} & behind.keys()


@pytest.mark.long
@pytest.mark.gvisor
@pytest.mark.parametrize("what", SENTRY)
def test_every_measure_of_gvisor_fails_when_its_guard_is_removed(settings: Config, home: Path, what: str) -> None:
    see_red(settings, home / "mutant", SENTRY[what], "gvisor")


def see_red(settings: Config, source: Path, lost: Loss, wall: str = "container") -> None:
    try:
        mutate(source, lost)
        code, told = examine(settings, source, wall)
    finally:
        shutil.rmtree(source, ignore_errors=True)
        for left in (settings.run / "runtime").glob("[!.]*"):
            if not (settings.run / "desks" / left.name).exists():
                shutil.rmtree(left)  # without its guard, burning did nothing
    wrong = {measure["name"]: measure["seen"] for measure in told["measures"] if measure["state"] == "failed"}
    assert set(wrong) == lost.red, wrong
    assert code == 1


def test_if_no_desk_opens_the_machine_and_the_reason_are_reported(settings: Config) -> None:
    code, told = examine(settings, SOURCE, HOTDESK_RUNTIME="/bin/false")
    assert code == 125
    assert "did not start" in told["unopened"]
    assert {"kernel", "cgroups", "folders", "floors"} <= named(told, "held")
    assert {"namespaces", "memory", "deadline"} <= named(told, "untested")
    assert named(told, "failed") == {"runtime"}


def test_measures_that_an_ordinary_user_cannot_check_are_reported(settings: Config) -> None:
    """All imports happen before the process gives up root, as the interpreter may be in root's home."""
    script = (
        "import os, hotdesk.cli.machine.doctor, hotdesk.cli.parser, anyio._backends._asyncio;"
        "os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534);"
        "from hotdesk.cli import main; main()"
    )
    env = {"PATH": os.environ["PATH"], "HOTDESK_HOME": str(settings.run.parent), "PYTHONPATH": str(SOURCE)}
    argv = [sys.executable, "-c", script, "doctor"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60, cwd="/")
    assert (done.returncode, done.stderr) == (125, "")
    assert "✔ kernel" in done.stdout
    assert "only root can read this" in done.stdout
    assert "run `sudo hotdesk doctor` to test them too" in done.stdout
