"""Tests of how the audit's time is divided: checks count neither as the worker's tools nor as hotdesk's own time."""

from __future__ import annotations

from examples.audit.spent import CHECKS, PhaseTimes, measure_events

from hotdesk.event import Acted, Observed, StepBegun, Thought

JOB = "i" + "ab" * 10


def test_checks_are_counted_apart_from_work_and_from_hotdesk() -> None:
    times = PhaseTimes()
    times.add("step read", 6.0, 5.0)
    times.add("open desks, bring inputs", 1.0)
    times.add(CHECKS, 2.0)
    times.add(CHECKS, 1.0)
    shown = {line[:34].strip(): line[34:].split() for line in times.format_table()}
    assert shown["phase"] == ["seconds", "model", "work", "checks", "hotdesk"]
    assert shown["step read"] == ["6.0", "0.0", "5.0", "0.0", "1.0"]
    assert shown[CHECKS] == ["3.0", "0.0", "0.0", "3.0", "0.0"]
    assert shown["open desks, bring inputs"] == ["1.0", "0.0", "0.0", "0.0", "1.0"]
    assert shown["all of the job"] == ["10.0", "0.0", "5.0", "3.0", "2.0"]
    work, checks, own = times.summarize().split("; ")
    assert work == "Of the job: the worker's tools 5.0 s, 50.0%"
    assert checks == "checks of its results 3.0 s, 30.0%"
    assert own == "hotdesk itself 2.0 s, 20.0%"


def test_waiting_for_a_model_is_the_models_time_and_a_scripts_decisions_are_ours() -> None:
    def job(model: str) -> PhaseTimes:
        return measure_events([
            (100.0, StepBegun(JOB, "read", "Read.", "d", 1, model)),
            (108.1, Thought(JOB, "read", 1, model, "p", 1, 1, 0, 9, 8000)),
            (108.1, Acted(JOB, "read", 1, "shell", "p")),
            (111.2, Observed(JOB, "read", 1, "done", 3000, "p")),
            (119.3, Thought(JOB, "read", 2, model, "p", 1, 1, 0, 9, 8000)),
        ])  # fmt: skip

    asked = job("anthropic:claude-sonnet-5")
    assert (asked.turns, round(asked.own, 3), round(asked.compute_own_per_turn())) == (2, 0.3, 150)
    assert asked.summarize() == (
        "Of the job: waiting for the model 16.0 s, 82.9%; the worker's tools 3.0 s, 15.5%; checks of its results "
        "0.0 s, 0.0%; hotdesk itself 0.3 s, 1.6% (150 ms a turn of 2)"
    )
    assert round(job("written script 1a2b3c4d").own, 3) == 16.3
