"""Tests of finding cgroup controllers, and of a desk's cgroup: its limits and its end."""

from __future__ import annotations

import errno
import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotdesk.config import MIB
from hotdesk.errors import HostError
from hotdesk.linux.cgroup import (
    NEEDED,
    Cgroup,
    CgroupLimits,
    Hierarchies,
    delegate,
    detect,
    find_hierarchies,
    move_processes_below,
    read_headroom,
)


def mounted(*controllers: str, at: str = "/sys/fs/cgroup") -> str:
    """Write the mountinfo of a v1 host."""
    lines = ["25 1 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw"]
    for number, names in enumerate(controllers):
        lines.append(f"{34 + number} 33 0:{31 + number} / {at}/{names} rw,relatime shared:9 - cgroup cgroup rw,{names}")
    return "\n".join(lines) + "\n"


UNIFIED = "43 33 0:40 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
ONLY_V2 = "43 33 0:40 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"


def test_v1_is_found_with_joint_mounts() -> None:
    found = detect(mounted("cpu,cpuacct", "memory", "pids", "devices", "freezer", "blkio", "name=systemd"), None)
    assert found.version == 1
    assert found.mounts["cpu"] == Path("/sys/fs/cgroup/cpu,cpuacct")
    assert set(found.mounts) == set(NEEDED)
    assert len(Cgroup(found, "i1").places) == len(NEEDED) - 1


def test_a_hybrid_host_is_v1() -> None:
    text = mounted(*NEEDED) + UNIFIED
    assert detect(text, None).version == 1
    assert detect(text, "memory pids cpu").version == 1


def test_v2_is_found() -> None:
    found = detect(ONLY_V2, "cpuset cpu io memory hugetlb pids rdma\n")
    assert (found.version, found.mounts) == (2, {"unified": Path("/sys/fs/cgroup")})


@pytest.mark.parametrize("lacking", ["memory", "pids", "cpu"])
def test_v2_without_a_controller_is_refused(lacking: str) -> None:
    with pytest.raises(HostError, match=lacking):
        detect(ONLY_V2, " ".join({"cpu", "memory", "pids"} - {lacking}))


@pytest.mark.parametrize("lacking", NEEDED)
def test_v1_without_a_controller_is_refused_and_v2_is_named_as_the_remedy(lacking: str) -> None:
    with pytest.raises(HostError, match=f"{lacking} are not mounted for cgroup v1.* with cgroup v2 alone"):
        detect(mounted(*(name for name in NEEDED if name != lacking)), None)


@pytest.mark.parametrize("text", ["", "garbage\n", UNIFIED])
def test_a_host_without_cgroups_is_refused(text: str) -> None:
    with pytest.raises(HostError):
        detect(text, None)


def test_the_first_of_two_mounts_counts() -> None:
    found = detect(mounted(*NEEDED) + mounted(*NEEDED, at="/elsewhere"), None)
    assert found.mounts["memory"] == Path("/sys/fs/cgroup/memory")


def test_each_desk_has_folders_of_its_own() -> None:
    found = detect(mounted(*NEEDED), None)
    assert found.get_folders("i1")["memory"] == Path("/sys/fs/cgroup/memory/hotdesk-i1")


def test_on_v2_the_folder_above_all_desks_goes_when_none_is_below_it(tmp_path: Path) -> None:
    found = Hierarchies(2, {"unified": tmp_path})
    folder = found.get_folders("i1")["unified"]
    folder.mkdir(parents=True)
    assert not found.remove_above()
    folder.rmdir()
    assert found.remove_above()
    assert list(tmp_path.iterdir()) == []
    assert not found.remove_above()


def test_on_v1_there_is_no_folder_above_desks(tmp_path: Path) -> None:
    (tmp_path / "hotdesk").mkdir()
    assert not Hierarchies(1, {"memory": tmp_path}).remove_above()
    assert (tmp_path / "hotdesk").exists()


@pytest.mark.parametrize(("cpus", "quota"), [(2.0, 200_000), (0.5, 50_000), (0.001, 1000)])
def test_a_quota_is_never_below_what_the_kernel_takes(cpus: float, quota: int) -> None:
    assert CgroupLimits(memory=1, pids=1, cpus=cpus).quota == quota


@pytest.fixture
def cgroup() -> Iterator[Cgroup]:
    made = Cgroup(find_hierarchies(), f"unit{secrets.token_hex(8)}")
    made.make(CgroupLimits(memory=64 * MIB, pids=8, cpus=0.5))
    yield made
    made.kill()
    made.remove()
    assert not [folder for folder in made.folders.values() if folder.exists()]


def inside(cgroup: Cgroup, script: str) -> subprocess.Popen[bytes]:
    joins = cgroup.join
    pipe = subprocess.PIPE
    return subprocess.Popen(["sh", "-c", script], preexec_fn=joins, stdout=pipe, stderr=pipe)  # noqa: PLW1509


