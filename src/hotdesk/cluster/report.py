"""The status report of a node, once a second: identity, capacity and load."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Annotated

from hotdesk import __version__
from hotdesk.cluster.names import NAME_SHAPE
from hotdesk.dataclass import dataclass
from hotdesk.errors import KeeperError
from hotdesk.strict import Length, Range, StrictError, parse_json, read

INTERVAL_S = 1.0
MAX_LINE_BYTES = 1 << 16
PROTOCOL = "hotdesk-reports"
_MAX_BYTES = 1 << 50
_Name = Annotated[str, re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One report. A server believes it only for choosing: what a node cannot do it refuses."""

    node: Annotated[str, NAME_SHAPE]
    boot: Annotated[str, re.compile(r"[0-9a-f]{32}")]
    """Which life of the agent this is: desks of an earlier one are gone."""
    cpus: Annotated[int, Range(1, 1 << 16)]
    memory: Annotated[int, Range(0, _MAX_BYTES)]
    """Bytes that are available."""
    desks: Annotated[int, Range(0, 1 << 20)]
    """Desks that are open, of all servers."""
    walls: Annotated[tuple[_Name, ...], Length(16)]
    images: Annotated[tuple[_Name, ...], Length(400)]
    """Images that every tenant has."""
    screens: Annotated[tuple[_Name, ...], Length(400)] = ()
    """Those of them that have a screen of ours."""
    cordoned: bool = False
    """Whether it opens no more desks."""
    lacks: Annotated[tuple[_Name, ...], Length(16)] = ()
    """What it has too little of to open another desk."""
    version: Annotated[str, Length(64)] = __version__

    @property
    def is_open(self) -> bool:
        return not self.cordoned and not self.lacks


def write_report(report: NodeReport) -> bytes:
    return json.dumps(asdict(report)).encode() + b"\n"


def parse_report(line: bytes) -> NodeReport:
    """Read a report strictly: a node may be turned."""
    try:
        return read(NodeReport, parse_json(line))
    except StrictError as e:
        raise KeeperError(f"malformed report from a node: {e}") from None
