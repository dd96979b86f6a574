"""What makes programs in a pod use their door: variables, and files in the only folder that the agent writes.

A pod's image is read-only and not hotdesk's, so the bundle holds the door's certificate alone: the door makes every
connection of a program, and answers with a certificate of that authority.
"""

from __future__ import annotations

from hotdesk.desk import door_files
from hotdesk.desk.pod.manifest import RUN

CERTIFICATE = f"{RUN}/door.crt"
NODE_PRELOAD = f"{RUN}/proxy.js"
_CLOSED = "APT_CONFIG"
"""A variable that names a file of hotdesk's own images."""


def build_pod_environment(has_door: bool) -> dict[str, str]:
    """Return the variables of every program in a pod."""
    if not has_door:
        return {name: value for name, value in door_files.build_closed_environment().items() if name != _CLOSED}
    found = door_files.build_environment(bundle=CERTIFICATE, certificate=CERTIFICATE)
    return {**found, "NODE_OPTIONS": f"--require={NODE_PRELOAD}"}


def build_pod_files(ca: str) -> dict[str, str]:
    """Return the files for a door with this certificate; none without a door."""
    return {CERTIFICATE: ca, NODE_PRELOAD: door_files.read_node_preload()} if ca else {}
