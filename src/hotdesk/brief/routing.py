"""The walls of a job's desks: the strongest of all that are required. Pure.

A demand names the least there may be, so that none lowers another. A wall that this machine lacks is refused before
anything is planned; no weaker one is used in its place.
"""

from __future__ import annotations

from dataclasses import replace

from hotdesk.brief.brief import Brief
from hotdesk.walls import UNWALLED, WallCatalog


def route_brief(job: Brief, walls: WallCatalog, verify_wall: str = "") -> Brief:
    """Settle the walls of a job; `BriefError` says which cannot be had here, and the remedy.

    `verify_wall` is the least the operator wants around what looks at deliverables.
    """
    if job.wall == UNWALLED and not job.least_wall:
        return replace(job, sensitive_wall="", verify_wall="", walls=walls)
    wall = walls.choose(job.wall, job.least_wall)
    sensitive = walls.choose(wall, job.sensitive_wall) if job.sensitive_wall else ""
    verify = walls.choose(wall, sensitive, verify_wall)
    for name in filter(None, (wall, sensitive, verify)):
        walls.require(name)
    return replace(job, wall=wall, sensitive_wall=sensitive, verify_wall=verify, walls=walls)
