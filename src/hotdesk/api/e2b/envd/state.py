"""State of envd for one sandbox: its programs, its watchers, and its file service."""

from __future__ import annotations

from dataclasses import field

from hotdesk.api.e2b.envd.guest_files import Inside
from hotdesk.api.e2b.envd.programs import SandboxPrograms
from hotdesk.api.e2b.envd.signing import Tries
from hotdesk.api.e2b.envd.watchers import FolderWatcher
from hotdesk.dataclass import dataclass


@dataclass(slots=True)
class EnvdState:
    """The state, which ends with the sandbox."""

    programs: SandboxPrograms = field(default_factory=SandboxPrograms)
    watchers: dict[str, FolderWatcher] = field(default_factory=dict)
    inside: Inside = field(default_factory=Inside)
    tries: Tries = field(default_factory=Tries)
    """Wrong signatures that were sent to this sandbox."""
    sampled: tuple[float, float] = (0.0, 0.0)
    """When metrics were last requested, and the seconds of CPU time used until then."""
