"""Tests of recognising what kind of host this is, from texts so that every kind can be tried here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hotdesk.linux import host_kind, uids
from hotdesk.linux.host_kind import CAPABILITIES, HostFacts, recognise

FIRST = {"pid": 0xEFFFFFFC, "user": 0xEFFFFFFD, "uts": 0xEFFFFFFE, "ipc": 0xEFFFFFFF, "cgroup": 0xEFFFFFFB}
OWN = {kind: 4026532000 + n for n, kind in enumerate(FIRST)} | {"user": FIRST["user"]}
EVERYTHING = (1 << 41) - 1
DEFAULT = 0x00000000800405FB
"""What Podman gives a container."""
BARE = HostFacts(namespaces=FIRST, kernel="6.12.0-amd64", capabilities=EVERYTHING, uid_map="0 0 4294967295\n")
QEMU = replace(BARE, firmware="QEMU Standard PC (Q35 + ICH9, 2009) SeaBIOS", has_hypervisor=True)
CONTAINER = replace(BARE, namespaces=OWN, capabilities=DEFAULT, seccomp=2)
PODMAN = replace(CONTAINER, markers=frozenset({"/run/.containerenv"}))
DOCKER = replace(CONTAINER, markers=frozenset({"/.dockerenv"}))
POD = replace(
    CONTAINER, mounts="512 500 8:1 /var/lib/kubelet/pods/5f1c/etc-hosts /etc/hosts rw,relatime - ext4 /dev/sda1 rw\n"
)
WSL2 = replace(BARE, namespaces=OWN, kernel="5.15.167.4-microsoft-standard-WSL2", has_hypervisor=True)
LIMA = replace(
    QEMU, mounts="40 29 7:0 / /mnt/lima-cidata ro,relatime - iso9660 /dev/vdb ro\n", firmware="Apple Virtualization"
)


@pytest.mark.parametrize(
    ("facts", "kind", "text"),
    [
        (BARE, "bare", "a physical machine"),
        (QEMU, "vm", "a virtual machine (QEMU)"),
        (replace(BARE, has_hypervisor=True), "vm", "a virtual machine (unknown hypervisor)"),
        (replace(BARE, firmware="Amazon EC2 c7g.metal"), "bare", "a physical machine"),
        (replace(BARE, firmware="Amazon EC2 c7g.large", has_hypervisor=True), "vm", "a virtual machine (Amazon EC2)"),
        (replace(BARE, firmware="Dell Inc. PowerEdge R640"), "bare", "a physical machine"),
        (PODMAN, "podman", "a Podman container (restricted)"),
        (
            replace(PODMAN, firmware="QEMU", has_hypervisor=True),
            "podman",
            "a Podman container (restricted), in a virtual machine (QEMU)",
        ),
        (replace(PODMAN, capabilities=EVERYTHING, seccomp=0), "podman", "a Podman container (privileged)"),
        (replace(PODMAN, namespaces={**OWN, "user": 4026532999}), "podman", "a Podman container (rootless)"),
        (DOCKER, "docker", "a Docker container (restricted)"),
        (replace(CONTAINER, engine="docker"), "docker", "a Docker container (restricted)"),
        (replace(CONTAINER, cgroups="0::/docker/0123\n"), "docker", "a Docker container (restricted)"),
        (POD, "kubernetes", "a Kubernetes pod (restricted)"),
        (replace(DOCKER, mounts=POD.mounts), "kubernetes", "a Kubernetes pod (restricted)"),
        (
            replace(CONTAINER, cgroups="4:memory:/kubepods/burstable/pod1\n"),
            "kubernetes",
            "a Kubernetes pod (restricted)",
        ),
        (replace(CONTAINER, engine="lxc"), "lxc", "an LXC container (restricted)"),
        (replace(CONTAINER, engine="systemd-nspawn"), "nspawn", "a systemd-nspawn container (restricted)"),
        (CONTAINER, "container", "a container (restricted)"),
        (replace(CONTAINER, engine="oci"), "container", "a container (restricted)"),
        (WSL2, "wsl2", "WSL2"),
        (replace(WSL2, markers=DOCKER.markers, seccomp=2), "docker", "a Docker container (restricted), in a virtual"),
        (LIMA, "lima", "a Lima virtual machine"),
        (
            replace(QEMU, variables=frozenset({"CI", "GITHUB_ACTIONS"})),
            "vm",
            "a virtual machine (QEMU), a runner of GitHub Actions",
        ),
        (
            replace(PODMAN, variables=frozenset({"CI"})),
            "podman",
            "a Podman container (restricted), a runner of a CI system",
        ),
    ],
)
def test_a_host_is_recognised(facts: HostFacts, kind: str, text: str) -> None:
    found = recognise(facts)
    assert found.kind == kind
    assert found.describe().startswith(text)


def test_a_virtual_machine_made_from_a_container_image_is_no_container() -> None:
    firecracker = replace(BARE, markers=frozenset({"/.dockerenv"}), firmware="linux,dummy-virt", has_hypervisor=True)
    assert recognise(firecracker).kind == "vm"


def test_a_container_with_the_hosts_processes_is_known_by_its_other_namespaces() -> None:
    assert recognise(replace(PODMAN, namespaces={**OWN, "pid": FIRST["pid"]})).kind == "podman"


def test_namespaces_that_cannot_be_read_tell_nothing() -> None:
    assert recognise(replace(BARE, namespaces={})).kind == "bare"


@pytest.mark.parametrize(
    ("label", "profile"),
    [
        ("", ""),
        ("unconfined", ""),
        ("docker-default (enforce)", "docker-default"),
        ("containers-default-0.50.1 (enforce)", "containers-default-0.50.1"),
        ("mine (complain)", ""),
        ("runc (unconfined)", ""),
        ("system_u:system_r:container_t:s0:c1,c2", "container_t"),
        ("unconfined_u:unconfined_r:unconfined_t:s0", ""),
        ("system_u:system_r:container_runtime_t:s0", ""),
    ],
)
def test_a_profile_counts_only_where_it_confines(label: str, profile: str) -> None:
    assert recognise(replace(BARE, profile=label)).profile == profile


@pytest.mark.parametrize("loss", ["capabilities", "seccomp", "profile", "users"])
def test_a_container_is_privileged_only_without_any_restriction(loss: str) -> None:
    whole = replace(PODMAN, capabilities=EVERYTHING, seccomp=0)
    assert recognise(whole).is_privileged
    lost = {
        "capabilities": replace(whole, capabilities=EVERYTHING & ~(1 << 21)),
        "seccomp": replace(whole, seccomp=2),
        "profile": replace(whole, profile="docker-default (enforce)"),
        "users": replace(whole, namespaces={**OWN, "user": 4026532999}),
    }
    assert not recognise(lost[loss]).is_privileged


def test_missing_capabilities_are_those_a_keeper_needs() -> None:
    assert recognise(BARE).list_missing_capabilities() == []
    assert recognise(PODMAN).list_missing_capabilities() == ["NET_ADMIN", "SYS_PTRACE", "SYS_ADMIN", "MKNOD"]
    assert recognise(replace(BARE, capabilities=0)).list_missing_capabilities() == list(CAPABILITIES)


@pytest.mark.parametrize(
    ("uid_map", "covered"),
    [
        ("         0          0 4294967295\n", True),
        ("0 100000 65536\n", False),
        (f"0 100000 65536\n{uids.FIRST} 200000 {uids.WIDTH * uids.SLOTS}\n", True),
        (f"{uids.FIRST} 0 {uids.WIDTH * uids.SLOTS - 1}\n", False),
        (f"{uids.FIRST} 0 1000\n{uids.FIRST + 1000} 5000 {uids.WIDTH * uids.SLOTS}\n", True),
        ("", False),
    ],
)
def test_ids_are_covered_only_if_all_are(uid_map: str, covered: bool) -> None:
    assert host_kind.covers_ids(uid_map, uids.FIRST, uids.WIDTH * uids.SLOTS) is covered


def test_a_hostile_description_is_escaped() -> None:
    assert recognise(replace(BARE, firmware="\x1b[2J", has_hypervisor=True)).describe().isprintable()


def test_this_host_is_recognised() -> None:
    found = host_kind.look()
    assert found.describe()
    assert found.capabilities
