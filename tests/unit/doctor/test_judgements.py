"""Tests of doctor's judgements, on tables of gathered data from other machines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotdesk.config import GIB, MIB, Config
from hotdesk.desk.seam import Done
from hotdesk.doctor import calls, inside, life, limits, machine, outside
from hotdesk.doctor.examination import compute_pace
from hotdesk.doctor.life import DeadlineOutcome, Frozen
from hotdesk.doctor.limits import SHORT, SMALL, Signals, Spun, Strain
from hotdesk.doctor.machine import Confined, MachineFacts, Stores
from hotdesk.doctor.measure import SEEN, Finding, JudgedMeasure, Measure, SilentProbeError, judge
from hotdesk.doctor.probes import ProbeResult, read_result
from hotdesk.doctor.view import MASKED, NAMESPACES, NODES, DeskView, Rooted, SeenProcess, read_limits, read_mounts
from hotdesk.linux import uids

BASE = uids.FIRST + 7 * uids.WIDTH
USER = str(BASE + uids.USER)
MOUNTINFO = """\
98 122 0:44 /dev /dev ro,nosuid,noexec - tmpfs room rw
99 122 0:44 /sys /sys ro,nosuid,nodev - tmpfs room rw
100 126 0:44 /link /run/hotdesk ro,nosuid,nodev - tmpfs room rw
122 72 0:46 / / rw,nosuid,nodev - overlay desk rw,lowerdir=l0,upperdir=w/up
123 122 0:50 / /proc rw,nosuid,nodev - proc proc rw
124 98 0:51 / /dev/pts rw,nosuid,noexec - devpts devpts rw,max=64
127 123 0:50 /sys /proc/sys ro - proc proc rw
130 123 0:44 /proc/loadavg /proc/loadavg ro,nosuid,nodev - tmpfs room rw
""" + "".join(f"{200 + n} 123 0:44 /e /proc/{name} ro,nosuid,nodev - tmpfs room rw\n" for n, name in enumerate(MASKED))
ROOM = """\
1 1 0:1 / /run/hotdesk/private/ix/l0 ro,nosuid,nodev - ext4 x rw
2 1 0:1 / /run/hotdesk/private/ix/root rw,nosuid,nodev - overlay x rw
"""
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max core file size        1                    1                    bytes
Max open files            20000                20000                files
Max pending signals       1024                 1024                 signals
Max locked memory         8388608              8388608              bytes
"""
STATUS = {
    "Uid": "\t".join([USER] * 4),
    "Gid": "\t".join([USER] * 4),
    "Groups": "",
    "NoNewPrivs": "1",
    "Seccomp": "2",
    **dict.fromkeys(outside.CAPABILITIES, "0" * 16),
}
NETWORK = {
    "dev": "Inter-|\n face |\n    lo: 0 0\n",
    "route": "Iface\n",
    "ipv6_route": "00 00 lo\n",
    "tcp": "  sl\n   0: 0100007F:0C38 00000000:0000 0A 0\n",
}
FIRST = SeenProcess(
    4711,
    STATUS,
    {kind: 100 + n for n, kind in enumerate(NAMESPACES)},
    read_limits(LIMITS),
    outside.VARIABLES,
    (),
)
SOUND = DeskView(
    base=BASE,
    claimed=True,
    processes=(FIRST, replace(FIRST, pid=4712)),
    host_namespaces={kind: n for n, kind in enumerate(NAMESPACES)},
    maps=(uids.format_id_map(BASE), uids.format_id_map(BASE)),
    owner=BASE + uids.ANCHOR,
    mounts=tuple(read_mounts(MOUNTINFO)),
    room=tuple(read_mounts(ROOM)),
    network=NETWORK,
    nodes={name: (1, n) for n, name in enumerate(NODES)},
    host_nodes={name: (2, n) for n, name in enumerate(NODES)},
    masked=dict.fromkeys(MASKED, True) | {"acpi": None},
    boot_id="11111111-2222",
    machine_id="ab" * 16,
    sys=(frozenset({"class", "devices"}), frozenset({"lo"})),
    paths=("/run/hotdesk", "/var/lib/hotdesk", "ix"),
    cgroup_version=1,
    cgroup={"devices.list": "".join(f"{device} rw\n" for device in outside.DEVICES)},
    opened={},
)


