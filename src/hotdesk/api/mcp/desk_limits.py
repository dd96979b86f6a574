"""Settings of a session's desk: chosen by the operator, never by a client."""

from __future__ import annotations

from dataclasses import field

from hotdesk.api.settings import Serving
from hotdesk.brief.data import CLOSED, Scope
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Spec
from hotdesk.door.policy.presets import build_preset_environment

IDLE = 900.0
"""Seconds without a request after which a session, or its desk, ends."""
LASTING = 86400.0


@dataclass(frozen=True, slots=True)
class McpPolicy:
    spec: Spec = field(default_factory=lambda: Spec(image="desktop", deadline=LASTING, idle=IDLE))
    scope: Scope = CLOSED


def build_policy(serving: Serving, scope: Scope) -> McpPolicy:
    env = build_preset_environment(("pypi", "npm")) if serving.egress == "packages" else {}
    return McpPolicy(Spec(serving.mcp_image, deadline=serving.longest, idle=serving.mcp_idle, env=env), scope)
