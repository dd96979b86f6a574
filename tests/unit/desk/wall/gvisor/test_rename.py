"""Tests of the program that sets a copy's host name."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hotdesk.desk.wall.gvisor.rename import build_program


@pytest.mark.container
def test_it_sets_the_host_name_and_ends_well(tmp_path: Path) -> None:
    program = tmp_path / "rename"
    program.write_bytes(build_program("i0123456789a", os.uname().machine))
    program.chmod(0o700)
    line = ["unshare", "--uts", "sh", "-c", f"{program} && uname -n"]
    done = subprocess.run(line, check=False, capture_output=True, text=True)
    assert done.stdout == "i0123456789a\n", done


@pytest.mark.container
def test_without_the_privilege_it_reports_an_error(tmp_path: Path) -> None:
    program = tmp_path / "rename"
    program.write_bytes(build_program("other", os.uname().machine))
    program.chmod(0o755)
    tmp_path.chmod(0o755)
    line = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", str(program)]
    assert subprocess.run(line, check=False).returncode != 0


@pytest.mark.parametrize("machine", ["aarch64", "x86_64"])
def test_it_is_small_and_names_its_machine(machine: str) -> None:
    data = build_program("i0123456789a", machine)
    assert data[:4] == b"\x7fELF"
    assert data[18] == {"aarch64": 183, "x86_64": 62}[machine]
    assert data.endswith(b"i0123456789a")
    assert len(data) < 200