def changed(**status: str) -> DeskView:
    return replace(SOUND, processes=(FIRST, replace(FIRST, status={**STATUS, **status})))


def mounted(old: str, new: str) -> DeskView:
    assert old in MOUNTINFO
    return replace(SOUND, mounts=tuple(read_mounts(MOUNTINFO.replace(old, new))))


def found(checks: Any, data: object) -> dict[str, Finding]:
    return {result.measure.name: result.finding for result in judge(checks, data)}


def failures(checks: Any, data: object) -> set[str]:
    return {name for name, finding in found(checks, data).items() if finding.state == "failed"}


def test_a_sound_desk_passes() -> None:
    assert {finding.state for finding in found(outside.CHECKS, SOUND).values()} == {"held"}


@pytest.mark.parametrize(
    ("view", "name"),
    [
        (changed(Uid="0\t0\t0\t0"), "own-ids"),
        (changed(Groups="0 27"), "own-ids"),
        (replace(SOUND, claimed=False), "own-ids"),
        (replace(SOUND, maps=(uids.format_id_map(BASE), "0 0 4294967295\n")), "own-ids"),
        (replace(SOUND, owner=0), "own-charges"),
        (changed(CapBnd="00000000a80425fb"), "capabilities"),
        (changed(NoNewPrivs="0"), "no-new-privileges"),
        (changed(Seccomp="0"), "filter"),
        (replace(SOUND, host_namespaces={**SOUND.host_namespaces, "ipc": FIRST.namespaces["ipc"]}), "namespaces"),
        (replace(SOUND, processes=(replace(FIRST, variables=outside.VARIABLES | {"KEY"}),)), "environment"),
        (replace(SOUND, processes=(replace(FIRST, foreign=("/etc/shadow",)),)), "open-files"),
        (replace(SOUND, network={**NETWORK, "dev": NETWORK["dev"] + "  eth0: 0\n"}), "loopback-only"),
        (replace(SOUND, network={**NETWORK, "route": "Iface\neth0 0\n"}), "loopback-only"),
        (replace(SOUND, network={**NETWORK, "tcp": "  sl\n"}), "gate-inside"),
        (replace(SOUND, nodes={**SOUND.nodes, "null": SOUND.host_nodes["null"]}), "device-nodes"),
        (replace(SOUND, nodes={**SOUND.nodes, "null": None}), "device-nodes"),
        (mounted("/ / rw,nosuid,nodev", "/ / rw,nodev"), "mount-flags"),
        (mounted("/ / rw,nosuid,nodev", "/ / rw,nosuid"), "mount-flags"),
        (mounted("/sys ro,", "/sys rw,"), "read-only"),
        (mounted("/proc/sys ro", "/proc/sys rw"), "read-only"),
        (mounted("lowerdir=l0", "lowerdir=/var/lib/hotdesk/images/x"), "host-paths"),
        (mounted("/sys /sys ro,nosuid,nodev - tmpfs", "/sys /sys ro,nosuid,nodev - sysfs"), "own-sys"),
        (mounted("/e /proc/locks", "/e /proc/other"), "proc-masks"),
        (replace(SOUND, masked={**SOUND.masked, "keys": False}), "proc-masks"),
        (replace(SOUND, sys=(frozenset({"class", "block"}), frozenset({"lo"}))), "own-sys"),
        (replace(SOUND, boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip()), "own-identity"),
        (replace(SOUND, machine_id=""), "own-identity"),
        (replace(SOUND, room=tuple(read_mounts(ROOM.replace("ro,nosuid,nodev", "ro,nosuid")))), "layer-flags"),
        (replace(SOUND, room=()), "layer-flags"),
        (replace(SOUND, cgroup={"devices.list": "a *:* rwm\n"}), "device-cgroup"),
        (replace(SOUND, cgroup={"devices.list": ""}), "device-cgroup"),
    ],
)
def test_one_flaw_fails_its_own_measure_and_no_other(view: DeskView, name: str) -> None:
    assert failures(outside.CHECKS, view) == {name}


