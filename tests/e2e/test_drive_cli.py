"""Tests of `hotdesk drive` with the real program, in a separate state directory for each test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.drive.journal import FILE, read
from hotdesk.drive.keep import Drive
from hotdesk.event import DriveChanged
from tests.e2e.conftest import Hotdesk, environment

pytestmark = pytest.mark.container
SOURCE = os.pathsep.join(filter(None, sys.path))
USER = 1234


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "user"
    folder.mkdir()
    os.chown(folder, USER, USER)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def state(home: Path, tmp_path: Path) -> Path:
    return home / tmp_path.name


@pytest.fixture
def run(hotdesk: Hotdesk, settings: Config, state: Path, place: Path) -> Hotdesk:
    here = {**environment(settings), "HOTDESK_HOME": str(state), "PYTHONPATH": SOURCE}

    def run(*argv: str, **more: object) -> subprocess.CompletedProcess[bytes]:
        return hotdesk("drive", *argv, **{**here, **more})

    return run


def changes(state: Path) -> list[DriveChanged]:
    rows = read(state / "lib/keys" / FILE)
    return [event for event in (row.read_event() for row in rows) if isinstance(event, DriveChanged)]


def test_a_file_goes_in_and_comes_out_and_each_change_is_an_event(run: Hotdesk, place: Path, state: Path) -> None:
    (place / "prices.csv").write_bytes(b"one")
    assert run("put", "prices.csv", SUDO_UID="1234", SUDO_GID="1234").stdout == b"put prices.csv@1\n"
    done = run("put", "-", "prices.csv", "--json", stdin=b"two")
    (told,) = json.loads(done.stdout)
    assert (told["number"], told["size"], told["owner"], told["job"]) == (2, 3, "uid:0", "")
    assert run("get", "prices.csv", "copy.csv").stdout == b"copy.csv\n"
    assert ((place / "copy.csv").read_bytes(), (place / "copy.csv").stat().st_uid) == (b"two", USER)
    assert run("get", "prices.csv@1", "-").stdout == b"one"
    done = run("rm", "prices.csv@1")
    assert (done.stdout, done.stderr) == (b"removed prices.csv@1\n", b"")
    listed = json.loads(run("ls", "--json").stdout)
    assert [(each["name"], each["number"]) for each in listed] == [("prices.csv", 2)]
    assert [each.number for each in Drive(state / "lib/drive").list_history("prices.csv", who="uid:0")] == [2]
    noted = changes(state)
    assert [(each.what, each.name, each.version, each.size) for each in noted] == [
        ("put", "prices.csv", 1, 3),
        ("put", "prices.csv", 2, 3),
        ("removed", "prices.csv", 1, 3),
    ]
    assert noted[0].by.startswith("uid 0 pid ")
    assert noted[0].by.endswith(" sudo 1234")
    assert len({each.job for each in noted}) == 3


@pytest.mark.long
def test_names_are_listed_for_people(run: Hotdesk, state: Path) -> None:
    assert run("ls").stdout.split() == b"NAME VERSION SIZE WHEN OWNER JOB CERTIFIED SHA256".split()
    drive = Drive(state / "lib/drive")
    drive.keep("a/1", b"one", owner="uid:1000", job="i" + "a1b2" * 5)
    drive.keep("a/1", b"two", owner="uid:1000")
    drive.keep("b", b"two", owner="uid:0")
    assert [line.split()[:3] for line in run("ls", "a/").stdout.splitlines()[1:]] == [[b"a/1", b"2", b"3"]]
    assert [line.split()[1] for line in run("history", "a/1").stdout.splitlines()[1:]] == [b"1", b"2"]
    assert b"i" + b"a1b2" * 5 in run("history", "a/1").stdout
    assert run("ls", "--owner", "uid:0").stdout.count(b"\n") == 2


@pytest.mark.long
def test_invalid_calls_are_reported_in_one_line(run: Hotdesk, place: Path) -> None:
    (place / "there").write_bytes(b"mine")
    for argv, said in {
        ("get", "none"): b"none is not in the drive, which is still empty",
        ("put", "absent"): b"absent cannot be read",
        ("put", "there", "../up"): b"is not a valid drive name",
        ("put", "there", "a@3"): b"which selects a version",
        ("put", "there", "--owner", "me"): b"is not an identity",
        ("rm", "none"): b"no such name in the drive: none",
        ("history", "none"): b"no such name",
    }.items():
        done = run(*argv)
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (125, b"", 1), argv
        assert said in done.stderr
    run("put", "-", "there", stdin=b"another")
    done = run("get", "there")
    assert b"there exists already and was changed since hotdesk wrote it" in done.stderr
    assert (place / "there").read_bytes() == b"mine"


@pytest.mark.sample(1)
@pytest.mark.parametrize("act", ["ls", "get", "put", "rm", "history"])
def test_help_shows_examples(run: Hotdesk, act: str) -> None:
    done = run(act, "--help")
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"hotdesk drive {act}".encode() in done.stdout.partition(b"positional arguments")[0].split(b"\n\n", 1)[1]
