"""Tests of doctor's page cache findings: kernel releases, an oops, and whether two desks share a superblock."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.doctor import cache
from hotdesk.doctor.cache import Apart, KernelReport

MOUNTINFO = """\
21 1 254:0 / / rw - ext4 /dev/vda rw
47 46 254:0 /images/layers/ab /run/hotdesk/private/ione/l0 ro,nosuid,nodev,idmapped - ext4 /dev/vda rw
48 46 254:0 /images/layers/cd /run/hotdesk/private/ione/l1 ro,nosuid,nodev,idmapped - ext4 /dev/vda rw
49 46 0:50 / /run/hotdesk/private/ione/link rw - tmpfs room rw
50 46 7:1 / /run/hotdesk/private/itwo/l0 ro,nosuid,nodev,idmapped - erofs /dev/loop1 ro
51 46 7:2 / /run/hotdesk/private/itwo/l10 ro,nosuid,nodev,idmapped - erofs /dev/loop2 ro
"""


@pytest.mark.parametrize(
    ("release", "state"),
    [
        ("6.18.29", "held"),
        ("6.18.44-fc", "held"),
        ("6.18.28", "failed"),
        ("6.18.0-3-generic", "untested"),
        ("7.0.5", "failed"),
        ("7.0.0-12-generic", "untested"),
        ("7.0.6-1-pve", "held"),
        ("7.1.0-rc3", "held"),
        ("8.0", "held"),
        ("6.1.0-41-amd64", "untested"),
        ("6.12.88+deb13-amd64", "untested"),
        ("odd", "untested"),
    ],
)
def test_a_kernel_is_judged_only_by_its_release(release: str, state: str) -> None:
    assert cache.judge_release(KernelReport(release, 0)).state == state


@pytest.mark.parametrize(("tainted", "state"), [(0, "held"), (4097, "held"), (128, "failed"), (4225, "failed")])
def test_an_oops_is_reported(tainted: int, state: str) -> None:
    assert cache.judge_soundness(KernelReport("6.18.44", tainted)).state == state


def test_the_layers_of_a_room_are_found_and_nothing_else() -> None:
    assert cache.find_superblocks(MOUNTINFO, Path("/run/hotdesk/private/ione")) == {"254:0"}
    assert cache.find_superblocks(MOUNTINFO, Path("/run/hotdesk/private/itwo")) == {"7:1", "7:2"}
    assert cache.find_superblocks(MOUNTINFO, Path("/run/hotdesk/private/ithree")) == set()


@pytest.mark.parametrize(
    ("working", "verifying", "state"),
    [
        ({"254:0"}, {"7:1", "7:2"}, "held"),
        ({"254:0"}, {"7:1", "254:0"}, "failed"),
        ({"254:0"}, set(), "failed"),
        (set(), {"7:1"}, "failed"),
    ],
)
def test_two_desks_are_separate_if_they_share_no_superblock(working: set[str], verifying: set[str], state: str) -> None:
    assert cache.judge_separation(Apart(frozenset(working), frozenset(verifying))).state == state
