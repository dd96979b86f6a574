"""Where the audit's time went: checks are asked for, and are neither the worker's tools nor hotdesk's own."""

from __future__ import annotations

from examples.audit.spent import CHECKS, Numbers


def test_checks_are_counted_apart_from_work_and_from_hotdesk() -> None:
    made = Numbers()
    made.add("step read", 6.0, 5.0)
    made.add("open desks, bring inputs", 1.0)
    made.add(CHECKS, 2.0)
    made.add(CHECKS, 1.0)
    shown = {line[:34].strip(): line[34:].split() for line in made.lines()}
    assert shown["phase"] == ["seconds", "work", "checks", "hotdesk"]
    assert shown["step read"] == ["6.0", "5.0", "0.0", "1.0"]
    assert shown[CHECKS] == ["3.0", "0.0", "3.0", "0.0"]
    assert shown["open desks, bring inputs"] == ["1.0", "0.0", "0.0", "1.0"]
    assert shown["all of the job"] == ["10.0", "5.0", "3.0", "2.0"]
    work, checks, own = made.told().split("; ")
    assert work == "of the job: the worker's tools 5.0 s, 50.0%"
    assert checks == "checks of what it made 3.0 s, 30.0%"
    assert own == "hotdesk's own part 2.0 s, 20.0%"
