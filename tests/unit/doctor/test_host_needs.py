"""Tests of what a host lacks for desks, and the option that supplies it, from recorded trials on other hosts."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.doctor import host_needs, host_trial
from hotdesk.doctor.host_needs import HOST_MEASURES, HostReport, judge_host
from hotdesk.doctor.host_trial import HostTrial, TrialFailure
from hotdesk.ipc.child import SOURCE, START
from hotdesk.linux import syscalls
from hotdesk.linux.host_kind import CAPABILITIES, HostKind

EVERYTHING = (1 << 41) - 1
WITHOUT_ADMIN = EVERYTHING & ~(1 << CAPABILITIES["SYS_ADMIN"])
HOST = HostKind("podman", capabilities=EVERYTHING)
REPORT = HostReport(HOST, HostTrial(), True, 2, Path("/var/lib/hotdesk"), "ext4")
MOUNTS = """\
24 29 0:23 / /proc rw,relatime - proc proc rw
29 1 0:50 / / rw,relatime - overlay overlay rw
60 29 254:0 /volumes/hotdesk/_data /var/lib/hotdesk rw,relatime - ext4 /dev/vda rw
"""


def failing(name: str, number: int, host: HostKind = HOST, text: str = "", **others: object) -> HostReport:
    trial = HostTrial(failures={name: TrialFailure(number, text or f"{name} failed")})
    return replace(REPORT, host=host, trial=trial, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("report", "options"),
    [
        (failing("mount", errno.EPERM, replace(HOST, capabilities=WITHOUT_ADMIN)), ["--cap-add=SYS_ADMIN"]),
        (
            failing("mount", errno.EACCES, replace(HOST, profile="docker-default")),
            ["--security-opt=apparmor=unconfined"],
        ),
        (failing("mount", errno.EACCES, replace(HOST, profile="container_t")), ["--security-opt=label=disable"]),
        (failing("mount", errno.EPERM, replace(HOST, is_filtered=True)), ["--security-opt=seccomp=unconfined"]),
        (
            failing("loop", errno.EPERM),
            ["--device-cgroup-rule='c 10:237 rwm' --device-cgroup-rule='b 7:* rwm'"],
        ),
        (
            failing("loop", errno.ENOENT),
            ["--device-cgroup-rule='c 10:237 rwm' --device-cgroup-rule='b 7:* rwm'"],
        ),
        (failing("space", errno.ENOSPC), []),
        (failing("space", errno.EROFS), ["--volume=hotdesk:/var/lib/hotdesk"]),
        (failing("cgroup", errno.EROFS), ["--security-opt=unmask=/sys/fs/cgroup"]),
        (
            failing("cgroup", errno.EROFS, replace(HOST, kind="docker")),
            ["--security-opt=writable-cgroups=true"],
        ),
        (failing("cgroup", errno.EROFS, cgroup_version=1), ["--volume=/sys/fs/cgroup:/sys/fs/cgroup"]),
        (failing("storage", errno.EINVAL, storage_kind="overlay"), ["--volume=hotdesk:/var/lib/hotdesk"]),
        (failing("users", errno.EINVAL, has_ids=False), []),
        (failing("loop", errno.EPERM, has_ids=False), []),
        (failing("mount", errno.EPERM, HostKind("vm", capabilities=EVERYTHING, is_filtered=True)), []),
    ],
)
def test_what_failed_names_the_option_that_supplies_it(report: HostReport, options: list[str]) -> None:
    assert report.list_options() == options


def test_every_missing_capability_is_one_option() -> None:
    capabilities = EVERYTHING & ~(1 << CAPABILITIES["SYS_ADMIN"]) & ~(1 << CAPABILITIES["NET_ADMIN"])
    report = failing("mount", errno.EPERM, replace(HOST, capabilities=capabilities))
    assert report.describe_start() == "podman run --cap-add=NET_ADMIN --cap-add=SYS_ADMIN …"


@pytest.mark.parametrize(
    ("report", "part"),
    [
        (
            failing("mount", errno.EPERM, HostKind("kubernetes", is_filtered=True, capabilities=EVERYTHING)),
            "privileged: true",
        ),
        (
            failing("storage", errno.EINVAL, HostKind("kubernetes", capabilities=EVERYTHING)),
            "a volume at /var/lib/hotdesk",
        ),
        (failing("cgroup", 0, HostKind("wsl2", capabilities=EVERYTHING)), ".wslconfig"),
        (failing("loop", errno.ENOENT, HostKind("bare", capabilities=EVERYTHING)), "modprobe loop"),
        (failing("storage", errno.EINVAL, HostKind("lima", capabilities=EVERYTHING)), "HOTDESK_HOME"),
        (failing("users", errno.EINVAL, replace(HOST, has_own_users=True), has_ids=False), "not rootless"),
        (failing("space", errno.ENOSPC, HostKind("lxc", capabilities=EVERYTHING)), "free disk space"),
        (failing("nodes", errno.EPERM, HostKind("lxc", capabilities=EVERYTHING)), "security.privileged"),
    ],
)
def test_the_remedy_fits_the_host(report: HostReport, part: str) -> None:
    (failed,) = [each for each in judge_host(report) if each.finding.state == "failed"]
    assert part in failed.measure.remedy


def test_a_plain_container_gets_all_missing_options_at_once() -> None:
    capabilities = 0x00000000800405FB
    failures = {"mount": errno.EPERM, "cgroup": errno.EROFS, "loop": errno.EPERM}
    trial = HostTrial(frozenset(failures), {name: TrialFailure(number, "no") for name, number in failures.items()})
    host = replace(HOST, capabilities=capabilities, is_filtered=True, profile="containers-default-0.50.1")
    assert replace(REPORT, host=host, trial=trial, storage_kind="overlay").list_options() == [
        "--cap-add=NET_ADMIN",
        "--cap-add=SYS_PTRACE",
        "--cap-add=SYS_ADMIN",
        "--cap-add=MKNOD",
        "--security-opt=apparmor=unconfined",
        "--security-opt=unmask=/sys/fs/cgroup",
        "--device-cgroup-rule='c 10:237 rwm' --device-cgroup-rule='b 7:* rwm'",
        "--volume=hotdesk:/var/lib/hotdesk",
    ]


def test_a_host_that_supplies_everything_passes() -> None:
    assert {each.finding.state for each in judge_host(REPORT)} == {"held"}
    assert REPORT.describe_start() == ""


def test_without_trials_nothing_is_claimed() -> None:
    results = list(judge_host(replace(REPORT, trial=None)))
    assert {each.finding.state for each in results} == {"untested"}
    assert len(results) == len(HOST_MEASURES)


def test_where_nothing_can_be_mounted_the_rest_is_not_reported_as_passed() -> None:
    trial = HostTrial(frozenset({"mount", "loop", "cgroup"}), {"mount": TrialFailure(errno.EPERM, "no")})
    states = {each.measure.name: each.finding.state for each in judge_host(replace(REPORT, trial=trial))}
    assert states["host-mounts"] == "failed"
    assert states["host-storage"] == states["host-proc"] == "untested"


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib/hotdesk", "ext4"),
        ("/var/lib/hotdesk/images", "ext4"),
        ("/var/lib/other", "overlay"),
        ("/proc/1", "proc"),
    ],
)
def test_the_file_system_of_a_folder_is_found_by_the_mounts(folder: str, kind: str) -> None:
    assert host_needs.find_kind(MOUNTS, Path(folder)) == kind


def test_a_trial_that_does_not_answer_is_a_failure(tmp_path: Path) -> None:
    assert "mount" in host_trial.parse(b"").failures
    assert "mount" in host_trial.parse(b'{"mount": 3}').failures
    assert "mount" in host_trial.parse(b"{}").failures
    found = host_trial.parse(b'{"tried": ["loop"], "failures": {"loop": [1, "no"]}}')
    assert found == HostTrial(frozenset({"loop"}), {"loop": TrialFailure(1, "no")})


@pytest.mark.slow
@pytest.mark.container
def test_this_host_passes_every_trial_and_nothing_is_left(
    settings: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    monkeypatch.setattr(host_trial, "START", f"import tempfile; tempfile.tempdir = {str(tmp_path)!r}\n{START}")
    assert host_trial.attempt(settings) == HostTrial()
    assert not list(tmp_path.iterdir())
    assert Path("/proc/self/mountinfo").read_text() == before
    assert not list(settings.lib.glob("tmp*"))
    assert host_needs.require(settings).list_gaps() == []


@pytest.mark.slow
@pytest.mark.container
@pytest.mark.parametrize(("folder", "bounds"), [("state", "size=16k"), ("temporary", "nr_inodes=1")])
def test_a_full_disk_is_the_only_reason_given(
    settings: Config, folder: str, bounds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    syscalls.mount("full", str(full), "tmpfs", 0, bounds)
    try:
        if folder == "state":
            settings = replace(settings, lib=full)
        else:
            monkeypatch.setattr(host_trial, "START", f"import tempfile; tempfile.tempdir = {str(full)!r}\n{START}")
        report = host_needs.look(settings)
    finally:
        syscalls.umount(str(full))
    (gap,) = report.list_gaps()
    assert gap.trial == "space"
    assert str(full) in gap.symptom
    assert gap.remedy.startswith("free disk space")


@pytest.mark.slow
@pytest.mark.container
def test_a_container_with_users_of_its_own_is_refused_with_its_reason(settings: Config) -> None:
    """As in a rootless container, whose root has one id, and capabilities that apply to nothing else."""
    script = "from hotdesk.doctor import host_needs; from hotdesk import config; host_needs.require(config.load())"
    alone = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]
    env = {**os.environ, "HOTDESK_HOME": str(settings.run.parent), "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([*alone, sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert "container (rootless)" in done.stderr
    assert "this user namespace does not have the user ids from" in done.stderr
    assert "without `--userns` and not rootless" in done.stderr
