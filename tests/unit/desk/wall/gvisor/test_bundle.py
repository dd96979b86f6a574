"""Tests of a desk's configuration behind gVisor: what it must contain and must not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hotdesk.desk.wall.gvisor import bundle

ROOM = bundle.GvisorBundle("i" + "0" * 20, 1 << 30, "/usr/bin/python3", "start.pyc", {"A": "b"})


@pytest.fixture
def config() -> Any:
    return json.loads(json.dumps(bundle.build_config(ROOM)))


def test_the_first_process_has_no_capability_and_can_gain_none(config: Any) -> None:
    process = config["process"]
    assert all(each == [] for each in process["capabilities"].values())
    assert process["noNewPrivileges"] is True
    assert (process["user"]["uid"], process["user"]["gid"]) == (1000, 1000)
    assert process["args"][-2:] == ["/run/hotdesk", "sentry"]


def test_root_inside_has_only_the_capabilities_package_installation_needs() -> None:
    process: Any = bundle.build_root_process(ROOM)
    assert process["capabilities"]["bounding"] == [f"CAP_{name}" for name in bundle.CAPABILITIES]
    assert not {"SYS_ADMIN", "SYS_PTRACE", "NET_RAW", "NET_ADMIN", "MKNOD", "DAC_READ_SEARCH"} & {*bundle.CAPABILITIES}
    assert process["args"][-3:] == ["/run/hotdesk", "root", "sentry"]
    assert "HOME=/root" in process["env"]


def test_no_path_of_the_host_is_named(config: Any) -> None:
    sources = {mount["source"] for mount in config["mounts"] if mount["type"] == "bind"}
    assert sources == {"/link", *(f"/covers/{name}" for name in bundle.COVERS)}
    assert config["root"]["path"] == "/root"
    assert not any("path" in space for space in config["linux"]["namespaces"])


def test_what_the_desk_shares_with_its_keeper_cannot_be_written(config: Any) -> None:
    shared = [mount for mount in config["mounts"] if mount["type"] == "bind"]
    assert shared
    assert all({"ro", "nosuid", "nodev"} <= {*mount["options"]} for mount in shared)
    executable = [mount["destination"] for mount in shared if "noexec" not in mount["options"]]
    assert executable == ["/run/hotdesk"], "where a copy's root runs the one program that renames it"


def test_a_desk_has_its_own_memory_in_proc(config: Any) -> None:
    assert {"/proc/meminfo", "/proc/cpuinfo", "/proc/stat"} <= {mount["destination"] for mount in config["mounts"]}
    (shm,) = (mount for mount in config["mounts"] if mount["destination"] == "/dev/shm")
    assert f"size={1 << 29}" in shm["options"]


def test_only_calls_the_sentry_handles_wrongly_are_refused(config: Any) -> None:
    profile = config["linux"]["seccomp"]
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    missing, *sockets = profile["syscalls"]
    assert (missing["names"], missing["action"]) == (["close_range"], "SCMP_ACT_TRACE")
    assert {(*each["names"], each["action"]) for each in sockets} == {("socket", "SCMP_ACT_ERRNO")}
    refused = [[(arg["index"], arg["valueTwo"]) for arg in each["args"]] for each in sockets]
    assert refused == [[(0, 2), (1, 3)], [(0, 10), (1, 3)], [(0, 17)]], "raw ones of IPv4 and IPv6, and packets"
