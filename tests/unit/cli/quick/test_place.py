"""Tests of which holder a command uses: one with the same settings, variables and version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk import config
from hotdesk.cli.quick.place import SOURCE, Place, is_tenant

NAME = """
import sys
from hotdesk.cli.quick.place import Place, name_holder, read_settings
print(name_holder(read_settings(Place())))
"""
LIGHT = """
import sys
from hotdesk import cli
from hotdesk.cli.quick import arguments, call, exec, place, run, run_follow, run_without_holder
from hotdesk.cli.quick import signals, start, streams
heavy = {"json", "re", "socket", "signal", "typing", "enum", "dataclasses", "argparse", "asyncio"}
print(*sorted(heavy & set(sys.modules)))
"""


def name_in(home: Path, *before: str, program: str = NAME, **variables: str) -> str:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "HOTDESK_HOME": str(home), **variables}
    argv = [*before, sys.executable, "-c", program]
    return subprocess.run(argv, env=env, check=True, capture_output=True, text=True).stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has holders")
@pytest.mark.parametrize("tenant", ["default", "acme", "a-1"])
@pytest.mark.parametrize("home", ["", "/var/tmp/some where", "relative"])
def test_the_state_directory_is_that_of_the_settings(monkeypatch: pytest.MonkeyPatch, home: str, tenant: str) -> None:
    monkeypatch.setenv("HOTDESK_HOME", home)
    monkeypatch.setenv("HOTDESK_TENANT", tenant)
    place = Place()
    settings = config.load()
    assert place.is_known
    assert place.run == str(settings.run)
    assert place.settings == str(config.choose_folders(dict(os.environ))[2] / "config.toml")


@pytest.mark.parametrize("name", ["", "-a", "A", "a/b", "..", "a" * 33, "ä", "a.b"])
def test_a_name_that_is_not_a_tenants_is_recognised(name: str) -> None:
    assert not is_tenant(name)
    assert not config.TENANT_SHAPE.fullmatch(name)


def test_other_settings_variables_and_surroundings_need_another_holder(tmp_path: Path) -> None:
    usual = name_in(tmp_path)
    assert name_in(tmp_path) == usual
    assert name_in(tmp_path, SOMETHING="else", LANG="C") == usual
    assert name_in(tmp_path, HOTDESK_REQUESTER="anna") == usual
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/config.toml").write_text("pids_floor = 1\n")
    names = [
        usual,
        name_in(tmp_path),
        name_in(tmp_path, HOTDESK_IMAGES="/elsewhere"),
        name_in(tmp_path, HOTDESK_MEMORY_FLOOR="1M"),
        name_in(tmp_path, "nice"),
        name_in(tmp_path, "prlimit", "--nofile=512:512"),
    ]
    assert len(set(names)) == len(names)


def test_the_code_and_its_version_choose_the_holder(tmp_path: Path) -> None:
    usual = name_in(tmp_path)
    assert name_in(tmp_path, program=f"import hotdesk; hotdesk.__version__ = '99'\n{NAME}") != usual
    (tmp_path / "copy").symlink_to(SOURCE)
    assert name_in(tmp_path, PYTHONPATH=str(tmp_path / "copy")) != usual


def test_a_quick_command_imports_almost_nothing() -> None:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", LIGHT], env=env, check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
