"""Names of nodes, servers and desks of a cluster, and ids derived from them."""

from __future__ import annotations

import hashlib
import re

from hotdesk.config import TENANT_SHAPE
from hotdesk.desk.seam import ALPHABET, DeskId, new_id
from hotdesk.errors import BriefError

NAME_SHAPE = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?")
"""The name of a node or a server, also as a label of Kubernetes."""
_LONG_SHAPE = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
"""A name as an operator or Kubernetes gives it; `check_name` shortens it."""
_HEAD_CHARS = 46
ORPHAN_SECONDS = 120.0
"""Seconds that a node keeps desks without their server, unless its operator says otherwise."""
_CODE_LENGTH = 3


def check_name(name: str) -> str:
    """Return a name of a node or a server, a long one with a hash as its end; raise `BriefError` if it is invalid."""
    if not _LONG_SHAPE.fullmatch(name):
        raise BriefError(
            f"{name[:70]!r} is not a valid node name; use up to 253 lower-case letters, digits, dots and hyphens"
        )
    if NAME_SHAPE.fullmatch(name):
        return name
    return f"{name[:_HEAD_CHARS]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def compute_node_code(node: str) -> str:
    """Return the three characters that the ids of a node's desks have after the `i`."""
    number = int.from_bytes(hashlib.sha256(node.encode()).digest()[:8], "big")
    return "".join(ALPHABET[number // 36**place % 36] for place in range(_CODE_LENGTH))


def new_node_id(node: str) -> DeskId:
    """Return a new id of a desk on a node: the node's code, followed by 88 random bits."""
    return DeskId("i" + compute_node_code(node) + new_id()[1 + _CODE_LENGTH :])


def get_node_code(desk: str) -> str:
    return desk[1 : 1 + _CODE_LENGTH]


def get_tenant_on_node(server: str, tenant: str) -> str:
    """Return the name of a server's tenant on nodes. It differs for each server, so that two servers share nothing
    there.

    The server's name is the one in its certificate.
    """
    if not TENANT_SHAPE.fullmatch(tenant):
        raise BriefError(
            f"{tenant[:40]!r} is not a valid tenant name; use up to 32 lower-case letters, digits and hyphens"
        )
    digest = hashlib.sha256(f"{server}\0{tenant}".encode()).hexdigest()[:16]
    return f"{tenant[:14]}-{digest}"
