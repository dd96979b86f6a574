"""Chooses the walls of a job's desks: the strongest of all that are required. No I/O.

Each requirement is a minimum, so none weakens another. A wall that is not available here is refused before planning; no
weaker wall replaces it.
"""

from __future__ import annotations

from dataclasses import replace

from hotdesk.brief.brief import Brief
from hotdesk.walls import UNWALLED, WallCatalog


def route_brief(job: Brief, walls: WallCatalog, verify_wall: str = "") -> Brief:
    """Return a job with its walls chosen; raise `BriefError` with a remedy if one is not available.

    `verify_wall` is the operator's minimum for desks in which deliverables are checked.
    """
    if job.wall == UNWALLED and not job.least_wall:
        return replace(job, sensitive_wall="", verify_wall="", walls=walls)
    wall = walls.choose(job.wall, job.least_wall)
    sensitive = walls.choose(wall, job.sensitive_wall) if job.sensitive_wall else ""
    verify = walls.choose(wall, sensitive, verify_wall)
    for name in filter(None, (wall, sensitive, verify)):
        walls.require(name)
    return replace(job, wall=wall, sensitive_wall=sensitive, verify_wall=verify, walls=walls)
