"""What envd keeps of one sandbox: its programs, its watchers, and who handles its files."""

from __future__ import annotations

from dataclasses import dataclass, field

from hotdesk.api.e2b.envd.guest_files import Inside
from hotdesk.api.e2b.envd.programs import Programs
from hotdesk.api.e2b.envd.signing import Tries
from hotdesk.api.e2b.envd.watchers import Watcher


@dataclass(slots=True)
class Room:
    """All of it; gone with the sandbox."""

    programs: Programs = field(default_factory=Programs)
    watchers: dict[str, Watcher] = field(default_factory=dict)
    inside: Inside = field(default_factory=Inside)
    tries: Tries = field(default_factory=Tries)
    """Wrong signatures that were shown to it."""
    sampled: tuple[float, float] = (0.0, 0.0)
    """When metrics were asked for last, and the seconds of processor time until then."""