@pytest.mark.parametrize(("core", "state"), [("0", "failed"), ("unlimited", "failed"), ("1", "held")])
def test_only_a_core_limit_of_one_passes(core: str, state: str) -> None:
    text = LIMITS.replace("1                    1                    bytes", f"{core:20} {core:20} bytes")
    view = replace(SOUND, processes=(replace(FIRST, limits=read_limits(text)),))
    assert found(outside.CHECKS, view)["resource-limits"].state == state


@pytest.mark.parametrize(
    ("opened", "state"),
    [
        ({"/dev/null": "opened", "/dev/kmsg": "EPERM", "/dev/vda": "EPERM"}, "held"),
        ({"/dev/null": "opened", "/dev/kmsg": "EPERM", "/dev/vda": "opened"}, "failed"),
        ({"/dev/null": "opened", "/dev/kmsg": "EBUSY"}, "failed"),
        ({"/dev/null": "opened"}, "untested"),
        ({"/dev/null": "EPERM", "/dev/kmsg": "EPERM"}, "failed"),
        ({}, "failed"),
    ],
)
def test_on_cgroup_v2_device_rules_are_judged_by_their_answers(opened: dict[str, str], state: str) -> None:
    view = replace(SOUND, cgroup_version=2, cgroup={}, opened=opened)
    assert found(outside.CHECKS, view)["device-cgroup"].state == state


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, "held"),
        ({"CapBnd": f"{0xFB | 1 << 21:016x}"}, "failed"),
        ({"Uid": "0\t0\t0\t0"}, "failed"),
        ({"Seccomp": "0"}, "failed"),
        ({"Uid": "\t".join([USER] * 4)}, "failed"),
    ],
)
def test_root_inside_has_no_rights_outside(status: dict[str, str], state: str) -> None:
    root = {**STATUS, "Uid": "\t".join([str(BASE)] * 4), "CapEff": f"{0xFB:016x}", "CapBnd": f"{0xFB:016x}", **status}
    seen = Rooted(BASE, (FIRST, replace(FIRST, status=root)), SOUND.host_namespaces)
    assert outside.judge_root(seen).state == state


# -- the machine -----------------------------------------------------------------------------------------------

FACTS = MachineFacts(
    name="Debian",
    arch="aarch64",
    kernel="6.1.0",
    unsupported=None,
    untested=None,
    lacking=(),
    runtime="crun",
    version=(1, 30),
    built=0.0,
    cgroups="v2",
    cgroup_error="",
    reserved=True,
    restricted="",
    confined=Confined(6, "PermissionError", "PermissionError", "PermissionError", 0),
)


def test_an_untested_kind_of_machine_is_noted_and_passes() -> None:
    assert machine.judge_kernel(FACTS).note == ""
    finding = machine.judge_kernel(replace(FACTS, untested="hotdesk was not tested on Debian"))
    assert (finding.state, finding.note) == ("held", "hotdesk was not tested on Debian")


def test_a_runtime_with_known_flaws_is_noted_with_the_mitigations() -> None:
    assert machine.judge_runtime(FACTS).note == ""
    note = machine.judge_runtime(replace(FACTS, version=(1, 8, 1))).note
    assert "hotdesk passes only pipes" in note
    assert "before 1.30" in note
    assert "before 1.24" not in machine.judge_runtime(replace(FACTS, version=(1, 24))).note
    assert machine.judge_runtime(replace(FACTS, version=())).state == "failed"


