"""The status report that a node sends every second: identity, capacity and load."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Annotated

from hotdesk import __version__
from hotdesk.cluster.names import NAME_SHAPE
from hotdesk.config import TENANT_SHAPE
from hotdesk.dataclass import dataclass
from hotdesk.errors import KeeperError
from hotdesk.strict import Length, Range, StrictError, parse_json, read

INTERVAL_S = 1.0
MAX_LINE_BYTES = 1 << 16
PROTOCOL = "hotdesk-reports"
WITH_JOURNALS = "hotdesk-reports-journals"
"""The protocol of a server that also follows journals; an older agent ignores the difference."""
MAX_JOURNALS = 500
"""Maximum number of journals that one report names; the next report names more."""
_MAX_BYTES = 1 << 50
_Name = Annotated[str, re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One report. A server uses it only to choose a node; a node refuses what it cannot do."""

    node: Annotated[str, NAME_SHAPE]
    boot: Annotated[str, re.compile(r"[0-9a-f]{32}")]
    """Identifies the agent's process: desks of an earlier process are gone."""
    cpus: Annotated[int, Range(1, 1 << 16)]
    memory: Annotated[int, Range(0, _MAX_BYTES)]
    """Bytes of available memory."""
    desks: Annotated[int, Range(0, 1 << 20)]
    """Number of open desks of all servers."""
    walls: Annotated[tuple[_Name, ...], Length(16)]
    images: Annotated[tuple[_Name, ...], Length(400)]
    """Images that every tenant has."""
    screens: Annotated[tuple[_Name, ...], Length(400)] = ()
    """Those of the images that have a screen which hotdesk starts."""
    cordoned: bool = False
    """Whether it refuses to open more desks."""
    lacks: Annotated[tuple[_Name, ...], Length(16)] = ()
    """Resources of which it has too little to open another desk."""
    open_network: bool = False
    """Whether its desks may reach other addresses than their door, which its operator accepts."""
    version: Annotated[str, Length(64)] = __version__
    journals: Annotated[tuple[Annotated[str, TENANT_SHAPE], ...], Length(MAX_JOURNALS)] | None = None
    """Tenants of the server that reads this whose journals here have new events; `None`: the node does not say."""

    @property
    def is_open(self) -> bool:
        return not self.cordoned and not self.lacks


def write_report(report: NodeReport) -> bytes:
    fields = asdict(report)
    if report.journals is None:
        del fields["journals"]  # older servers refuse it
    return json.dumps(fields).encode() + b"\n"


def parse_report(line: bytes) -> NodeReport:
    """Parse a report strictly: a node may be under an attacker's control."""
    try:
        return read(NodeReport, parse_json(line))
    except StrictError as e:
        raise KeeperError(f"malformed report from a node: {e}") from None
