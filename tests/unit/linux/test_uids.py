"""Tests of host user ids: each desk has its own range."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from hotdesk.errors import HostError
from hotdesk.linux import uids
from hotdesk.linux.uids import FIRST, SLOTS, WIDTH

END = FIRST + WIDTH * SLOTS
LAST = SLOTS - 2
"""The last slot a desk can get; the one after it is the door's."""


def test_the_map_holds_the_system_the_user_twelve_more_and_nobody() -> None:
    lines = [tuple(map(int, line.split())) for line in uids.format_id_map(FIRST).splitlines()]
    assert lines == [(0, FIRST, 1001), (1001, FIRST + 1004, 12), (65534, FIRST + 1001, 1)]


def test_every_mapped_id_lies_in_the_desks_own_range() -> None:
    outside = [
        at + step
        for _, at, count in (map(int, line.split()) for line in uids.format_id_map(FIRST).splitlines())
        for step in range(count)
    ]
    assert len(outside) == len(set(outside))
    assert all(FIRST <= number < FIRST + WIDTH for number in outside)
    assert FIRST + uids.ANCHOR not in outside
    assert uids.ANCHOR < WIDTH


def test_no_desk_ever_gets_the_doors_id() -> None:
    assert FIRST + LAST * WIDTH + WIDTH <= uids.DOOR < END


def test_the_whole_range_fits_what_the_kernel_takes() -> None:
    assert END < 2**31


@pytest.mark.parametrize(
    ("line", "clashes"),
    [
        ("alice:100000:65536", False),
        (f"alice:{FIRST}:1", True),
        (f"alice:{END - 1}:1", True),
        (f"alice:{END}:65536", False),
        (f"alice:{FIRST - 10}:10", False),
        (f"alice:{FIRST - 10}:11", True),
        ("alice:0:4294967295", True),
        (f"hotdesk:{FIRST}:{WIDTH * SLOTS}", False),
        ("", False),
        ("# a comment", False),
        ("alice", False),
        ("alice:x:y", False),
        (f"alice:{FIRST}:0", False),
    ],
)
def test_a_foreign_range_that_reaches_into_ours_is_seen(line: str, clashes: bool) -> None:
    assert uids.find_overlap(["root:10:5", line]) == (line if clashes else None)


def test_reserving_twice_changes_once(tmp_path: Path) -> None:
    files = (tmp_path / "subuid", tmp_path / "subgid")
    files[0].write_text("alice:100000:65536")
    assert uids.reserve(files) is True
    first = [file.read_text() for file in files]
    assert uids.reserve(files) is False
    assert [file.read_text() for file in files] == first
    entry = f"hotdesk:{FIRST}:{WIDTH * SLOTS}\n"
    assert first == ["alice:100000:65536\n" + entry, entry]
    assert {file.name for file in tmp_path.iterdir()} == {"subuid", "subgid"}
    assert files[0].stat().st_mode & 0o777 == 0o644


def test_reserving_what_another_has_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "subuid"
    file.write_text(f"alice:{FIRST + 5}:10\n")
    with pytest.raises(HostError, match="alice"):
        uids.reserve((file,))
    assert file.read_text() == f"alice:{FIRST + 5}:10\n"


def test_claims_go_round_so_that_a_freed_range_rests(tmp_path: Path) -> None:
    claims = tmp_path / "claims"
    first = uids.claim(tmp_path / "a", claims)
    second = uids.claim(tmp_path / "b", claims)
    assert (first, second) == (FIRST, FIRST + WIDTH)
    uids.release(first, tmp_path / "a", claims)
    uids.release(first, tmp_path / "a", claims)
    assert uids.claim(tmp_path / "c", claims) == FIRST + 2 * WIDTH
    assert os.readlink(claims / "1") == str(tmp_path / "b")


def test_the_last_slot_is_followed_by_the_first_free(tmp_path: Path) -> None:
    claims = tmp_path / "claims"
    assert uids.claim(tmp_path / "a", claims) == FIRST
    (claims / "next").unlink()
    os.symlink(str(LAST), claims / "next")
    assert uids.claim(tmp_path / "b", claims) == FIRST + LAST * WIDTH
    assert uids.claim(tmp_path / "c", claims) == FIRST + WIDTH


def test_claims_at_once_never_meet(tmp_path: Path) -> None:
    claims = tmp_path / "claims"
    with ThreadPoolExecutor(8) as pool:
        bases = list(pool.map(lambda n: uids.claim(tmp_path / str(n), claims), range(100)))
    assert len(set(bases)) == 100


def test_claims_are_closed_to_others(tmp_path: Path) -> None:
    uids.claim(tmp_path / "a", tmp_path / "claims")
    assert (tmp_path / "claims").stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_a_full_machine_is_reported(tmp_path: Path) -> None:
    claims = tmp_path / "claims"
    uids.claim(tmp_path / "first", claims)
    for slot in range(1, LAST + 1):
        os.symlink("taken", claims / str(slot))
    with pytest.raises(HostError, match="are in use"):
        uids.claim(tmp_path / "late", claims)


def test_claims_of_desks_that_are_gone_are_swept(tmp_path: Path) -> None:
    claims, desks = tmp_path / "claims", tmp_path / "desks"
    (desks / "alive").mkdir(parents=True)
    alive = uids.claim(desks / "alive", claims)
    uids.claim(desks / "gone", claims)
    other = uids.claim(tmp_path / "other-state" / "gone", claims)
    uids.sweep(desks, claims)
    left = {uids.FIRST + int(file.name) * uids.WIDTH for file in claims.iterdir() if file.name.isdigit()}
    assert left == {alive, other}
    uids.sweep(desks, tmp_path / "no-claims")


def test_a_range_is_released_only_by_the_desk_that_has_it(tmp_path: Path) -> None:
    claims = tmp_path / "claims"
    base = uids.claim(tmp_path / "one", claims)
    uids.release(base, tmp_path / "another", claims)
    assert (claims / str((base - uids.FIRST) // uids.WIDTH)).is_symlink()
    uids.release(base, tmp_path / "one", claims)
    assert not (claims / str((base - uids.FIRST) // uids.WIDTH)).is_symlink()


def test_in_a_container_ids_begin_anywhere_as_others_claims_are_not_seen_there() -> None:
    assert uids.choose_start(is_nested=False) == 0
    starts = {uids.choose_start(is_nested=True) for _ in range(50)}
    assert len(starts) > 40
    assert starts <= set(range(LAST + 1))


def test_claims_that_others_release_meanwhile_are_left_out(tmp_path: Path) -> None:
    claims, stop = tmp_path / "claims", Event()
    claims.mkdir()
    (claims / "0").symlink_to("/desks/stays")

    def flicker() -> None:
        while not stop.is_set():
            for number in range(1, 50):
                (claims / str(number)).symlink_to("/desks/ends")
            for number in range(1, 50):
                (claims / str(number)).unlink()

    with ThreadPoolExecutor(1) as pool:
        flickering = pool.submit(flicker)
        try:
            for _ in range(300):
                assert Path("/desks/stays") in uids.list_claims(claims)
                uids.sweep(tmp_path / "desks", claims)
        finally:
            stop.set()
        flickering.result()
