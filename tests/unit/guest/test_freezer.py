"""Tests of the control group of a machine's programs: what a process in it sees of the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hotdesk_guest.freezer import GROUP, ProgramFreezer

pytestmark = pytest.mark.timeout(30)
NAMESPACE = "/proc/self/ns/cgroup"


@pytest.mark.skipif(os.geteuid() != 0, reason="a machine's first process is root")
def test_a_program_in_the_group_sees_no_group_beside_it(tmp_path: Path) -> None:
    """What root moved to a group beside it would not be frozen, and would run in a copy before that is seeded."""
    (tmp_path / GROUP).mkdir()
    (tmp_path / GROUP / "cgroup.procs").touch()
    mounted = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    freezer = ProgramFreezer(mounted)
    child = os.fork()
    if child == 0:
        before = os.readlink(NAMESPACE)
        freezer.admit()
        os._exit(0 if os.readlink(NAMESPACE) != before else 1)
    _, status = os.waitpid(child, 0)
    os.close(mounted)
    os.close(freezer.folder)
    assert status == 0
    assert (tmp_path / GROUP / "cgroup.procs").read_bytes() == b"0"
