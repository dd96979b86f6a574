"""Default settings of a sandbox, worked out once because that runs programs of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from hotdesk.api.e2b.network import PRESETS, list_package_rules, resolve_scope
from hotdesk.api.e2b.templates import parse_image_name, parse_wall
from hotdesk.api.log import LOG
from hotdesk.api.settings import Serving
from hotdesk.brief.data import CLOSED, Scope
from hotdesk.dataclass import dataclass
from hotdesk.door.policy.presets import build_preset_environment
from hotdesk.host import Host


@dataclass(frozen=True, slots=True)
class Defaults:
    """Settings for every sandbox of a server."""

    scope: Scope = CLOSED
    """What it reaches."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables by which its own pip and npm ask where this machine's do."""
    ready: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Images with the walls that were asked for, and how many desks of each are kept ready for each tenant."""
    stocked: set[tuple[Host, str, str]] = field(default_factory=set)
    """Tenants' machines, images and walls that are kept ready already."""

    @property
    def reaches(self) -> bool:
        return self.scope != CLOSED


def compute_defaults(serving: Serving) -> Defaults:
    ready = {(parse_image_name(name), parse_wall(name)): count for name, count in serving.ready.items()}
    for reason in list_package_rules()[1] if serving.egress == "packages" else ():
        LOG.write("start", f"sandboxes cannot reach a package index: {reason}")
    env = {} if serving.egress == "deny" else build_preset_environment(PRESETS)
    return Defaults(resolve_scope(serving), env, ready)
