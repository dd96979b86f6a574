"""Tests of machine templates: separate keys, passed as descriptors, copied unread, used for a day."""

from __future__ import annotations

import array
import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hotdesk.desk.wall.microvm import template
from hotdesk.linux.syscalls import close_all
from hotdesk_vmm.task import RAM, STATE


@pytest.mark.parametrize(
    ("facts", "sources"),
    [
        (("vmm", "tcg", 256), {"a": b"2"}),
        (("vmm", "kvm", 256), {"a": b"1"}),
        (("vmm", "tcg", 512), {"a": b"1"}),
        (("vmm", "tcg", 256), {"b": b"1"}),
        (("vmmt", "cg", 256), {"a": b"1"}),
    ],
)
def test_whatever_differs_makes_another_key(facts: tuple[object, ...], sources: dict[str, bytes]) -> None:
    assert template.compute_key(facts, sources) != template.compute_key(("vmm", "tcg", 256), {"a": b"1"})


def make(folder: Path) -> list[int]:
    """Make what a supervisor passes on: a memory file with holes, and a state file."""
    with (folder / "memory").open("wb") as file:
        file.truncate(8 << 20)
        file.seek(4 << 20)
        file.write(b"in the middle")
    (folder / "rest").write_bytes(b"state")
    return [os.open(folder / name, os.O_RDONLY) for name in ("memory", "rest")]


def test_a_template_is_published_whole_and_its_holes_stay_holes(tmp_path: Path) -> None:
    place, fds = tmp_path / "key", make(tmp_path)
    template.publish(place, fds, (8 << 20, 100))
    ram = place / RAM
    assert ram.read_bytes() == (tmp_path / "memory").read_bytes()
    assert ram.stat().st_blocks * 512 < 1 << 20
    assert (place / STATE).read_bytes() == b"state"
    assert template.find(place)
    template.publish(place, fds, (8 << 20, 100))  # another template in its place
    assert sorted(each.name for each in tmp_path.iterdir()) == ["key", "memory", "rest"]


@pytest.mark.parametrize("most", [(4 << 20, 100), (8 << 20, 4)])
def test_a_template_larger_than_a_machine_leaves_nothing(tmp_path: Path, most: tuple[int, int]) -> None:
    fds = make(tmp_path)
    with pytest.raises(OSError, match="has more than"):
        template.publish(tmp_path / "key", fds, most)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["memory", "rest"]


@pytest.mark.parametrize("opens", [lambda: os.open("/dev/zero", os.O_RDONLY), lambda: os.pipe()[0]])
def test_an_invalid_file_is_not_read(tmp_path: Path, opens: Callable[[], int]) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        template.copy(opens(), tmp_path / "copy", 1 << 20)


def test_a_template_with_a_date_too_old_or_in_the_future_is_made_again(tmp_path: Path) -> None:
    template.publish(tmp_path / "key", make(tmp_path), (8 << 20, 100))
    made = (tmp_path / "key" / STATE).stat().st_mtime
    assert template.find(tmp_path / "key", made + template.MAX_AGE_S - 1)
    assert not template.find(tmp_path / "key", made + template.MAX_AGE_S)
    assert not template.find(tmp_path / "key", made - 3600)
    assert not template.find(tmp_path / "another")


def read(fds: list[int]) -> list[bytes]:
    try:
        return [os.pread(fd, 100, 0) for fd in fds]
    finally:
        close_all(fds)


def publish(place: Path, data: bytes) -> None:
    """Publish a template whose memory and state are the same bytes."""
    files = [os.memfd_create("saved"), os.memfd_create("saved")]
    for fd in files:
        os.write(fd, data)
    template.publish(place, files, (100, 100))
    close_all(files)


def test_memory_and_state_are_of_one_machine_if_another_replaces_it_meanwhile(tmp_path: Path) -> None:
    place = tmp_path / "key"
    place.mkdir()
    os.mkfifo(place / RAM)  # opening it waits for a writer
    (place / STATE).write_bytes(b"old")
    ram = os.open(place / RAM, os.O_PATH)

    def replace() -> None:
        time.sleep(0.5)
        publish(place, b"new")
        os.close(os.open(f"/proc/self/fd/{ram}", os.O_RDWR | os.O_NONBLOCK))

    thread = threading.Thread(target=replace)
    thread.start()
    fds = template.open_files(place)
    thread.join()
    os.close(ram)
    assert fds == []
    assert read(template.open_files(place)) == [b"new", b"new"]


