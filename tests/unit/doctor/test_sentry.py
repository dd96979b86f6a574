"""Tests of doctor's judgements of a gVisor desk: no measure is left out without a reason."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from hotdesk.config import MIB
from hotdesk.desk.seam import Done
from hotdesk.desk.wall.gvisor.status import list_flaws
from hotdesk.doctor import cache, machine, sentry
from hotdesk.doctor.examination import MEASURES
from hotdesk.doctor.host_needs import HOST_MEASURES
from hotdesk.doctor.measure import Finding
from hotdesk.doctor.probes import ProbeResult
from hotdesk.doctor.sentry import TIGHT, Exhausted, FilledDisk, SandboxFreeze
from hotdesk.doctor.sentry_view import SandboxProcess, SandboxView
from hotdesk.linux import uids

BASE = uids.FIRST + 7 * uids.WIDTH
KINDS = ("pid", "mnt", "ipc", "uts", "cgroup", "net", "user")
TWINS = {
    "own-ids": "ids", "no-new-privileges": "filter", "loopback-only": "network", "capabilities": "capabilities",
    "namespaces": "namespaces", "environment": "environment", "filter": "filter",
}  # fmt: skip
"""Measures whose counterpart has another name."""


def process(
    number: int, supervisor: bool = False, files: frozenset[str] | None = frozenset({"proc"})
) -> SandboxProcess:
    user = str(BASE + (uids.SUPERVISOR if supervisor else 0))
    sets = dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapAmb"), "0" * 16)
    sets["CapBnd"] = "000001ffffffffff" if supervisor else "00000000000c001f"
    sets["CapEff"] = sets["CapPrm"] = "0" * 16 if supervisor else "000000000008001f"
    return SandboxProcess(
        pid=number,
        is_supervisor=supervisor,
        status={
            "Uid": "\t".join([user] * 4),
            "Gid": "\t".join([user] * 4),
            "Groups": "",
            "NoNewPrivs": "1",
            "Seccomp": "0" if supervisor else "2",
            **sets,
        },
        namespaces={kind: 1000 + place + number for place, kind in enumerate(KINDS)},
        interfaces=frozenset({"lo"}),
        routes=0,
        files=files,
        variables=frozenset({"PATH"}),
    )


VIEW = SandboxView(
    base=BASE,
    claimed=True,
    processes=(process(10, supervisor=True, files=frozenset({"bin"})), process(20), process(30, files=None)),
    host_namespaces=dict.fromkeys(KINDS, 1),
)


def change(number: int, **changes: object) -> SandboxView:
    processes = tuple(
        replace(each, **changes) if place == number else each  # type: ignore[arg-type]
        for place, each in enumerate(VIEW.processes)
    )
    return replace(VIEW, processes=processes)


def with_status(number: int, **changes: str) -> SandboxView:
    return change(number, status={**VIEW.processes[number].status, **changes})


def test_a_correct_sandbox_passes() -> None:
    assert {check.measure.name: check.judge(VIEW).state for check in sentry.VIEW_CHECKS} == {
        check.measure.name: "held" for check in sentry.VIEW_CHECKS
    }


@pytest.mark.parametrize(
    ("judge", "view", "why"),
    [
        (sentry.judge_ids, replace(VIEW, claimed=False), "not reserved for this desk"),
        (sentry.judge_ids, with_status(1, Uid="0\t0\t0\t0"), "has uid"),
        (sentry.judge_ids, with_status(0, Uid=f"{BASE}\t{BASE}\t{BASE}\t{BASE}"), "has uid"),
        (sentry.judge_ids, with_status(2, Groups="4 27"), "has the groups"),
        (sentry.judge_capabilities, with_status(1, CapEff="000001ffffffffff"), "has CapEff"),
        (sentry.judge_capabilities, with_status(1, CapBnd="000001ffffffffff"), "has CapBnd"),
        (sentry.judge_capabilities, with_status(0, CapPrm="0000000000000001"), "has CapPrm"),
        (sentry.judge_filter, with_status(2, Seccomp="0"), "has no system call filter"),
        (sentry.judge_filter, with_status(0, NoNewPrivs="0"), "could gain privileges"),
        (sentry.judge_namespaces, change(1, namespaces=dict.fromkeys(KINDS, 1)), "the host's user namespace"),
        (sentry.judge_namespaces, change(0, namespaces=dict.fromkeys(KINDS, 1)), "the host's pid namespace"),
        (sentry.judge_network, change(1, interfaces=frozenset({"lo", "eth0"})), "has the network interface eth0"),
        (sentry.judge_network, change(2, routes=2), "has 2 routes"),
        (sentry.judge_files, change(1, files=frozenset({"proc", "home"})), "sees the files home"),
        (sentry.judge_files, change(2, files=frozenset()), "0 processes see the desk's"),
        (sentry.judge_files, change(1, files=None), "2 processes see the desk's"),
        (sentry.judge_environment, change(1, variables=frozenset({"PATH", "API_KEY"})), "API_KEY is set"),
    ],
)
def test_a_sandbox_that_lacks_a_part_fails(
    judge: Callable[[SandboxView], Finding], view: SandboxView, why: str
) -> None:
    finding = judge(view)
    assert finding.state == "failed"
    assert why in finding.seen


def test_programs_on_the_hosts_kernel_are_detected() -> None:
    assert sentry.judge_kernel(ProbeResult({"release": "4.4.0"})).state == "held"
    assert sentry.judge_kernel(ProbeResult({"release": os.uname().release})).state == "failed"


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (SandboxFreeze(0.3, True, 0.0, 0.3), "held"),
        (SandboxFreeze(0.3, True, 0.1, 0.3), "failed"),
        (SandboxFreeze(0.3, False, 0.0, 0.3), "failed"),
        (SandboxFreeze(0.0, True, 0.0, 0.3), "failed"),
        (SandboxFreeze(0.3, True, 0.0, 0.0), "failed"),
    ],
)
def test_the_freezer_is_judged_by_processor_time(outcome: SandboxFreeze, state: str) -> None:
    assert sentry.judge_freeze(outcome).state == state


@pytest.mark.parametrize(
    ("end", "state"),
    [("desk i1 ended: out of memory", "held"), ("", "failed"), ("desk i1 ended: its first process ended", "failed")],
)
def test_a_limit_is_judged_by_how_the_desk_ended(end: str, state: str) -> None:
    assert sentry.judge_end(Exhausted(end, "out of memory")).state == state


@pytest.mark.parametrize(
    ("why", "size", "state"),
    [("EDQUOT", TIGHT.disk, "held"), ("room for all", TIGHT.disk, "failed"), ("ENOSPC", 40 * MIB, "failed")],
)
def test_a_disk_is_judged_by_its_size_on_the_host(why: str, size: int, state: str) -> None:
    assert sentry.judge_disk(FilledDisk(Done(0, f'{{"why": "{why}"}}'.encode()), size)).state == state


def test_every_measure_of_a_desk_has_a_twin_on_a_sentry_or_a_reason_why_not() -> None:
    others = {check.measure.name for check in machine.CHECKS} | {check.measure.name for check in cache.CHECKS}
    others |= {check.measure.name for check in machine.STORES} | {measure.name for measure in HOST_MEASURES.values()}
    names = {measure.name for measure in MEASURES} - others
    there = {measure.name for measure in sentry.MEASURES}
    twins = {name for name in names if f"sentry-{TWINS.get(name, name)}" in there}
    assert names - twins == sentry.LEFT_OUT.keys()
    assert [name for name, reason in sentry.LEFT_OUT.items() if len(reason) < 20] == []


def test_measures_of_a_sentry_have_names_of_their_own() -> None:
    names = [measure.name for measure in sentry.MEASURES]
    assert len(set(names)) == len(names)
    assert [name for name in names if not name.startswith("sentry-")] == []
    assert [each.name for each in sentry.MEASURES if not each.how.startswith("tested from ")] == []


def test_known_flaws_of_runsc_go_by_its_release_and_age() -> None:
    year, now = 365.25 * 86400, 1_790_000_000.0  # September 2026
    assert [len(list_flaws(release, now)) for release in (20240729, 20250201, 20250401, 20260901, 0)] == [3, 2, 1, 0, 0]
    assert "CVE-2025-2713" in list_flaws(20240729, now)[1]
    assert len(list_flaws(20260901, now + year)) == 1
