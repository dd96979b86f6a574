"""Default settings of sandboxes, computed once because that runs programs of this machine."""

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
    scope: Scope = CLOSED
    """The scope of a sandbox without network options."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that make a sandbox's pip and npm use the package sources of this machine."""
    ready: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """How many desks are kept ready for each tenant, by image and requested wall."""
    stocked: set[tuple[Host, str, str]] = field(default_factory=set)
    """Tenants' machines, images and walls for which desks are kept ready already."""

    @property
    def reaches(self) -> bool:
        return self.scope != CLOSED


def compute_defaults(serving: Serving) -> Defaults:
    ready = {(parse_image_name(name), parse_wall(name)): count for name, count in serving.ready.items()}
    for reason in list_package_rules()[1] if serving.egress == "packages" else ():
        LOG.write("start", f"sandboxes cannot reach a package index: {reason}")
    env = {} if serving.egress == "deny" else build_preset_environment(PRESETS)
    return Defaults(resolve_scope(serving), env, ready)