@pytest.mark.container
def test_a_process_that_joins_is_killed_with_its_children(cgroup: Cgroup) -> None:
    child = inside(cgroup, "setsid sleep 100 & setsid sleep 100 & echo on; wait")
    assert child.stdout is not None
    child.stdout.readline()
    assert len(cgroup.list_pids()) == 3
    assert cgroup.kill()
    assert cgroup.list_pids() == set()
    child.communicate()
    assert child.returncode == -9


@pytest.mark.container
def test_a_frozen_desk_is_killed_too(cgroup: Cgroup) -> None:
    child = inside(cgroup, "sleep 100")
    end = time.monotonic() + 5
    while not cgroup.list_pids() and time.monotonic() < end:
        time.sleep(0.01)
    cgroup.freeze(True)
    assert cgroup.kill()
    child.communicate()


@pytest.mark.container
def test_a_fork_bomb_is_held(cgroup: Cgroup) -> None:
    child = inside(cgroup, "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 100 & done")
    child.wait(10)
    cgroup.kill()
    assert b"fork" in child.communicate(timeout=10)[1].lower()


@pytest.mark.slow
@pytest.mark.container
def test_out_of_memory_is_counted(cgroup: Cgroup) -> None:
    assert cgroup.count_oom_kills() == 0
    child = inside(cgroup, "exec python3 -c 'x = bytearray(256 << 20)'")
    child.communicate(timeout=10)
    assert child.returncode == -9
    assert cgroup.count_oom_kills() >= 1


@pytest.mark.container
def test_removing_twice_or_what_never_was_is_no_error() -> None:
    absent = Cgroup(find_hierarchies(), f"unit{secrets.token_hex(8)}")
    absent.remove()
    assert absent.list_pids() == set()
    assert absent.kill()
    assert os.path.isdir("/sys/fs/cgroup")


def unified() -> Path:
    """Return the root of this machine's v2 hierarchy."""
    hybrid = Path("/sys/fs/cgroup/unified")
    return hybrid if hybrid.is_dir() else Path("/sys/fs/cgroup")


@pytest.fixture
def inhabited() -> Iterator[tuple[Path, int]]:
    folder = unified() / f"vacated-{secrets.token_hex(4)}"
    folder.mkdir()
    with subprocess.Popen(["sleep", "60"]) as process:
        (folder / "cgroup.procs").write_text(str(process.pid))
        yield folder, process.pid
        process.kill()
    for each in (folder / "init", folder):
        if each.is_dir():
            each.rmdir()


def test_a_containers_own_cgroup_is_emptied_into_one_below_it(inhabited: tuple[Path, int]) -> None:
    folder, pid = inhabited
    move_processes_below(folder)
    assert (folder / "cgroup.procs").read_text() == ""
    assert (folder / "init/cgroup.procs").read_text().split() == [str(pid)]
    move_processes_below(folder)


def test_controllers_are_switched_on_once_nothing_runs_beside_them(inhabited: tuple[Path, int]) -> None:
    folder, pid = inhabited

    def switch(place: Path) -> None:
        """Refuse as the kernel does: no controllers below a cgroup that has processes of its own."""
        if (place / "cgroup.procs").read_text():
            raise OSError(errno.EBUSY, "processes")

    delegate(folder, switch)
    assert (folder / "init/cgroup.procs").read_text().split() == [str(pid)]


def test_another_refusal_moves_nothing(inhabited: tuple[Path, int]) -> None:
    folder, pid = inhabited

    def switch(place: Path) -> None:
        raise OSError(errno.EROFS, "read-only")

    with pytest.raises(OSError, match="read-only"):
        delegate(folder, switch)
    assert (folder / "cgroup.procs").read_text().split() == [str(pid)]


@pytest.mark.parametrize(
    ("files", "headroom"),
    [
        ({}, 1 << 62),
        ({"memory.max": "max\n", "memory.current": "5\n", "memory.stat": "inactive_file 1\n"}, 1 << 62),
        ({"memory.max": "1000\n", "memory.current": "700\n", "memory.stat": "anon 9\ninactive_file 100\n"}, 400),
        ({"memory.max": "1000\n", "memory.current": "1700\n", "memory.stat": "inactive_file 100\n"}, 0),
        (
            {
                "memory/memory.limit_in_bytes": "1000\n",
                "memory/memory.usage_in_bytes": "600\n",
                "memory/memory.stat": "inactive_file 7\ntotal_inactive_file 50\n",
            },
            450,
        ),
    ],
)
def test_a_containers_own_limit_bounds_what_is_available(tmp_path: Path, files: dict[str, str], headroom: int) -> None:
    (tmp_path / "memory").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert read_headroom(tmp_path) == headroom
