"""Tests of starting runsc and reading its output."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hotdesk.config import Config
from hotdesk.desk.wall.gvisor import runsc
from hotdesk.desk.wall.gvisor.status import choose_platform, find_release, look
from hotdesk.desk.wall.program import ask_version


def make_room(folder: Path) -> Any:
    (folder / runsc.STATE).mkdir()
    return SimpleNamespace(folder=folder)


def test_a_desk_has_no_network_and_opens_only_sockets_that_are_there() -> None:
    flags = runsc.Runsc("/usr/bin/runsc", "ptrace").build_flags("log")
    assert {"--network=none", "--host-uds=open", "--platform=ptrace", "--overlay2=none", "--file-access=shared"} <= {
        *flags
    }
    assert flags[0] == "/runsc"


def test_errors_in_the_log_of_runsc_are_reported(tmp_path: Path) -> None:
    room = make_room(tmp_path)
    (tmp_path / runsc.STATE / runsc.LOG).write_text("cannot create gofer\n")
    assert runsc.describe_failure(room, 128, runsc.LOG) == "runsc ended with status 128: cannot create gofer"


@pytest.mark.parametrize("kind", ["link", "pipe", "nothing"])
def test_a_log_that_is_not_a_plain_file_is_not_read(tmp_path: Path, kind: str) -> None:
    room, log = make_room(tmp_path), tmp_path / runsc.STATE / runsc.LOG
    if kind == "link":
        (tmp_path / "secret").write_text("secret")
        log.symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(log)
    assert runsc.describe_failure(room, 128, runsc.LOG) == "runsc ended with status 128"


def test_a_failed_launcher_reports_the_reason(tmp_path: Path) -> None:
    (tmp_path / "launch.log").write_text("mount proc: Operation not permitted")
    assert "could not be started: mount proc" in runsc.describe_failure(make_room(tmp_path), 125, runsc.LOG)


@pytest.mark.parametrize(
    ("output", "release"),
    [
        ("runsc version 0.0~20240729.0\nspec: 1.0.2-dev\n", 20240729),
        ("runsc version release-20260112.0\nspec: 1.1.0-rc.1\n", 20260112),
        ("runsc version VERSION_MISSING\n", 0),
    ],
)
def test_the_release_of_a_runsc_is_its_date(tmp_path: Path, output: str, release: int) -> None:
    program = tmp_path / "runsc"
    program.write_text(f"#!/bin/sh\nprintf '%s' '{output}'\n")
    program.chmod(0o755)
    assert find_release(ask_version(str(program))) == release


def test_a_program_that_cannot_run_is_reported_with_the_remedy(tmp_path: Path) -> None:
    program = tmp_path / "runsc"
    program.write_text("nothing")
    program.chmod(0o755)
    found = look(Config(run=tmp_path, lib=tmp_path, images=tmp_path, gvisor_program=str(program)))
    assert found.missing == f"{program} does not report its release"
    assert "setup --wall gvisor" in found.remedy


def test_an_idle_desk_costs_nothing_unless_the_operator_chose_otherwise() -> None:
    assert choose_platform("auto") == "ptrace"
    assert choose_platform("systrap") == "systrap"
