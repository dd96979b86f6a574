"""Tests of a keeper's handling of a /proc that a container engine covered, and its errors on a host that refuses."""

from __future__ import annotations

import errno

import pytest

from hotdesk.desk.keeper.namespace import explain_refusal, is_covered

PLAIN = """\
24 29 0:23 / /proc rw,relatime - proc proc rw
25 24 0:24 / /proc/sys/fs/binfmt_misc rw,relatime - autofs systemd-1 rw
26 24 0:25 / /proc/sys/fs/binfmt_misc rw,relatime - binfmt_misc binfmt_misc rw
27 29 0:26 / /process rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("line", "covered"),
    [
        ("", False),
        ("90 24 0:23 /sys /proc/sys ro,relatime - proc proc rw", True),
        ("91 24 0:6 /null /proc/kcore rw - tmpfs tmpfs rw", True),
        ("92 24 0:60 / /proc/acpi ro - tmpfs tmpfs ro", True),
        ("93 29 0:61 / /procedures rw - tmpfs tmpfs rw", False),
    ],
)
def test_a_proc_is_covered_by_what_an_engine_mounts_over_parts_of_it(line: str, covered: bool) -> None:
    assert is_covered(f"{PLAIN}{line}\n") is covered


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES, errno.EROFS])
def test_a_refusal_of_the_host_points_to_doctor(number: int) -> None:
    text = explain_refusal(OSError(number, "mount tmpfs on /run/hotdesk/private"))
    assert "mount tmpfs on /run/hotdesk/private" in text
    assert "`hotdesk doctor` shows what is missing on this host" in text


def test_another_failure_is_reported_as_it_is() -> None:
    assert explain_refusal(OSError(errno.ENOSPC, "no room")) == "[Errno 28] no room"
