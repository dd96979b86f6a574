"""Tests of what a search that ended in some way is told as."""

from __future__ import annotations

import pytest

from hotdesk.desk.seam import Done
from hotdesk.hands.search import tell


@pytest.mark.parametrize("code", [126, 128 + 6, 128 + 9, 128 + 11])
def test_a_search_that_was_killed_found_nothing_for_certain(code: int) -> None:
    seen = tell(Done(code), "/home/user", 100)
    assert not seen.ok
    assert f"exit code {code}" in seen.text
    seen = tell(Done(code, b"a.txt:1:found\n"), "/home/user", 100)
    assert seen.ok
    assert seen.text == "a.txt:1:found"
    assert "ended before it was complete" in seen.note


def test_a_search_that_ran_out_of_memory_says_so() -> None:
    assert "ran out of memory" in tell(Done(137, out_of_memory=True), "/home/user", 100).text


@pytest.mark.parametrize(
    ("done", "ok", "text"),
    [
        (Done(1), True, "Nothing in /home/user matches."),
        (Done(0, b"a.txt:1:x\n"), True, "a.txt:1:x"),
        (Done(2, stderr=b"regex parse error"), False, "The search failed: regex parse error"),
        (Done(127), False, "This desk has no ripgrep. Use grep or find in the shell."),
        (Done(128 + 13, b"a.txt:1:x\n"), True, "a.txt:1:x"),
    ],
)
def test_other_ends_of_a_search_are_told_as_before(done: Done, ok: bool, text: str) -> None:
    seen = tell(done, "/home/user", 100)
    assert (seen.ok, seen.text) == (ok, text)


def test_nothing_of_a_found_line_is_hidden() -> None:
    seen = tell(Done(0, b"a.txt:1:hidden\rshown\x1b[2K\ttab\r\nb.txt:2:y\x0b\n"), "/home/user", 100)
    assert seen.text == "a.txt:1:hidden\\rshown\\x1b[2K\ttab\nb.txt:2:y\\x0b"
