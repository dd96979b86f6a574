"""Names of nodes, servers and desks of a cluster, and what follows from a name."""

from __future__ import annotations

import hashlib
import re

from hotdesk.config import TENANT_SHAPE
from hotdesk.desk.seam import ALPHABET, DeskId, new_id
from hotdesk.errors import BriefError

NAME_SHAPE = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")
"""A node's or a server's name: what Kubernetes calls a node fits."""
_CODE_LENGTH = 3


def check_name(name: str) -> str:
    """Refuse what cannot name a node or a server."""
    if not NAME_SHAPE.fullmatch(name):
        raise BriefError(
            f"{name[:70]!r} is not a valid node name; use up to 63 lower-case letters, digits, dots and hyphens"
        )
    return name


def compute_node_code(node: str) -> str:
    """Return the three characters that ids of a node's desks begin with, after the `i`."""
    number = int.from_bytes(hashlib.sha256(node.encode()).digest()[:8], "big")
    return "".join(ALPHABET[number // 36**place % 36] for place in range(_CODE_LENGTH))


def new_node_id(node: str) -> DeskId:
    """Make the id of a desk on a node: 88 random bits after the node's code."""
    return DeskId("i" + compute_node_code(node) + new_id()[1 + _CODE_LENGTH :])


def get_node_code(desk: str) -> str:
    return desk[1 : 1 + _CODE_LENGTH]


def get_tenant_on_node(server: str, tenant: str) -> str:
    """Return the name that a server's tenant has on nodes: two servers share nothing there, whatever they call theirs.

    The server's name is the one in its certificate.
    """
    if not TENANT_SHAPE.fullmatch(tenant):
        raise BriefError(
            f"{tenant[:40]!r} is not a valid tenant name; use up to 32 lower-case letters, digits and hyphens"
        )
    digest = hashlib.sha256(f"{server}\0{tenant}".encode()).hexdigest()[:16]
    return f"{tenant[:14]}-{digest}"
