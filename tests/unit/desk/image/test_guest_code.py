"""Tests of storing the guest's bytecode: complete, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hotdesk.desk.image import guest_code
from hotdesk.desk.image.image import Image
from hotdesk.desk.image.store import is_current_bytecode

DIGEST = "1" * 64
SOURCE = {"start.py": b"source"}
COMPILED = {name: name.encode() for name in guest_code.SEALED}


def test_what_a_killed_process_left_stops_no_later_one_with_its_pid(tmp_path: Path) -> None:
    place = guest_code.get_folder(tmp_path, DIGEST, SOURCE)
    place.with_name(f".{os.getpid()}").mkdir(parents=True)
    guest_code.keep(tmp_path, DIGEST, SOURCE, COMPILED)
    guest_code.keep(tmp_path, DIGEST, SOURCE, COMPILED)  # another process was first
    assert guest_code.load(tmp_path, DIGEST, SOURCE) == COMPILED
    assert sorted(os.listdir(place.parent)) == sorted([f".{os.getpid()}", place.name])


@pytest.mark.parametrize("how", ["missing", "empty"])
def test_incomplete_bytecode_is_not_used(tmp_path: Path, how: str) -> None:
    source = guest_code.read_sources()
    image = Image("base", DIGEST, (tmp_path,), "/usr/bin/python3", "aarch64", 1.0, 1, "a test")
    guest_code.keep(tmp_path, DIGEST, source, COMPILED)
    place = guest_code.get_folder(tmp_path, DIGEST, source)
    assert is_current_bytecode(place, tmp_path, [image])
    (place / "modules").unlink()
    if how == "empty":
        (place / "modules").touch()
    assert guest_code.load(tmp_path, DIGEST, source) is source
    assert not is_current_bytecode(place, tmp_path, [image])
    guest_code.keep(tmp_path, DIGEST, source, COMPILED)
    assert guest_code.load(tmp_path, DIGEST, source) == COMPILED
    assert os.listdir(place.parent) == [place.name]


def test_nothing_is_left_of_bytecode_that_could_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        guest_code.keep(tmp_path, DIGEST, SOURCE, {"no/folder": b"x"})
    assert os.listdir(guest_code.get_folder(tmp_path, DIGEST, SOURCE).parent) == []
