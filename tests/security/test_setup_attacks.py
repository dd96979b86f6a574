"""Attacks on `hotdesk setup`: an ordinary user chooses the programs and modules that it runs as root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.security.guards import Removal, falls_without

TAKE = """
import json, os, sys
from pathlib import Path
from hotdesk.cli.machine.setup_root import take_variables
take_variables(Path(sys.argv[1]))
print(json.dumps(dict(os.environ)))
"""
PLANTED = {
    "PATH": "/home/me/bin",
    "HOME": "/home/me",
    "XDG_CONFIG_HOME": "/home/me/config",
    "PYTHONPATH": "/home/me/modules",
    "PYTHONHOME": "/home/me/python",
    "PIP_PYTHON": "/home/me/bin/python",
    "PIP_CONFIG_FILE": "/home/me/pip.conf",
    "LD_PRELOAD": "/home/me/x.so",
    "GCONV_PATH": "/home/me",
    "HOTDESK_GVISOR_PROGRAM": "/home/me/bin/runsc",
}


def take(file: str, variables: dict[str, str], **more: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in variables} | more
    argv = [sys.executable, "-c", TAKE, file]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env=env)


@falls_without(
    "callers do not choose root's programs",
    Removal("cli/machine/setup_root.py", "    if name in _ROOTS_OWN:\n", "    if name in ():\n"),
    Removal(
        "cli/machine/setup_root.py",
        "        return name in (*_PIP, *_PIP_CONNECTION)\n",
        "        return True\n",
    ),
    cases="PATH | HOME | XDG_CONFIG_HOME | PYTHONPATH | PIP_PYTHON | PIP_CONFIG_FILE | HOTDESK_GVISOR_PROGRAM",
)
@falls_without(
    "set-up takes the variables it needs",
    Removal(
        "cli/machine/setup_root.py",
        "    return is_passed_on(name) or (name.startswith",
        "    return True or (name.startswith",
    ),
    cases="PYTHONHOME | LD_PRELOAD | GCONV_PATH",
)
@pytest.mark.parametrize("name", PLANTED)
def test_a_variable_chooses_no_program_or_module_of_root(name: str) -> None:
    needed = {"HOTDESK_HOME": "/elsewhere", "HTTPS_PROXY": "http://proxy.example", "PIP_INDEX_URL": "https://index"}
    variables = {name: PLANTED[name], **needed}
    file = os.memfd_create("variables")
    os.write(file, json.dumps(variables).encode())
    done = take(f"/proc/{os.getpid()}/fd/{file}", variables)
    os.close(file)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert needed.items() <= found.items()
    assert found.get(name) != PLANTED[name]


@falls_without(
    "variables come from a calling process",
    Removal("cli/machine/setup_root.py", "if found is None or not _is_ancestor(int(found[1])):", "if False:"),
)
@pytest.mark.parametrize("where", ["file", "other process", "own descriptor by a link", "above"])
def test_variables_come_from_a_calling_process_alone(tmp_path: Path, where: str) -> None:
    file = tmp_path / "variables"
    file.write_text(json.dumps({"HOTDESK_HOME": "/elsewhere"}))
    with file.open() as opened, subprocess.Popen(["sleep", "60"], stdin=opened) as other:
        own = f"/proc/{os.getpid()}/fd/{opened.fileno()}"
        (tmp_path / "link").symlink_to(own)
        places = {
            "file": str(file),
            "other process": f"/proc/{other.pid}/fd/0",
            "own descriptor by a link": str(tmp_path / "link"),
            "above": f"/proc/{os.getpid()}/fd/../cwd/{os.path.relpath(file)}",
        }
        done = take(places[where], {})
        other.kill()
    assert done.returncode != 0
    assert "is not a descriptor of a calling process" in done.stderr


@falls_without(
    "root's programs come from the system's folders",
    Removal("cli/machine/setup_root.py", "if os.geteuid() == 0 else", "if False else"),
)
def test_a_planted_program_is_not_roots(tmp_path: Path) -> None:
    planted = tmp_path / "useradd"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    script = (
        "import shutil; from hotdesk.cli.machine.setup_root import widen_path; "
        "widen_path(); print(shutil.which('useradd'))"
    )
    argv = [sys.executable, "-c", script]
    env = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60, env=env)
    assert done.stdout == "/usr/sbin/useradd\n"
