"""Tests of the search for what tests leave behind."""

from __future__ import annotations

from pathlib import Path

from tests.leftovers import things


def test_state_of_a_desk_counts_as_left_but_not_what_the_runtime_caches(tmp_path: Path) -> None:
    before = things(tmp_path)
    for name in (".cache/seccomp", "i0123456789abcdefghij"):
        (tmp_path / "run/runtime" / name).mkdir(parents=True)
    left = {thing for thing in things(tmp_path) - before if str(tmp_path) in thing}
    assert left == {f"file {tmp_path}/run/runtime/i0123456789abcdefghij"}
