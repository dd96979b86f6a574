"""Tests of how doctor's findings are shown: on a narrow terminal, without colours, as JSON."""

from __future__ import annotations

import json

import pytest

from hotdesk.cli.machine.doctor import MARKS, PLAIN, Paper, as_json, exit_code, render
from hotdesk.doctor.examination import MEASURES, Examination
from hotdesk.doctor.machine import Confined, MachineFacts
from hotdesk.doctor.measure import THEMES, Finding, Result, report_failure, report_pass, report_untested

FACTS = MachineFacts(
    name="Debian",
    arch="aarch64",
    kernel="6.1.0",
    unsupported=None,
    untested=None,
    lacking=(),
    runtime="crun",
    version=(1, 8, 1),
    built=0.0,
    cgroups="v1",
    cgroup_error="",
    reserved=True,
    restricted="",
    confined=Confined(6, "", "", "", 0),
)


def examined(finding: Finding, *, unopened: str | None = None) -> Examination:
    results = [Result(measure, report_pass("as it should be")) for measure in MEASURES]
    return Examination(FACTS, [Result(MEASURES[-1], finding), *results[:-1]], unopened)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    found = examined(report_failure("x " * 190), unopened=None)
    lines = "\n".join(render(found, Paper(width, False, MARKS))).splitlines()
    assert max(map(len, lines[1:-1])) <= width
    assert "\x1b" not in "".join(lines)


def test_a_failure_has_its_promise_and_remedy_and_the_rest_is_short() -> None:
    text = "\n".join(render(examined(report_failure("broken")), Paper(120, False, MARKS)))
    assert f"✘ {MEASURES[-1].name}" in text
    assert f"{MEASURES[-1].promise}: broken" in text
    assert text.count("remedy: ") == 1
    assert "does not work as promised: " in text.splitlines()[-1]
    assert f"{len(MEASURES) - 1} measures passed, 1 failed, 0 not tested here" in text.splitlines()[-1]


def test_colours_are_only_where_they_are_wanted() -> None:
    assert "\x1b[1;31m✘\x1b[0m" in "\n".join(render(examined(report_failure("x")), Paper(80, True, MARKS)))
    assert "\n  ! " in "\n".join(render(examined(report_failure("x")), Paper(80, False, PLAIN)))


def test_the_exit_code_follows_from_the_findings() -> None:
    assert exit_code(examined(report_pass("x"))) == 0
    assert exit_code(examined(report_untested("x"))) == 0
    assert exit_code(examined(report_failure("x"))) == 1
    assert exit_code(examined(report_failure("x"), unopened="no crun")) == 125


def test_the_reason_why_no_desk_opened_comes_last() -> None:
    text = "\n".join(render(examined(report_untested("x"), unopened="no crun"), Paper(80, False, MARKS)))
    assert "No desk could be opened: no crun" in text


def test_json_has_every_measure_once_in_one_order() -> None:
    told = json.loads(json.dumps(as_json(examined(report_untested("x")))))
    assert told["schema"] == 1
    assert [measure["theme"] for measure in told["measures"]] == sorted(
        (measure.theme for measure in MEASURES), key=list(THEMES).index
    )
    assert len({measure["name"] for measure in told["measures"]}) == len(MEASURES)
    fields = {"name", "theme", "wall", "state", "promise", "seen", "note", "how", "remedy"}
    assert all(set(measure) == fields for measure in told["measures"])


def test_every_measure_says_which_side_sees_it_and_what_to_do() -> None:
    assert [each.name for each in MEASURES if not each.how.startswith("tested from ")] == []
    assert [each.name for each in MEASURES if not each.remedy or not each.promise] == []
    assert len({each.name for each in MEASURES}) == len(MEASURES)