@pytest.mark.parametrize("age", [-3600, template.MAX_AGE_S + 1])
def test_a_template_that_is_not_usable_is_not_opened(tmp_path: Path, age: float) -> None:
    assert template.open_files(tmp_path / "key") == []
    publish(tmp_path / "key", b"1")
    assert read(template.open_files(tmp_path / "key")) == [b"1", b"1"]
    os.utime(tmp_path / "key" / STATE, (time.time() - age,) * 2)
    assert template.open_files(tmp_path / "key") == []


def call(path: Path, fds: list[int]) -> bytes:
    """Pass files on as a supervisor does; return the answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(10)
        sock.connect(str(path))
        sock.sendmsg([b"1"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        try:
            return sock.recv(1)
        except ConnectionResetError:
            return b""


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as found:
        found.bind(str(tmp_path / "sock"))
        found.listen()
        yield found


def test_a_template_from_the_desks_own_user_is_kept(tmp_path: Path, listener: socket.socket) -> None:
    waiting = template.receive(tmp_path / "vm/key", listener, os.getuid(), 8 << 20)
    assert call(tmp_path / "sock", make(tmp_path)) == b"1"
    assert template.find(tmp_path / "vm/key")
    os.close(waiting)
    os.wait()


def test_a_template_from_another_user_is_not_kept(tmp_path: Path, listener: socket.socket) -> None:
    waiting = template.receive(tmp_path / "vm/key", listener, os.getuid() + 1, 8 << 20)
    assert call(tmp_path / "sock", make(tmp_path)) == b""
    assert not template.find(tmp_path / "vm/key")
    os.close(waiting)
    os.wait()


def test_the_process_that_waits_for_a_template_ends_with_its_desk(tmp_path: Path, listener: socket.socket) -> None:
    waiting = template.receive(tmp_path / "vm/key", listener, os.getuid(), 8 << 20)
    os.close(waiting)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0


def test_what_killed_receivers_left_is_removed_and_what_one_is_writing_is_not(tmp_path: Path) -> None:
    killed, replaced, new, live = (tmp_path / name for name in (".key.1", ".key.1.old", ".key.2", ".key.3"))
    long_ago = time.time() - 2 * template.HAND_OVER_TIMEOUT_S
    for place in (killed, replaced, new, live):
        place.mkdir()
        (place / RAM).write_bytes(b"1")
        if place != new:
            os.utime(place, (long_ago, long_ago))
    lock = os.open(live, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    publish(tmp_path / "another", b"1")
    os.close(lock)
    assert sorted(place.name for place in tmp_path.iterdir()) == [".key.2", ".key.3", "another"]


def test_a_receiver_locks_what_it_writes(tmp_path: Path) -> None:
    source = os.memfd_create("ram")
    for _ in range(128):
        os.write(source, os.urandom(1 << 20))
    writing = threading.Thread(target=template.publish, args=(tmp_path / "key", [source, source], (1 << 30, 1 << 30)))
    writing.start()
    while not (found := list(tmp_path.glob(".key.*"))):
        time.sleep(0.001)
    time.sleep(0.02)
    folder = os.open(found[0], os.O_RDONLY)
    assert writing.is_alive()
    with pytest.raises(BlockingIOError):
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    writing.join()
    close_all((folder, source))


def test_old_templates_are_removed_by_age_and_number(tmp_path: Path) -> None:
    folder = tmp_path / "vm"
    folder.mkdir()
    for number in range(template.MAX_TEMPLATES + 3):
        template.publish(folder / f"key{number:02}", make(tmp_path), (8 << 20, 100))
        os.utime(folder / f"key{number:02}" / STATE, (time.time() - 1000 + number,) * 2)
    os.utime(folder / "key07" / STATE, (1, 1))
    template.tidy(folder)
    left = [place.name for place in sorted(folder.iterdir())]
    assert left == [f"key{number:02}" for number in range(3, template.MAX_TEMPLATES + 3) if number != 7]


def test_processes_that_tidy_at_the_same_time_do_not_fail(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f".key.{number}").mkdir()
        os.utime(tmp_path / f".key.{number}", (1, 1))
    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(template.tidy, tmp_path) for _ in range(4)]:
            each.result()
    assert not any(tmp_path.iterdir())
