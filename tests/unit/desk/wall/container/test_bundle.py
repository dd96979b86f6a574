"""Tests of a desk's container configuration: what it must contain and must not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hotdesk.desk.room import procfs
from hotdesk.desk.wall.container import bundle

ROOM = bundle.BundleInput(
    desk="i" + "0" * 20,
    root="/rooms/x/root",
    dev="/rooms/x/dev",
    sys="/rooms/x/sys",
    proc="/rooms/x/proc",
    link="/rooms/x/link",
    userns="/proc/9/fd/1",
    netns="/proc/9/fd/2",
    memory=1 << 30,
    python="/usr/bin/python3",
    machine="aarch64",
    hidden=frozenset((*procfs.EMPTY_FILES, *procfs.EMPTY_FOLDERS, *procfs.OWN_FILES)),
    guest="agent.pyc",
    annotation="run.example.filter",
    filter=None,
    env={"A": "b", "PATH": "/own"},
)


@pytest.fixture
def config() -> Any:
    return json.loads(json.dumps(bundle.build_config(ROOM)))


def test_the_first_process_has_no_capability(config: Any) -> None:
    sets = config["process"]["capabilities"]
    assert set(sets) == {"bounding", "effective", "inheritable", "permitted", "ambient"}
    assert all(each == [] for each in sets.values())


def test_the_first_process_can_gain_nothing(config: Any) -> None:
    process = config["process"]
    assert process["noNewPrivileges"] is True
    assert process["terminal"] is False
    assert (process["user"]["uid"], process["user"]["gid"]) == (1000, 1000)
    assert "additionalGids" not in process["user"]


def test_every_namespace_is_the_desks_own(config: Any) -> None:
    spaces = {space["type"]: space.get("path") for space in config["linux"]["namespaces"]}
    assert spaces == {
        **dict.fromkeys(("pid", "ipc", "uts", "mount", "cgroup")),
        "user": ROOM.userns,
        "network": ROOM.netns,
    }


def test_no_core_is_piped_anywhere(config: Any) -> None:
    limits = {limit["type"]: (limit["soft"], limit["hard"]) for limit in config["process"]["rlimits"]}
    assert limits["RLIMIT_CORE"] == (1, 1)
    assert limits["RLIMIT_SIGPENDING"][1] <= 4096


def test_every_mount_is_made_by_the_keeper_or_by_the_kernel(config: Any) -> None:
    for mount in config["mounts"]:
        if mount["type"] == "bind":
            assert mount["source"].startswith("/rooms/x/"), mount
            assert "rbind" not in mount["options"]
        else:
            assert mount["type"] in ("proc", "tmpfs", "devpts")
            assert not mount["source"].startswith("/")


@pytest.mark.parametrize("place", ["/dev", "/sys", "/run/hotdesk"])
def test_mounts_of_the_keeper_are_read_only(config: Any, place: str) -> None:
    (mount,) = (mount for mount in config["mounts"] if mount["destination"] == place)
    assert {"ro", "nosuid", "noexec"} <= set(mount["options"])


def test_no_mount_but_dev_holds_devices_or_setuid(config: Any) -> None:
    for mount in config["mounts"]:
        if mount["destination"].startswith("/proc/"):
            continue  # single files and one empty folder
        assert "nosuid" in mount["options"], mount
        if mount["destination"] not in ("/dev", "/dev/pts"):
            assert "nodev" in mount["options"], mount


def test_host_information_in_proc_is_covered(config: Any) -> None:
    covered = {mount["destination"] for mount in config["mounts"]}
    for name in ("cmdline", "loadavg", "diskstats", "iomem", "interrupts", "pressure", "sys/kernel/random/boot_id"):
        assert f"/proc/{name}" in covered
    assert "/proc/sys" in config["linux"]["readonlyPaths"]


def test_only_existing_files_of_proc_are_covered() -> None:
    bare = bundle.build_mounts(replace(ROOM, hidden=frozenset()))
    covered = {str(mount["destination"]) for mount in bare}
    assert "/proc/loadavg" in covered
    assert "/proc/iomem" not in covered


def test_ptys_are_few_and_its_own(config: Any) -> None:
    (pts,) = (mount for mount in config["mounts"] if mount["destination"] == "/dev/pts")
    assert {"newinstance", "max=64"} <= set(pts["options"])


def test_nothing_of_the_host_runs_inside(config: Any) -> None:
    assert "hooks" not in config
    assert "devices" not in config["linux"]
    assert "sysctl" not in config["linux"]
    assert config["process"]["args"][0] == ROOM.python


def test_a_variable_of_the_spec_replaces_ours(config: Any) -> None:
    env = dict(pair.split("=", 1) for pair in config["process"]["env"])
    assert (env["A"], env["PATH"], env["HOME"], env["USER"]) == ("b", "/own", "/home/user", "user")
    assert len(config["process"]["env"]) == len(env)


def test_shared_memory_is_limited_by_the_desks(config: Any) -> None:
    (shm,) = (mount for mount in config["mounts"] if mount["destination"] == "/dev/shm")
    assert f"size={ROOM.memory // 2}" in shm["options"]


def test_the_host_name_is_the_desks(config: Any) -> None:
    assert config["hostname"] == ROOM.desk[:12]


@pytest.mark.parametrize("compiled", [None, "", "AAAA"])
def test_system_calls_are_always_filtered(compiled: str | None) -> None:
    whole: Any = bundle.build_config(replace(ROOM, filter=compiled))
    if compiled:
        assert whole["annotations"] == {"run.example.filter": compiled}
        assert "seccomp" not in whole["linux"]
    else:
        assert whole["linux"]["seccomp"]["defaultAction"] == "SCMP_ACT_ERRNO"
        assert "annotations" not in whole