@pytest.mark.parametrize(
    ("abi", "untested"),
    [
        (0, {"command-write", "command-bind", "command-signal"}),
        (3, {"command-bind", "command-signal"}),
        (5, {"command-signal"}),
        (6, set()),
    ],
)
def test_what_an_older_landlock_does_not_know_is_untested(abi: int, untested: set[str]) -> None:
    write, bind, signal = ("PermissionError" if abi >= least else "done" for least in (1, 4, 6))
    facts = replace(FACTS, confined=Confined(abi, write, bind, signal, 0))
    states = found(machine.CHECKS, facts)
    assert {name for name, finding in states.items() if finding.state == "untested"} == untested
    assert failures(machine.CHECKS, facts) == set()


def test_a_confined_process_that_could_write_or_said_nothing_fails() -> None:
    broken = replace(FACTS, confined=Confined(6, "done", "PermissionError", "PermissionError", 1))
    assert failures(machine.CHECKS, broken) == {"command-write", "command-rights"}
    silent = replace(FACTS, confined=Confined(0, "silence", "silence", "silence", -1))
    assert failures(machine.CHECKS, silent) == {"command-rights", "command-write", "command-bind", "command-signal"}


def test_a_machine_that_lacks_something_fails_there() -> None:
    assert failures(machine.CHECKS, replace(FACTS, lacking=("no overlay",))) == {"kernel"}
    assert failures(machine.CHECKS, replace(FACTS, cgroup_error="no pids")) == {"cgroups"}
    assert failures(machine.CHECKS, replace(FACTS, reserved=False)) == {"ids-reserved"}


def test_stores_are_readable_only_by_root_and_disk_reserves_checked() -> None:
    settings = Config(run=Path("/r"), lib=Path("/l"), images=Path("/l/images"))
    modes = {
        Path("/r"): (0o711, 0),
        Path("/r/runtime"): (0o700, 0),
        Path("/l"): (0o755, 0),
        Path("/l/images"): (0o700, 0),
    }
    sound = Stores(settings, 9 * GIB, GIB, (1 << 63) - 1, modes)
    assert failures(machine.STORES, sound) == set()
    assert failures(machine.STORES, replace(sound, free=GIB)) == {"floors"}
    assert failures(machine.STORES, replace(sound, available=MIB)) == {"floors"}
    assert failures(machine.STORES, replace(sound, file_table=100_000)) == {"file-table"}
    for place, wrong in (
        (Path("/r"), (0o777, 0)),
        (Path("/l/images"), (0o755, 0)),
        (Path("/r/runtime"), (0o700, 1000)),
    ):
        assert failures(machine.STORES, replace(sound, modes={**modes, place: wrong})) == {"folders"}


# -- a desk's word ---------------------------------------------------------------------------------------------

WORD: dict[str, object] = {
    **{group: {each.what: each.answer for each in listed} for group, listed in calls.GROUPS.items()},
    "beyond": {f"host {n}": "ENETUNREACH" for n in range(8)},
    "host": ["ECONNREFUSED", "ECONNREFUSED"],
    "gate": "HTTP/1.1 403 Forbidden",
    "take": ["EADDRINUSE", "EADDRINUSE"],
    "flags": "EPERM",
    "link": "ECONNREFUSED",
    "terminals": 64,
    "crash": [11, False],
    "name": "ixyz",
    "first": {f"way {n}": "EACCES" for n in range(9)},
    "width": [31, 0],
    "x32": "ended by signal 31",
}


def test_a_desk_with_the_right_answers_passes() -> None:
    assert failures(inside.CHECKS, ProbeResult(WORD)) == set()
    assert found(inside.CHECKS, ProbeResult(WORD))["unseen-calls"].state == "untested"


