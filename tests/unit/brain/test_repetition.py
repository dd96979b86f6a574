"""Tests of repetition detection: a worker that goes in circles is warned, then stopped."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotdesk.brain.repetition import RepetitionWatcher, Verdict, canonicalize
from hotdesk.tool import Call, Observation


def watched(calls: str, watcher: RepetitionWatcher | None = None) -> str:
    """Judge calls, a letter each (equal letters have equal outcomes, capitals failed); return `.`, `w` or `s`."""
    watcher = watcher or RepetitionWatcher()
    shown = {"": ".", "warn": "w", "stop": "s"}
    return "".join(shown[saw(watcher, letter)] for letter in calls)


def saw(watcher: RepetitionWatcher, letter: str) -> Verdict:
    return watcher.judge_call(Call(letter, "shell", {"command": letter}), Observation(letter, ok=letter.islower()))


@pytest.mark.parametrize(
    ("calls", "verdicts"),
    [
        ("abcdefghijklmnopqrstuvwxyz", "." * 26),
        ("aaaaaa", "..w..s"),
        ("aab", "..."),
        ("aabaabaab", "........w"),
        ("aaabaaa", "..w...w"),
        ("abababababab", ".....w.....s"),
        ("abcabcabc", "........w"),
        ("abcabcabcd", "........w."),
        ("abcdabcdabcdabcdabcdabcd", "...........w...........s"),
        ("abcdeabcdeabcdeabcdeabcdeabcdeabcde", "." * 35),
        ("abacadaeafag", "." * 12),
        ("ABCDEFGH", ".......w"),
        ("ABCDEFGaABCDEFG", "." * 15),
        ("ABCDEFGHIJKLMNOP", ".......w.......s"),
    ],
)
def test_rounds_and_failures_are_counted(calls: str, verdicts: str) -> None:
    assert watched(calls) == verdicts


def test_the_same_call_with_another_outcome_is_no_repetition() -> None:
    watcher = RepetitionWatcher()
    call = Call("1", "shell", {"command": "wc -l out"})
    assert {watcher.judge_call(call, Observation(str(lines))) for lines in range(40)} == {""}
    pictures = {watcher.judge_call(call, Observation("", image=bytes([number]))) for number in range(40)}
    assert pictures == {""}


def test_the_brains_own_name_for_a_call_and_the_order_of_arguments_do_not_matter() -> None:
    watcher = RepetitionWatcher()
    given_as = [{"a": 1, "b": [2]}, {"b": [2], "a": 1}, {"a": 1, "b": [2]}]
    found = [watcher.judge_call(Call(str(n), "t", each), Observation("x")) for n, each in enumerate(given_as)]
    assert found == ["", "", "warn"]


@pytest.mark.parametrize(
    ("calls", "words"),
    [("aaa", "the same call 3 times"), ("ababab", "the same 2 calls 3 times"), ("ABCDEFGH", "last 8 calls")],
)
def test_a_warning_says_what_is_wrong_and_what_to_try(calls: str, words: str) -> None:
    watcher = RepetitionWatcher()
    watched(calls, watcher)
    assert words in watcher.why
    assert "give_up" in watcher.why


def test_without_a_warning_there_is_no_text() -> None:
    watcher = RepetitionWatcher()
    watched("aaab", watcher)
    assert watcher.why == ""


def test_replies_without_a_call_are_reported_and_the_third_ends_the_step() -> None:
    watcher = RepetitionWatcher()
    assert [watcher.note_silence() for _ in range(3)] == ["warn", "warn", "stop"]
    assert "finish" in watcher.why
    again = RepetitionWatcher()
    assert [again.note_silence(), again.note_silence()] == ["warn", "warn"]
    saw(again, "a")
    assert again.note_silence() == "warn"


@pytest.mark.slow
@given(st.text("abcdef", max_size=30), st.text("xyz", min_size=1, max_size=4))
def test_any_round_is_stopped_whatever_came_before(before: str, cycle: str) -> None:
    watcher = RepetitionWatcher()
    watched(before, watcher)
    assert "s" in watched(cycle * 6, watcher)


@pytest.mark.slow
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda each: st.dictionaries(st.text(), each)))
def test_arguments_are_alike_whatever_their_order(value: object) -> None:
    turned = json.loads(json.dumps(value), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    assert canonicalize(turned) == canonicalize(value)


@pytest.mark.parametrize("value", [{1: 2, "a": 3}, object, b"bytes", "not an object"])
def test_whatever_a_model_gives_can_be_compared(value: object) -> None:
    assert canonicalize(value) == canonicalize(value) != ""
