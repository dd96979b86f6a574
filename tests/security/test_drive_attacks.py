"""Attacks on the drive: by names, other users, the owner of the folder that copies go to, races, and kill -9."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from hotdesk.drive.catalog import FILE, Version
from hotdesk.drive.identity import OPERATOR, get_current_user
from hotdesk.drive.keep import Drive, read_input
from hotdesk.errors import BriefError, HostError, HotdeskError
from hotdesk.job.results import Out
from tests.security.guards import Removal, falls_without, no_guard

ANNA, MALLORY = "uid:1000", "uid:1001"
USER = 1234
KILLED = Path(__file__).with_name("drive_killed.py")
WRITERS = 8


@pytest.fixture
def drive(tmp_path: Path) -> Drive:
    drive = Drive(tmp_path / "drive", quota=1000)
    drive.keep("secret.csv", b"secret", owner=ANNA)
    return drive


NAMES = {
    "above": "../../etc/cron.d/x",
    "above in between": "a/../../x",
    "absolute": "/etc/passwd",
    "control": "a\x1b]0;x\x07b",
    "a line break": "a\nput b@1",
    "bidi": "a\u202excod.exe",
    "zero width": "a\u200b",
    "filler": "a\u3164",
    "nothing": "a\0b",
    "half a character": "a\udc80",
    "ten thousand": "a" * 10_000,
    "ten thousand parts": "a/" * 5_000 + "a",
    "another's version": "secret.csv@1",
}


@falls_without(
    "names of the drive", Removal("drive/names.py", "    if why := describe_fault(name):\n", '    if why := "":\n')
)
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_no_name_leads_out_of_the_drive_or_looks_like_another(drive: Drive, tmp_path: Path, name: str) -> None:
    before = sorted(map(str, tmp_path.rglob("*")))
    with pytest.raises(BriefError) as refused:
        drive.keep(name, b"data", owner=MALLORY)
    with pytest.raises(BriefError):
        Out(tmp_path / "out", [name])
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 500
    assert sorted(map(str, tmp_path.rglob("*"))) == before


def told(act: Callable[[], object]) -> str:
    try:
        return repr(act())
    except HotdeskError as e:
        return f"{e.code}: {e}"


@falls_without(
    "names that are for somebody",
    Removal(
        "drive/identity.py",
        "    return may_write(who, owner) or any(each in (who, EVERYBODY) for each in readers)\n",
        "    return True\n",
    ),
)
def test_another_users_file_is_reported_as_unknown(drive: Drive) -> None:
    def tried(name: str) -> list[str]:
        acts: list[Callable[[], object]] = [
            lambda: drive.find(name, who=MALLORY),
            lambda: drive.find(name, 1, who=MALLORY),
            lambda: drive.find(name, who=MALLORY, owner=ANNA),
            lambda: drive.list_history(name, who=MALLORY),
            lambda: drive.remove(name, who=MALLORY),
            lambda: drive.remove(name, 1, who=MALLORY, owner=ANNA),
            lambda: read_input(drive, f"drive:{name}", MALLORY),
            lambda: drive.ls(name, who=MALLORY),
        ]
        return [told(act).replace(name, "NAME") for act in acts]

    assert tried("secret.csv") == tried("absent.csv")
    assert drive.find("secret.csv", who=ANNA) == b"secret"


@falls_without("names that are for somebody")
def test_writing_a_file_does_not_reveal_what_others_have(drive: Drive) -> None:
    version = drive.keep("secret.csv", b"secret", owner=MALLORY)
    assert (version.number, drive.count_used_bytes(MALLORY)) == (1, 6)
    assert not drive.holds(hashlib.sha256(b"absent").hexdigest(), who=MALLORY)
    drive.remove("secret.csv", who=MALLORY)
    assert not drive.holds(version.sha256, who=MALLORY)
    assert drive.find("secret.csv", who=ANNA) == b"secret"


@falls_without(
    "one's own names first", Removal("drive/catalog.py", "        if who in owners:\n", "        if not owners:\n")
)
def test_a_shared_file_does_not_replace_ones_own(drive: Drive) -> None:
    drive.keep("secret.csv", b"false", owner=MALLORY, readers=["*"])
    assert drive.find("secret.csv", who=ANNA) == b"secret"
    drive.keep("prices.csv", b"right", owner=OPERATOR, readers=["*"])
    drive.keep("prices.csv", b"false", owner=MALLORY, readers=["*"])
    with pytest.raises(BriefError, match=r"several owners have a file 'prices\.csv'"):
        drive.find("prices.csv", who=ANNA)


@falls_without(
    "rights by what the kernel says",
    Removal("drive/identity.py", 'f"uid:{os.geteuid()}"\n\n', '"uid:" + os.environ.get("SUDO_UID", "")\n\n'),
)
def test_environment_variables_give_no_rights(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setenv("SUDO_GID", "1000")
    assert get_current_user() == f"uid:{os.geteuid()}"


ANY_HASH = Removal(
    "drive/blobs.py", "        if remaining or digest.hexdigest() != sha256:\n", "        if remaining > size:\n"
)


@falls_without("bytes held against their hash", ANY_HASH, cases="other bytes | fewer | more")
@falls_without(
    "no links among the blobs",
    Removal(
        "drive/blobs.py",
        "os.open(sha256, private_files.READ, dir_fd=place)",
        "os.open(sha256, os.O_RDONLY, dir_fd=place)",
    ),
    cases="a link",
)
@falls_without(
    "plain files among the blobs",
    ANY_HASH,
    Removal("drive/blobs.py", "            if not stat.S_ISREG(os.fstat(fd).st_mode):\n", "            if fd < 0:\n"),
    cases="a pipe",
)
@no_guard("a control: there is nothing that could be given", cases="gone")
@pytest.mark.parametrize("change", ["other bytes", "fewer", "more", "a link", "a pipe", "gone"])
def test_bytes_that_were_changed_on_disk_are_not_returned(drive: Drive, tmp_path: Path, change: str) -> None:
    path = drive.get_version("secret.csv", who=ANNA).path
    path.unlink()
    (tmp_path / "elsewhere").write_bytes(b"secret")
    match change:
        case "a link":
            path.symlink_to(tmp_path / "elsewhere")
        case "a pipe":
            os.mkfifo(path)
        case "gone":
            pass
        case _:
            path.write_bytes({"other bytes": b"SECRET", "fewer": b"secre", "more": b"secret!"}[change])
    with pytest.raises(HostError):
        drive.find("secret.csv", who=ANNA)
    with Out(tmp_path / "out", ["a"]) as out, pytest.raises(HostError):
        out.copy("a", drive.open_stream("secret.csv", who=ANNA), lambda sha256: True)
    assert not (tmp_path / "out").exists()


LINKS = {
    "the folder": ("out", "..", "out/report.xlsx"),
    "above the folder": ("parent", "..", "parent/out/report.xlsx"),
    "a folder in it": ("out/deep", "../..", "out/deep/report.xlsx"),
    "the file": ("out/report.xlsx", "../../victim", "out/report.xlsx"),
    "a file that is not there": ("out/report.xlsx", "../../new", "out/report.xlsx"),
}


LINKS_FOLLOWED = Removal("job/results.py", "LOOK = os.O_RDONLY | os.O_NOFOLLOW | ", "LOOK = os.O_RDONLY | ")


@falls_without(
    "no links on the way out",
    Removal(
        "job/results.py",
        "FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | ",
        "FOLDER = os.O_RDONLY | os.O_DIRECTORY | ",
    ),
    cases="the folder | above the folder | a folder in it",
)
@falls_without("no links in place of a copy", LINKS_FOLLOWED, cases="the file")
@falls_without(
    "names that are new",
    LINKS_FOLLOWED,
    Removal("job/results.py", "                self.name_first(spare)\n", "                self.name_instead(spare)\n"),
    cases="a file that is not there",
)
@pytest.mark.parametrize("planted", LINKS)
def test_a_link_planted_in_the_folder_of_copies_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    home, victim = tmp_path / "home", tmp_path / "victim"
    home.mkdir()
    victim.write_bytes(b"victim")
    link, target, wanted = LINKS[planted]
    (home / link).parent.mkdir(exist_ok=True)
    (home / link).symlink_to(target)
    monkeypatch.chdir(home)
    folder, _, name = wanted.partition("/") if "deep" in wanted else wanted.rpartition("/")
    with pytest.raises(BriefError), Out(Path(folder), [name]) as out:
        out.copy(name, [b"data"], lambda sha256: True)
    assert (home / link).is_symlink()
    assert victim.read_bytes() == b"victim"
    assert {each.name for each in tmp_path.iterdir()} == {"home", "victim"}
    assert list(home.rglob("report.xlsx")) in ([], [home / link])


@falls_without(
    "copies by the right of the folder's owner", Removal("job/results.py", "    if uid == 0:\n", "    if uid >= 0:\n")
)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes for others")
def test_root_creates_nothing_where_the_folders_owner_could_not(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, USER, USER)
    home.chmod(0o555)
    with pytest.raises(BriefError, match="Permission denied"):
        Out(home / "out", ["a"])
    with pytest.raises(BriefError, match="Permission denied"):
        Out(home, ["a"])


@falls_without("copies by the right of the folder's owner")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes for others")
def test_copies_belong_to_the_folders_owner_and_are_not_executable(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, USER, USER)
    umask = os.umask(0)
    try:
        with Out(home / "out", ["a"]) as out:
            path = out.copy("a", [b"#!/bin/sh\n"], lambda sha256: True)
    finally:
        os.umask(umask)
    assert (path.stat().st_uid, path.stat().st_gid, path.stat().st_mode & 0o7111) == (USER, USER, 0)


@falls_without(
    "only copies are replaced",
    Removal(
        "job/results.py", "                if not (there and is_stored(there)):\n", "                if not there:\n"
    ),
)
def test_a_foreign_file_is_not_overwritten(tmp_path: Path, drive: Drive) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a").write_bytes(b"the only copy of a thesis")
    with Out(tmp_path / "out", ["a"]) as out, pytest.raises(BriefError, match="was changed since hotdesk wrote it"):
        out.copy("a", [b"data"], lambda sha256: drive.holds(sha256, who=OPERATOR))
    assert (tmp_path / "out/a").read_bytes() == b"the only copy of a thesis"


class Slow:
    """Bytes that arrive once all racing writers have been told that there is room."""

    def __init__(self, data: bytes, together: Barrier) -> None:
        self.data, self.together = data, together

    def read(self, size: int, /) -> bytes:
        if self.data:
            self.together.wait(60)
        data, self.data = self.data, b""
        return data


def write_at_once(folder: Path, number: int, together: Barrier) -> None:
    """Be one of the processes that race for the last room; exit with 1 if there is none."""
    drive = Drive(folder, quota=1000)
    try:
        drive.keep(f"file {number}", Slow(bytes([number]) * 300, together), owner=ANNA)
    except BriefError:
        sys.exit(1)


@falls_without(
    "a quota judged where a version is added",
    Removal("drive/keep.py", "            self.require_room(db, owner, staged.sha256, staged.size)\n", ""),
)
@pytest.mark.timeout(120)
def test_a_quota_holds_when_eight_processes_race_for_it(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    Drive(folder)
    context = multiprocessing.get_context("fork")
    together = context.Barrier(WRITERS)
    writers = [context.Process(target=write_at_once, args=(folder, n, together)) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(90)
    drive = Drive(folder)
    assert sorted(writer.exitcode or 0 for writer in writers) == [0, 0, 0, 1, 1, 1, 1, 1]
    assert (drive.count_used_bytes(ANNA), len(drive.ls(who=ANNA)), len(os.listdir(drive.blobs.folder))) == (900, 3, 3)


@falls_without(
    "sweeps that take their turn",
    Removal(
        "drive/keep.py",
        "        with self.catalog.writing() as db:\n            proofs = ",
        "        with self.catalog.reading() as db:\n            proofs = ",
    ),
)
def test_a_sweep_removes_nothing_that_is_being_written(drive: Drive) -> None:
    sweeping = threading.Thread(target=drive.sweep)

    def sweep_now(version: Version) -> None:
        sweeping.start()
        sweeping.join(0.5)

    drive.keep("a", b"just kept", owner=ANNA, intent=sweep_now)
    sweeping.join(60)
    assert drive.find("a", who=ANNA) == b"just kept"


@falls_without(
    "a quota judged while bytes come in",
    Removal("drive/blobs.py", "            if size > limit:\n", "            if size > 16 << 20:\n"),
)
def test_a_stream_stops_at_the_quota(drive: Drive) -> None:
    class Endless:
        given = 0

        def read(self, size: int, /) -> bytes:
            self.given += size
            return b"x" * size

    source = Endless()
    with pytest.raises(BriefError, match="remain of its owner's quota"):
        drive.keep("a", source, owner=ANNA)
    assert source.given < 8 << 20
    assert len(os.listdir(drive.blobs.folder)) == 1


@falls_without(
    "bytes before their name",
    Removal("drive/keep.py", "            self.blobs.admit(staged)\n", ""),
    Removal(
        "drive/keep.py",
        "            intent(version)\n        return version\n",
        "            intent(version)\n"
        '            db.execute("COMMIT")\n'
        "            self.blobs.admit(staged)\n"
        '            db.execute("BEGIN IMMEDIATE")\n'
        "        return version\n",
    ),
    cases="1",
)
@no_guard("a sample of the points in the case that tries all of them", cases="11")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.long), 11])
def test_a_kill_at_any_point_loses_no_version_and_breaks_nothing(tmp_path: Path, every: int) -> None:
    argv = [sys.executable, str(KILLED), str(tmp_path), str(every)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    lives = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lives) > 200 // every
    assert [life["killed"] for life in lives] == [True] * (len(lives) - 1) + [False]
    assert len(lives[-1]["done"]) == 5
    for life in lives:
        require_whole(tmp_path / str(life["after"]), life["done"])


def require_whole(folder: Path, done: list[tuple[str, int, str]]) -> None:
    drive = Drive(folder)
    with closing(sqlite3.connect(drive.folder / FILE)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    drive.sweep()
    found = {number: drive.find("a", number, who=ANNA) for number in numbers(drive)}
    kept = {number: text.encode() for what, number, text in done if what == "kept"}
    removing, removed = ({number for what, number, _ in done if what == how} for how in ("removing", "removed"))
    assert {number: found.get(number) for number in kept.keys() - removing} == {
        number: data for number, data in kept.items() if number not in removing
    }
    assert removed & found.keys() == set()
    blobs = {hashlib.sha256(data).hexdigest() for data in found.values()}
    assert {name for name in os.listdir(drive.blobs.folder) if not name.startswith(".")} == blobs
    assert drive.keep("a", b"after", owner=ANNA).number > max(kept, default=0)


def numbers(drive: Drive) -> list[int]:
    return [each.number for each in drive.list_history("a", who=ANNA)] if drive.ls("a", who=ANNA) else []