@pytest.mark.parametrize(
    ("key", "value", "red"),
    [
        ("namespaces", {**dict(WORD["namespaces"]), "unshare": 0}, {"namespace-calls"}),  # type: ignore[call-overload]
        ("unseen", {**dict(WORD["unseen"]), "reboot": 0}, {"unseen-calls"}),  # type: ignore[call-overload]
        ("beyond", {f"host {n}": "done" for n in range(8)}, {"no-way-out"}),
        ("beyond", {}, {"no-way-out"}),
        ("host", ["done", "ECONNREFUSED"], {"host-sockets"}),
        ("gate", "HTTP/1.1 200 OK", {"gate-refuses"}),
        ("take", ["done", "EADDRINUSE"], {"gate-stays"}),
        ("flags", "done", {"loopback-stays"}),
        ("link", "heard", {"one-caller"}),
        ("link", "silence", {"one-caller"}),
        ("terminals", 81, {"terminals"}),
        ("terminals", 0, {"terminals"}),
        ("terminals", True, {"terminals"}),
        ("crash", [11, True], {"core-dumps"}),
        ("crash", [0, False], {"core-dumps"}),
        ("first", {f"way {n}": "done" for n in range(9)}, {"first-process"}),
        ("first", {}, {"first-process"}),
        ("width", [0, 42], {"32-bit-calls"}),
    ],
)
def test_a_wrong_answer_fails_its_measure(key: str, value: object, red: set[str]) -> None:
    assert failures(inside.CHECKS, ProbeResult({**WORD, key: value})) == red


@pytest.mark.parametrize("said", [{}, {"families": []}, dict.fromkeys(WORD), {name: [[[]]] for name in WORD}])
def test_missing_and_malformed_answers_are_no_proof(said: dict[str, object]) -> None:
    states = {finding.state for name, finding in found(inside.CHECKS, ProbeResult(said)).items() if name != "x32-calls"}
    assert states == {"failed"}


def test_no_32_bit_programs_at_all_is_untested() -> None:
    assert inside.judge_32bit_programs(ProbeResult({"width": [0, 7]})).state == "untested"


@pytest.mark.parametrize(
    "done",
    [
        Done(0, b""),
        Done(0, b"[1]\n"),
        Done(0, b"[" * 100_000),
        Done(0, b"9" * 9000),
        Done(0, b"\xff\xfe\n"),
        Done(1, b"{}\n"),
        Done(0, b"{}\n", truncated=True),
    ],
)
def test_a_malformed_probe_counts_as_no_answer(done: Done) -> None:
    with pytest.raises(SilentProbeError):
        read_result(done)


def test_text_of_a_desk_is_cut_and_escaped() -> None:
    finding = inside.gate_refuses(ProbeResult({**WORD, "gate": "\x1b[2J\u202e" + "x" * 9999}))
    assert "\x1b" not in finding.seen
    assert "\u202e" not in finding.seen
    assert len(finding.seen) < 2 * SEEN


# -- limits and ends -------------------------------------------------------------------------------------------


def said(**values: object) -> Done:
    return Done(0, json.dumps(values).encode() + b"\n")


STRAIN = Strain(
    disk=said(written=16 * MIB, why="EDQUOT"),
    disk_bytes=16 * MIB,
    disk_kind="btrfs",
    forks=said(forked=20, why="EAGAIN"),
    sockets=said(queued=33 * MIB),
    bomb=Done(137, signal=9),
    oom_kills=1,
    version=1,
    cgroup={
        "memory.limit_in_bytes": str(SMALL.memory),
        "memory.kmem.tcp.limit_in_bytes": str(32 * MIB),
        "pids.max": str(SMALL.pids),
    },
)


