"""Status of the container wall on this machine: its runtime, and that runtime's known defects."""

from __future__ import annotations

import os
import re

from hotdesk.config import Config
from hotdesk.desk.wall.program import find_program, read_version
from hotdesk.walls import TRAITS, WallStatus

NAME = "container"
_KNOWN_FLAWS = (
    (
        (1, 24),
        "changes the owner of the files behind descriptors 0 to 2 to the desk's user; "
        "hotdesk passes only pipes, so it is safe",
    ),
    (
        (1, 30),
        "follows an image's links at /dev/null and /dev/console; hotdesk mounts its own /dev, so it is safe",
    ),
)
"""Defects of crun before a version, from its release notes, and why they do not affect a desk."""


def look(settings: Config) -> WallStatus:
    traits, name = TRAITS[NAME], os.path.basename(settings.runtime)
    program = find_program(settings.runtime)
    if program is None:
        return WallStatus(NAME, traits, f"{settings.runtime} is not installed", "`hotdesk setup` installs it")
    version = read_version(program, settings.lib / "cache")
    return WallStatus(
        NAME,
        traits,
        program=program.path,
        version=f"{name} {version}".strip(),
        released=program.changed,
        flaws=list_flaws(version) if name == "crun" else (),
    )


def list_flaws(version: str) -> tuple[str, ...]:
    numbers = tuple(int(each) for each in re.findall(r"\d+", version)[:3])
    return tuple(
        f"before {'.'.join(map(str, fixed))} it {what}" for fixed, what in _KNOWN_FLAWS if numbers and numbers < fixed
    )
