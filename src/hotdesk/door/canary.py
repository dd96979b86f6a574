"""The canary secret for the door's self-test before a desk is released: valid for a host only the door serves."""

from __future__ import annotations

from hotdesk.brief import Grant, Rule, Scope
from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError

HOST = "echo.door.local"
"""Where it goes: a server inside the door, which says back what it hears. No one dials a network for it."""
PATH = "/canary"
RULE = Rule(HOST, scheme="https", methods=("GET",), path=PATH)
GRANT = Grant("hotdesk-canary", HOST)


@dataclass(frozen=True, slots=True)
class Canary:
    """An owner's knowledge of a desk's canary: enough to recognise it outside, not its value."""

    placeholder: str
    digest: str
    """SHA-256 of its value, in hexadecimal."""


def check_free(scope: Scope) -> None:
    """Refuse a scope that would have the echo's name mean something else."""
    hosts = [rule.host for rule in scope.rules] + [grant.host for grant in scope.grants] + list(scope.names)
    tunnels = [rule.host for rule in scope.rules if rule.tunnel and rule.host.startswith("*.")]
    if HOST in hosts or any(HOST.endswith(host[1:]) for host in tunnels):
        raise BriefError(f"{HOST} is reserved for the door's self-test; remove it from rules, grants and names")
