"""Tests of the outbox: events of processes without a signer reach the journal once and in order."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hotdesk.desk.keeper.outbox import FILE as OUTBOX
from hotdesk.desk.keeper.outbox import Outbox, is_empty, take_entries
from hotdesk.drive.journal import FILE, Journal, read
from hotdesk.drive.outbox import take_in
from hotdesk.drive.signing import load_signer
from hotdesk.errors import HostError
from hotdesk.event import Burnt, Opened, RootAct, as_dict
from hotdesk.linux import private_files, syscalls

DESK = "i" + "a" * 20


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    private_files.make_folder(tmp_path / "keys")
    return Journal(tmp_path / "keys" / FILE, load_signer(tmp_path / "keys"))


def opened(desk: str = DESK) -> dict[str, object]:
    return as_dict(Opened(desk, "", (), (), "uid 0 pid 7", "base"))


def names(lib: Path) -> list[str]:
    return [row.name for row in read(lib / "keys" / FILE)]


def test_waiting_events_are_written_once_with_their_own_time(tmp_path: Path, journal: Journal) -> None:
    outbox = Outbox(tmp_path)
    outbox.add("keeper", "Opened", opened())
    with suppress(RuntimeError), take_entries(tmp_path / "keys") as lines:
        at = next(lines)["at"]
        raise RuntimeError("what was read could not be written")
    assert not is_empty(tmp_path / "keys")
    take_in(journal, tmp_path / "keys")
    take_in(journal, tmp_path / "keys")
    assert is_empty(tmp_path / "keys")
    assert [(row.name, row.at, row.actor) for row in read(tmp_path / "keys" / FILE)] == [("Opened", at, "keeper")]


def test_a_crash_before_the_removal_writes_nothing_twice(tmp_path: Path, journal: Journal) -> None:
    outbox = Outbox(tmp_path)
    outbox.add("keeper", "Opened", opened())
    outbox.add("keeper", "Burnt", as_dict(Burnt(DESK, "asked")))
    before = (tmp_path / "keys" / OUTBOX).read_bytes()
    take_in(journal, tmp_path / "keys")
    (tmp_path / "keys" / OUTBOX).write_bytes(before)
    take_in(journal, tmp_path / "keys")
    assert names(tmp_path) == ["Opened", "Burnt"]


def test_the_opening_of_a_desk_is_written_before_its_other_events(tmp_path: Path, journal: Journal) -> None:
    Outbox(tmp_path).add("keeper", "Opened", opened())
    take_in(journal, tmp_path / "keys")
    journal.add(DESK, "owner", RootAct(DESK, "owner", ("id",), "/"))
    journal.commit()
    assert names(tmp_path) == ["Opened", "RootAct"]


@pytest.mark.parametrize("line", [b"{", b"[]", b"7", b'{"at":1,"actor":"door","event":"Burnt","data":{}}',
                                  b'{"at":1,"actor":"keeper","event":"Nothing","data":{}}'])  # fmt: skip
def test_an_invalid_event_is_left_out(tmp_path: Path, journal: Journal, line: bytes) -> None:
    outbox = Outbox(tmp_path)
    outbox.add("keeper", "Opened", opened())
    with (tmp_path / "keys" / OUTBOX).open("ab") as file:
        file.write(line + b"\n")
    outbox.add("keeper", "Opened", opened("i" + "b" * 20))
    take_in(journal, tmp_path / "keys")
    assert names(tmp_path) == ["Opened", "Opened"]


@pytest.mark.parametrize("trap", ["link", "pipe", "second name"])
def test_nothing_is_written_through_a_special_file(tmp_path: Path, journal: Journal, trap: str) -> None:
    target, path = tmp_path / "target", tmp_path / "keys" / OUTBOX
    target.write_text("precious")
    match trap:
        case "link":
            path.symlink_to(target)
        case "pipe":
            os.mkfifo(path)
        case _:
            path.hardlink_to(target)
    outbox = Outbox(tmp_path)
    outbox.add("keeper", "Opened", opened())
    assert target.read_text() == "precious"
    assert len(outbox.waiting) == 1, "it is written once the file is one again"
    path.unlink()
    outbox.add("keeper", "Burnt", as_dict(Burnt(DESK, "asked")))
    take_in(journal, tmp_path / "keys")
    assert names(tmp_path) == ["Opened", "Burnt"]


HOLD = """
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(fd, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
"""


@contextmanager
def reader_at_work(lib: Path, seconds: float) -> Iterator[None]:
    """Hold the lock in another process, as one does that commits the journal."""
    argv = [sys.executable, "-c", HOLD, str(lib / "keys" / OUTBOX), str(seconds)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        yield
        holder.kill()


def test_a_command_waits_for_a_reader(tmp_path: Path, journal: Journal) -> None:
    Outbox(tmp_path).add("keeper", "Opened", opened())
    with reader_at_work(tmp_path, 0.3):
        Outbox(tmp_path).record("owner", "Opened", opened("i" + "b" * 20))
    take_in(journal, tmp_path / "keys")
    assert names(tmp_path) == ["Opened", "Opened"]


def test_a_command_whose_event_cannot_be_written_fails(tmp_path: Path, journal: Journal) -> None:
    Outbox(tmp_path).add("keeper", "Opened", opened())
    with reader_at_work(tmp_path, 60), pytest.raises(HostError) as caught:
        Outbox(tmp_path).record("owner", "Burnt", as_dict(Burnt(DESK, "asked")))
    assert "Burnt cannot be recorded" in str(caught.value)
    assert "the journal is busy; run the command again" in str(caught.value)


def test_what_a_keeper_could_not_write_is_written_at_its_end(tmp_path: Path, journal: Journal) -> None:
    outbox = Outbox(tmp_path)
    outbox.add("keeper", "Opened", opened())
    with reader_at_work(tmp_path, 0.3):
        outbox.add("keeper", "Burnt", as_dict(Burnt(DESK, "asked")))
        assert len(outbox.waiting) == 1
        outbox.finish(5.0)
    take_in(journal, tmp_path / "keys")
    assert names(tmp_path) == ["Opened", "Burnt"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_half_a_line_on_a_full_disk_is_taken_back(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir(mode=0o700)
    syscalls.mount("full", str(tmp_path / "keys"), "tmpfs", 0, "size=16k")
    try:
        outbox, text = Outbox(tmp_path), "x" * 3000
        while not outbox.waiting:
            outbox.add("keeper", "Opened", {"desk": text})
        path = tmp_path / "keys" / OUTBOX
        assert path.read_bytes().endswith(b"}}\n")
        os.truncate(path, 0)
        outbox.finish(0.0)
        assert not outbox.waiting
    finally:
        syscalls.umount(str(tmp_path / "keys"))


def test_an_event_that_met_a_reader_is_written_without_another_event(tmp_path: Path, journal: Journal) -> None:
    outbox, path = Outbox(tmp_path), tmp_path / "keys" / OUTBOX
    outbox.turn()
    assert not path.exists()
    path.touch(mode=0o600)
    with reader_at_work(tmp_path, 60):
        outbox.add("keeper", "Opened", opened())
        assert path.read_bytes() == b""
        assert list(outbox.iterate_waits())
    outbox.turn()
    assert not list(outbox.iterate_waits())
    take_in(journal, tmp_path / "keys")
    assert names(tmp_path) == ["Opened"]


@pytest.mark.slow
def test_nothing_is_lost_of_an_outbox_that_was_not_read_for_long(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path)
    outbox.add("keeper", "Opened", opened())
    file = tmp_path / "keys/outbox.jsonl"
    line = file.read_bytes()
    with file.open("ab") as out:
        for _ in range(20_000):
            out.write(line)
        out.write(line[: len(line) // 2])
    with take_entries(tmp_path / "keys") as lines:
        assert sum(1 for _ in lines) == 20_001
    assert is_empty(tmp_path / "keys")
