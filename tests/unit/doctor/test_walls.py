"""Tests of doctor's report of a machine's walls."""

from __future__ import annotations

import json
import time

from tests.unit.cli.machine.test_doctor import FACTS

from hotdesk.cli.machine.doctor import MARKS, Paper, exit_code, render, render_walls
from hotdesk.desk.wall.container.status import list_flaws
from hotdesk.doctor.examination import MEASURES, Examination
from hotdesk.doctor.measure import Result, report_pass
from hotdesk.doctor.walls import YEAR_S, ExaminedWall, IdleCost, as_json
from hotdesk.walls import TRAITS, WallStatus

OLD = WallStatus(
    "container", TRAITS["container"], program="/usr/bin/crun", version="crun 1.8.1", released=time.time() - 3 * YEAR_S,
    flaws=list_flaws("1.8.1"),
)  # fmt: skip
EXAMINED = ExaminedWall(OLD, IdleCost(0.00012, 14 << 20), is_examined=True)
PASSED = Result(MEASURES[0], report_pass("as it should be"))
MISSING = WallStatus("gvisor", TRAITS["gvisor"], "there is no runsc", "`hotdesk setup --wall gvisor` sets it up")


def test_the_table_lists_walls_and_how_to_set_up_others() -> None:
    walls = [ExaminedWall(OLD, IdleCost(0.00012, 14 << 20)), ExaminedWall(MISSING)]
    text = "\n".join(render_walls(walls, Paper(100, False, MARKS)))
    assert text.splitlines()[1] == "Walls (kinds of isolation), weakest first"
    assert "✔ container  the host's kernel; crun 1.8.1, built " in text
    assert "3.0 years ago" in text
    assert "an idle desk uses 0.01 % of a core and 14 MiB of memory" in " ".join(text.split())
    assert "note: before 1.24 it changes the owner of the files behind descriptors" in text
    assert "? gvisor     not available: there is no runsc; `hotdesk setup --wall gvisor` sets it up" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_wall_that_is_set_up_and_opens_no_desk_is_a_failure() -> None:
    failing = ExaminedWall(OLD, failure="the runtime does not start")
    text = "\n".join(render_walls([failing], Paper(100, False, MARKS)))
    assert "✘ container" in text
    assert "DESKS CANNOT BE OPENED: the runtime does not start" in " ".join(text.split())
    assert exit_code(Examination(FACTS, [], walls=[failing])) == 1
    assert exit_code(Examination(FACTS, [], walls=[ExaminedWall(MISSING)])) == 0


def test_a_wall_without_measures_is_never_reported_as_tested() -> None:
    unmeasured = ExaminedWall(WallStatus("microvm", TRAITS["microvm"]), IdleCost(0.01, 14 << 20))
    on = Paper(100, False, MARKS)
    alone = "\n".join(render(Examination(FACTS, [PASSED], walls=[unmeasured]), on))
    assert "No isolation was tested: " in alone
    assert "works as promised" not in alone
    both = "\n".join(render(Examination(FACTS, [PASSED], walls=[EXAMINED, unmeasured]), on))
    assert "The isolation works as promised: " in both
    for text in (alone, both):
        assert "Desks open behind microvm, but their isolation was not tested" in text
    assert "not tested: there" not in "\n".join(render(Examination(FACTS, [PASSED], walls=[EXAMINED]), on))
    assert [as_json(each)["examined"] for each in (EXAMINED, unmeasured)] == [True, False]


def test_walls_are_reported_as_json() -> None:
    told = json.loads(json.dumps(as_json(ExaminedWall(OLD, IdleCost(0.00012, 14 << 20)))))
    assert (told["available"], told["kernel"], told["boundary"], told["strength"]) == (True, "host", True, 1)
    assert (told["version"], told["age_years"], told["idle_cpu"], told["idle_memory"]) == (
        "crun 1.8.1",
        3.0,
        0.00012,
        14 << 20,
    )
    assert len(told["flaws"]) == 2
    told = as_json(ExaminedWall(MISSING))
    assert (told["available"], told["idle_cpu"], told["age_years"]) == (False, None, None)
    assert "hotdesk setup --wall gvisor" in str(told["remedy"])


def test_known_flaws_go_by_the_version() -> None:
    assert [len(list_flaws(each)) for each in ("1.8.1", "1.24", "1.29.9", "1.30", "2.0", "")] == [2, 1, 1, 0, 0, 0]
