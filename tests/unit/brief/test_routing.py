"""Tests of choosing the wall for a job's desks: the strongest one required, or a refusal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.brief.brief import Brief
from hotdesk.brief.ceiling import admit_brief
from hotdesk.brief.routing import route_brief
from hotdesk.config import Ceiling
from hotdesk.errors import BriefError
from hotdesk.walls import NOMINAL_CATALOG, TRAITS, WallCatalog, WallStatus

JOB = Brief("goal", (), Path(), "")
PLAIN = WallCatalog({"container": WallStatus("container", TRAITS["container"])})
"""A machine that has only containers."""


@pytest.mark.parametrize(
    ("job", "verify", "walls"),
    [
        (JOB, "", ("container", "", "container")),
        (replace(JOB, wall="gvisor"), "", ("gvisor", "", "gvisor")),
        (replace(JOB, least_wall="gvisor"), "", ("gvisor", "", "gvisor")),
        (replace(JOB, wall="microvm", least_wall="gvisor"), "", ("microvm", "", "microvm")),
        (JOB, "gvisor", ("container", "", "gvisor")),
        (replace(JOB, wall="gvisor"), "container", ("gvisor", "", "gvisor")),
        (replace(JOB, sensitive_wall="gvisor"), "", ("container", "gvisor", "gvisor")),
        (replace(JOB, sensitive_wall="gvisor"), "microvm", ("container", "gvisor", "microvm")),
        (replace(JOB, wall="gvisor", sensitive_wall="container"), "", ("gvisor", "gvisor", "gvisor")),
    ],
)
def test_the_strongest_required_wall_is_chosen(job: Brief, verify: str, walls: tuple[str, ...]) -> None:
    found = route_brief(job, NOMINAL_CATALOG, verify)
    assert (found.wall, found.sensitive_wall, found.verify_wall) == walls
    assert route_brief(found, NOMINAL_CATALOG, verify) == found


@pytest.mark.parametrize(
    ("job", "verify"),
    [
        (replace(JOB, wall="gvisor"), ""),
        (replace(JOB, least_wall="gvisor"), ""),
        (replace(JOB, sensitive_wall="gvisor"), ""),
        (JOB, "gvisor"),
    ],
    ids=["brief", "command line", "sensitive steps", "verifying"],
)
def test_a_missing_wall_is_refused_no_matter_what_requires_it(job: Brief, verify: str) -> None:
    with pytest.raises(BriefError, match="`hotdesk setup --wall gvisor` sets it up; hotdesk does not fall back"):
        route_brief(job, PLAIN, verify)


def test_a_ceiling_raises_what_a_brief_leaves_open() -> None:
    assert admit_brief(JOB, Ceiling("gvisor")).wall == "gvisor"
    assert admit_brief(replace(JOB, wall="microvm"), Ceiling("gvisor")).wall == "microvm"
    with pytest.raises(BriefError, match="the wall container is weaker than gvisor"):
        admit_brief(replace(JOB, explicit=frozenset({"wall"})), Ceiling("gvisor"))


def test_a_ceiling_compares_walls_by_their_strength_on_this_machine() -> None:
    emulated = WallStatus("microvm", replace(TRAITS["microvm"], is_boundary=False))
    here = WallCatalog({**NOMINAL_CATALOG.statuses, "microvm": emulated})
    weak = replace(JOB, wall="microvm", explicit=frozenset({"wall"}))
    assert admit_brief(weak, Ceiling("gvisor")).wall == "microvm"
    with pytest.raises(BriefError, match="the wall microvm is weaker than gvisor"):
        admit_brief(weak, Ceiling("gvisor"), here)
