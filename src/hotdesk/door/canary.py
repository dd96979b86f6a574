"""The canary secret for the door's self-test before a desk is released: valid for a host only the door serves."""

from __future__ import annotations

from hotdesk.brief import Grant, Rule, Scope
from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError

HOST = "echo.door.local"
"""Host of the canary: a server inside the door that repeats what it receives. It is reached without the network."""
PATH = "/canary"
RULE = Rule(HOST, scheme="https", methods=("GET",), path=PATH)
GRANT = Grant("hotdesk-canary", HOST)


@dataclass(frozen=True, slots=True)
class Canary:
    """A desk's canary as its owner knows it: enough to recognise the canary outside the desk, but not its value."""

    placeholder: str
    digest: str
    """SHA-256 of the canary's value, in hexadecimal."""


def check_free(scope: Scope) -> None:
    """Refuse a scope that uses the reserved name of the echo server."""
    hosts = [rule.host for rule in scope.rules] + [grant.host for grant in scope.grants] + list(scope.names)
    tunnels = [rule.host for rule in scope.rules if rule.tunnel and rule.host.startswith("*.")]
    if HOST in hosts or any(HOST.endswith(host[1:]) for host in tunnels):
        raise BriefError(f"{HOST} is reserved for the door's self-test; remove it from rules, grants and names")
