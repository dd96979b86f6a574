"""Tests of where a program begins in a command line, and of messages about wrong usage."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from hotdesk.cli import carry_out, get_module_name
from hotdesk.cli.parser import parse
from hotdesk.desk.seam import Spec
from hotdesk.errors import BriefError, HotdeskError

ID = "i" + "ab12" * 5


def parsed(*argv: str) -> argparse.Namespace:
    return parse(argv[0], import_module(get_module_name(argv[0])), list(argv[1:]))


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["run", "ls", "-la"], ["ls", "-la"]),
        (["run", "--", "ls", "-la"], ["ls", "-la"]),
        (["run", "--memory", "512M", "--root", "python3", "-c", "print(1)"], ["python3", "-c", "print(1)"]),
        (["run", "--memory=512M", "ls", "--help"], ["ls", "--help"]),
        (["run", "git", "log", "--", "file"], ["git", "log", "--", "file"]),
        (["run", "--timeout", "5", "--", "--odd"], ["--odd"]),
        (["exec", ID, "ls", "-la"], ["ls", "-la"]),
        (["exec", ID, "--cwd", "/tmp", "--", "sh", "-c", "ls"], ["sh", "-c", "ls"]),
        (["exec", "--cwd", "/tmp", ID, "sh", "-c", "ls"], ["sh", "-c", "ls"]),
        (["shell", ID, "htop", "-d", "5"], ["htop", "-d", "5"]),
        (["shell", "--", "htop", "-d", "5"], ["htop", "-d", "5"]),
    ],
)
def test_a_program_begins_at_the_first_word_that_is_not_ours(argv: list[str], command: list[str]) -> None:
    assert parsed(*argv).command == command


def test_options_before_the_program_are_ours() -> None:
    found = parsed("run", "--memory", "512M", "--allow", "pypi", "pip", "--memory", "1G")
    assert (found.memory, found.allow, found.command) == ("512M", ["pypi"], ["pip", "--memory", "1G"])
    assert parsed("shell", "--allow", "pypi").allow == ["pypi"]
    assert parsed("shell", ID, "--user", "root").desk == ID


@pytest.mark.parametrize("seconds", ["-1", "0", "nan", "inf", "soon", "31536001"])
def test_an_impossible_time_is_refused(seconds: str) -> None:
    with pytest.raises(BriefError, match="must be a number of seconds above 0, at most 31536000"):
        parsed("run", "--timeout", seconds, "--", "true")


@pytest.mark.parametrize(
    ("typed", "meant"), [("rum", "did you mean run"), ("exce", "exec"), ("jornal", "journal"), ("zzz", "--help")]
)
def test_an_unknown_command_is_answered_with_a_similar_one(typed: str, meant: str) -> None:
    with pytest.raises(BriefError, match=meant):
        carry_out([typed])


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (("image", "lst"), "`hotdesk image` has no command 'lst'; did you mean ls? Use one of build, save, ls, "),
        (("brief", "b.toml"), "`hotdesk brief` has no command 'b.toml'; use one of check, new; see"),
    ],
)
def test_an_unknown_second_command_is_answered_with_the_known_ones(typed: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(BriefError) as refused:
        parsed(*typed)
    assert str(refused.value).startswith(complaint)


@pytest.mark.parametrize(
    ("asked", "bounds"),
    [
        ({"memory": 10}, "cannot be 10 bytes: use 16M to 1024T"),
        ({"cpus": 0.0}, "cannot be 0: use 0.01 to 1024"),
        ({"disk": 5}, "use 1M to 1024T"),
        ({"pids": 1}, "cannot be 1: use 4 to 4194304"),
        ({"deadline": -1.0}, "cannot be -1 seconds: use 0.001 seconds to 31536000 seconds"),
        ({"idle": float("nan")}, "use 0.001 seconds"),
        ({"disk_in": "cloud"}, "use 'disk' or 'memory'"),
    ],
)
def test_an_impossible_size_is_refused_with_minimum_and_maximum(asked: dict[str, object], bounds: str) -> None:
    with pytest.raises(BriefError, match=bounds):
        Spec(**asked)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--cpus", "400"], f"--cpus 400 is more than this machine has; use 0.01 to {os.cpu_count()}"),
        (["--memory", "1000T"], "--memory 1000T is more than this machine has; use 16M to "),
        (["--memory", "10"], "use 16M to"),
        (["--disk", "1000T"], "--disk 1000T is more than this machine has; use 1M to "),
    ],
)
def test_a_desk_larger_than_the_machine_is_refused(options: list[str], why: str, tmp_path: Path) -> None:
    script = "import sys; from hotdesk.cli import main; main()"
    env = {"HOTDESK_HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    store = tmp_path / "lib/images/images"
    store.mkdir(parents=True)
    (store / "base.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, "-c", script, "open", *options], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (125, "")
    assert why in done.stderr


def test_network_options_are_not_for_an_open_desk() -> None:
    with pytest.raises(HotdeskError, match="--allow applies to a new desk only"):
        carry_out(["shell", "--allow", "pypi", ID])
