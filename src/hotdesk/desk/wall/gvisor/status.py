"""Status of the gVisor wall on this machine: its runsc and platform."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from hotdesk.config import Config
from hotdesk.desk.wall.program import find_program, read_version
from hotdesk.walls import TRAITS, WallStatus

NAME = "gvisor"
OLDEST = 20240729
"""The oldest release that is known to run desks."""
_REMEDY = "`hotdesk setup --wall gvisor` sets it up"
_OLD_S = 365 * 86400
"""Seconds after which a release counts as old: gVisor is released weekly, so a year-old one lacks many fixes."""
_KNOWN_FLAWS = (
    (20250130, "lets a peer on its network predict ports and sequence numbers (CVE-2024-10026, CVE-2024-10603); "
     "a desk's network has no peer, so it is safe"),
    (20250319, "gives a sandbox's first process root's access to files until it forks (CVE-2025-2713); "
     "the first process of a desk is hotdesk's, and programs are its children, so it is safe"),
)  # fmt: skip
"""Defects of runsc before a release, from its advisories, and why they do not affect a desk."""


def look(settings: Config) -> WallStatus:
    program = find_program(settings.gvisor_program)
    if program is None:
        return WallStatus(NAME, TRAITS[NAME], f"{settings.gvisor_program} does not exist", _REMEDY)
    version = read_version(program, settings.lib / "cache")
    release = find_release(version)
    missing = ""
    if not release:
        missing = f"{program.path} does not report its release"
    elif release < OLDEST:
        missing = f"{program.path} is release {release}, but desks need {OLDEST} or newer"
    return WallStatus(
        NAME,
        TRAITS[NAME],
        missing,
        _REMEDY if missing else "",
        program=program.path,
        version=f"runsc {version}".strip(),
        platform=choose_platform(settings.gvisor_platform),
        released=_parse_date(release),
        flaws=list_flaws(release, time.time()),
    )


def list_flaws(release: int, now: float) -> tuple[str, ...]:
    """List the known defects of a release, and whether it is old; nothing for an unknown release."""
    if not release:
        return ()
    flaws = [f"before {fixed} it {what}" for fixed, what in _KNOWN_FLAWS if release < fixed]
    if now - _parse_date(release) > _OLD_S:
        flaws.append(
            "it is more than a year old and lacks later fixes; download a newer runsc and "
            "set [wall.gvisor] program = PATH"
        )
    return tuple(flaws)


def find_release(version: str) -> int:
    """Return the date in a version of runsc, such as 20240729, or 0 if there is none."""
    found = re.search(r"20[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])", version)
    return int(found[0]) if found else 0


def _parse_date(release: int) -> float:
    """Return the time of a release in seconds since 1970, or 0 if it is unknown."""
    try:  # strptime would import a module, which a confined process cannot
        return datetime(release // 10000, release // 100 % 100, release % 100, tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0


def choose_platform(name: str) -> str:
    """Return how the sentry intercepts system calls. `auto` selects ptrace, which costs an idle desk nothing."""
    return "ptrace" if name == "auto" else name
