"""Tests of what a machine lacks for building images, decided from texts so that every machine can be tried here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.desk.image import requirements
from hotdesk.desk.image.requirements import HostMachine, KernelConfig
from hotdesk.errors import HostError

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\nID=debian\n'
FIT = KernelConfig("6.1.0-18-arm64", "nodev\tproc\nnodev\toverlay\n\text4\n", "", "96373\n")


def make(distro: str, release: str, arch: str = "x86_64") -> HostMachine:
    return requirements.describe(f"ID={distro}\nVERSION_ID={release}\n", arch)


def test_an_os_release_is_read_with_its_quotes() -> None:
    found = requirements.describe(DEBIAN, "aarch64")
    assert found == HostMachine("debian", "12", "bookworm", "Debian GNU/Linux 12 (bookworm)", "aarch64")


@pytest.mark.parametrize(
    "text", ["", "no equals", 'ID="unclosed', "ID=\nVERSION_ID=", "=", "PRETTY_NAME='\x1b]0;x\x07'"]
)
def test_a_broken_os_release_is_refused_without_harm(text: str) -> None:
    why = requirements.explain_refusal(requirements.describe(text, "x86_64"))
    assert why is not None
    assert why.isprintable()


@pytest.mark.parametrize(
    ("distro", "release", "arch", "supported"),
    [
        ("debian", "12", "aarch64", True),
        ("debian", "13", "x86_64", True),
        ("ubuntu", "24.04", "x86_64", True),
        ("debian", "11", "x86_64", False),
        ("debian", "", "x86_64", False),
        ("ubuntu", "22.04", "x86_64", False),
        ("fedora", "42", "x86_64", False),
        ("debian", "12", "riscv64", False),
    ],
)
def test_only_listed_distributions_are_supported(distro: str, release: str, arch: str, supported: bool) -> None:
    assert (requirements.explain_refusal(make(distro, release, arch)) is None) is supported


def test_a_refusal_names_this_system_the_supported_ones_and_a_remedy() -> None:
    with pytest.raises(HostError) as caught:
        requirements.require_supported(make("fedora", "42"), {})
    for part in ("fedora 42", "x86_64", "Debian 12", "Ubuntu 24.04", "hotdesk serve", "HOTDESK_ANY_HOST=1"):
        assert part in str(caught.value)


def test_with_the_override_a_warning_replaces_the_refusal() -> None:
    warning = requirements.require_supported(make("fedora", "42"), {"HOTDESK_ANY_HOST": "1"})
    assert warning is not None
    assert "not supported" in warning
    assert requirements.require_supported(make("debian", "12"), {}) is None


def test_the_keyring_is_the_distributions_own() -> None:
    assert requirements.list_packages(make("debian", "13"))[-1] == "debian-archive-keyring"
    assert requirements.list_packages(make("ubuntu", "24.04"))[-1] == "ubuntu-keyring"


def test_a_package_counts_only_when_it_is_wholly_installed() -> None:
    told = "crun installed\nmount config-files\nutil-linux half-configured\nbtrfs-progs not-installed\n\n"
    assert requirements.parse_installed(told) == {"crun"}


def test_this_machine_knows_dpkg_but_no_invented_package() -> None:
    assert requirements.list_missing_packages(["dpkg", "hotdesk-no-such-package"]) == ["hotdesk-no-such-package"]


def test_apt_without_lists_is_noticed(tmp_path: Path) -> None:
    assert not requirements.has_apt_lists(tmp_path / "absent")
    (tmp_path / "lock").touch()
    assert not requirements.has_apt_lists(tmp_path)
    (tmp_path / "mirror_dists_trixie_main_binary-arm64_Packages.lz4").touch()
    assert requirements.has_apt_lists(tmp_path)


@pytest.mark.parametrize(
    ("release", "arch", "version", "tested"),
    [
        ("12", "x86_64", 1, True),
        ("13", "x86_64", 2, True),
        ("13", "x86_64", 1, False),
        ("13", "aarch64", 2, False),
        ("12", "riscv64", 1, False),
        ("11", "x86_64", 1, False),
        ("12", "x86_64", 3, False),
    ],
)
def test_a_machine_of_a_kind_that_was_not_tested_is_told_apart(
    release: str, arch: str, version: int, tested: bool
) -> None:
    caveat = requirements.describe_caveat(HostMachine("debian", release, "", f"Debian {release}", arch), version)
    assert (caveat is None) == tested
    assert tested or f"Debian {release}, {arch}, with cgroup v{version}" in str(caveat)


def test_a_suitable_kernel_lacks_nothing() -> None:
    assert requirements.list_kernel_flaws(FIT) == []
    unloaded = replace(FIT, filesystems="", modules="kernel/fs/overlayfs/overlay.ko.xz:\n")
    assert requirements.list_kernel_flaws(unloaded) == []


@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        (replace(FIT, release="5.10.0-28-amd64"), "5.19"),
        (replace(FIT, release="5.18"), "5.19"),
        (replace(FIT, filesystems="nodev\toverlayish\n"), "overlay"),
        (replace(FIT, max_user_namespaces=None), "max_user_namespaces"),
        (replace(FIT, max_user_namespaces="0\n"), "max_user_namespaces"),
        (replace(FIT, has_loop=False), "modprobe loop"),
    ],
)
def test_what_a_kernel_lacks_is_reported_with_its_remedy(kernel: KernelConfig, told: str) -> None:
    (only,) = requirements.list_kernel_flaws(kernel)
    assert told in only


@pytest.mark.parametrize(
    ("release", "version"),
    [("6.18.44-fc-v445", (6, 18)), ("5.19", (5, 19)), ("6.1.0-18-arm64", (6, 1)), ("10", (10,)), ("odd", ())],
)
def test_a_kernels_version_is_its_first_two_numbers(release: str, version: tuple[int, ...]) -> None:
    assert requirements.parse_version(release) == version


DEVICES = "Character devices:\n  1 mem\n  7 vcs\n\nBlock devices:\n{}254 virtblk\n"


@pytest.mark.parametrize(("rows", "has_loop"), [("  7 loop\n", True), ("", False), (" 17 loop\n", False)])
def test_loop_devices_are_known_by_their_driver_where_no_node_shows_them(rows: str, has_loop: bool) -> None:
    assert requirements.has_loop_driver(DEVICES.format(rows)) is has_loop


def test_a_kernel_without_btrfs_or_erofs_is_accepted_with_its_substitute() -> None:
    assert requirements.list_kernel_flaws(FIT) == []
    assert [each.partition(":")[0] for each in requirements.name_fallbacks(FIT)] == [
        "the kernel has no btrfs",
        "the kernel has no erofs",
    ]
    both = replace(FIT, filesystems=FIT.filesystems + "\tbtrfs\n", modules="kernel/fs/erofs/erofs.ko.xz: \n")
    assert requirements.name_fallbacks(both) == []
