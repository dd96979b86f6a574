"""Routes of E2B's control plane and of envd, as labels of metrics: never text of a caller."""

from __future__ import annotations

from starlette.types import Scope

from hotdesk.api.e2b.control.control import ACTS
from hotdesk.api.e2b.envd.envd import SERVICES

VERBS = frozenset(verb for _, verb in ACTS)
VERSIONS = ("v2", "v3")
WHOLE = ("templates", "volumes", "secrets", "volumecontent", "identity")
"""Routes that are counted as one, whatever the operation."""
CALLS = frozenset({
    "/health", "/files", "/envs", "/metrics",
    *(f"/{service}/{method}" for service, methods in SERVICES.items() for method in methods),
})  # fmt: skip


def control_route(scope: Scope) -> str:
    """Return the route of a request to the control plane; empty if no route matches."""
    words = scope["path"].strip("/").split("/")
    above = f"/{words.pop(0)}" if words[0] in VERSIONS else ""
    match words:
        case ["sandboxes"] | ["snapshots"] | ["sandboxes", "metrics"]:
            return f"{above}/{'/'.join(words)}"
        case ["sandboxes", _]:
            return f"{above}/sandboxes/{{sandbox}}"
        case ["sandboxes", _, "shares", _]:
            return f"{above}/sandboxes/{{sandbox}}/shares/{{share}}"
        case ["sandboxes", _, verb] if verb in VERBS:
            return f"{above}/sandboxes/{{sandbox}}/{verb}"
        case [word, *_] if word in WHOLE:
            return f"{above}/{word}/*"
    return ""


def call_route(scope: Scope) -> str:
    """Return the route of a call of envd; empty if it has no such call."""
    path: str = scope["path"]
    return path if path in CALLS else ""