@pytest.mark.parametrize(
    ("strain", "red"),
    [
        (STRAIN, set()),
        (replace(STRAIN, version=2, cgroup={"memory.max": str(SMALL.memory), "pids.max": str(SMALL.pids)}), set()),
        (replace(STRAIN, cgroup={}), {"memory", "processes"}),
        (replace(STRAIN, bomb=Done(0)), {"memory"}),
        (replace(STRAIN, oom_kills=0), {"memory"}),
        (replace(STRAIN, forks=said(forked=72, why="room for all")), {"processes"}),
        (replace(STRAIN, forks=Done(1)), {"processes"}),
        (replace(STRAIN, disk=said(written=48 * MIB, why="room for all"), disk_bytes=48 * MIB), {"disk"}),
        (replace(STRAIN, disk_bytes=48 * MIB), {"disk"}),
        (replace(STRAIN, sockets=said(queued=80 * MIB)), {"socket-buffers"}),
        (replace(STRAIN, sockets=said(queued=9)), {"socket-buffers"}),
        (replace(STRAIN, cgroup={**STRAIN.cgroup, "memory.kmem.tcp.limit_in_bytes": str(1 << 60)}), {"socket-buffers"}),
    ],
)
def test_a_limit_that_was_exceeded_fails(strain: Strain, red: set[str]) -> None:
    assert failures(limits.CHECKS, strain) == red


@pytest.mark.parametrize(
    ("version", "kills", "held"), [(2, 2, True), (2, 1, False), (1, 2, False)], ids=["on v2", "by another", "on v1"]
)
def test_on_cgroup_v2_a_flood_that_is_killed_for_its_memory_is_held(version: int, kills: int, held: bool) -> None:
    flood = replace(STRAIN, version=version, oom_kills=kills, sockets=Done(137, signal=9))
    assert ("socket-buffers" not in failures(limits.CHECKS, flood)) == held


def test_a_quota_never_reached_is_untested() -> None:
    quota = {"cpu.cfs_quota_us": "20000", "cpu.cfs_period_us": "100000"}
    assert int(SHORT.cpus * 100_000) == 20000
    assert limits.judge_cpu(Spun(1, quota, 4)).state == "held"
    assert limits.judge_cpu(Spun(1, quota, 0)).state == "untested"
    assert limits.judge_cpu(Spun(2, {"cpu.max": "20000 100000"}, 4)).state == "held"
    assert limits.judge_cpu(Spun(2, {"cpu.max": "max 100000"}, 0)).state == "failed"


def test_signals_must_be_few_and_the_desks_own() -> None:
    assert limits.judge_signals(Signals(ProbeResult({"signals": 1024}), 3)).state == "held"
    assert limits.judge_signals(Signals(ProbeResult({"signals": 1088}), 3)).state == "failed"
    assert limits.judge_signals(Signals(ProbeResult({"signals": 1024}), 1024)).state == "failed"


def test_freezing_ending_and_burning_are_judged() -> None:
    assert life.judge_freeze(Frozen(9, True, 0, 9)).state == "held"
    assert {
        life.judge_freeze(each).state for each in (Frozen(9, False, 0, 9), Frozen(9, True, 2, 9), Frozen(9, True, 0, 0))
    } == {"failed"}
    assert life.judge_freeze(Frozen(0, True, 0, 0)).state == "failed"
    assert [life.judge_deadline(DeadlineOutcome(seconds)).state for seconds in (1.6, None, 0.1)] == [
        "held",
        "failed",
        "failed",
    ]
    assert [life.judge_deadline(DeadlineOutcome(seconds, 15.0)).state for seconds in (16.0, 1.6)] == ["held", "failed"]


@pytest.mark.parametrize(("opening", "pace"), [(0.01, 1.0), (0.25, 1.0), (2.5, 10.0), (3600.0, 20.0)])
def test_a_slow_machine_gets_more_time_but_not_forever(opening: float, pace: float) -> None:
    assert compute_pace(opening) == pace
    assert [life.judge_burn(left).state for left in ([], ["process 7"])] == ["held", "failed"]


def test_unreadable_data_is_no_proof() -> None:
    def unreadable(_: object) -> Finding:
        raise PermissionError(13, "no")

    [result] = judge([JudgedMeasure(Measure("x", "user", "", "", ""), unreadable)], None)
    assert result.finding.state == "failed"
