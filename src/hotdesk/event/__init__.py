"""Events: frozen, versioned, plain data; and `Note`, the function type that records them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, get_args

from hotdesk.strict import StrictError, compile_reader

if TYPE_CHECKING:
    from hotdesk.event.desk import Alarm as Alarm
    from hotdesk.event.desk import Answered as Answered
    from hotdesk.event.desk import Asked as Asked
    from hotdesk.event.desk import Burnt as Burnt
    from hotdesk.event.desk import DeskEvent as DeskEvent
    from hotdesk.event.desk import Exchange as Exchange
    from hotdesk.event.desk import HandedBack as HandedBack
    from hotdesk.event.desk import Opened as Opened
    from hotdesk.event.desk import Proven as Proven
    from hotdesk.event.desk import RequestAdmitted as RequestAdmitted
    from hotdesk.event.desk import Rescoped as Rescoped
    from hotdesk.event.desk import Revoked as Revoked
    from hotdesk.event.desk import RootAct as RootAct
    from hotdesk.event.desk import RootActEnded as RootActEnded
    from hotdesk.event.desk import TookOver as TookOver
    from hotdesk.event.desk import Used as Used
    from hotdesk.event.desk import WallProven as WallProven
    from hotdesk.event.desk import find_proof as find_proof
    from hotdesk.event.job import Acted as Acted
    from hotdesk.event.job import Amended as Amended
    from hotdesk.event.job import Certified as Certified
    from hotdesk.event.job import Checkpointed as Checkpointed
    from hotdesk.event.job import Decided as Decided
    from hotdesk.event.job import Forgotten as Forgotten
    from hotdesk.event.job import JobBegun as JobBegun
    from hotdesk.event.job import JobBurnt as JobBurnt
    from hotdesk.event.job import JobEnded as JobEnded
    from hotdesk.event.job import JobEvent as JobEvent
    from hotdesk.event.job import JobPaused as JobPaused
    from hotdesk.event.job import Kept as Kept
    from hotdesk.event.job import MemoryDropped as MemoryDropped
    from hotdesk.event.job import MemoryKept as MemoryKept
    from hotdesk.event.job import MemoryOffered as MemoryOffered
    from hotdesk.event.job import MemoryStaged as MemoryStaged
    from hotdesk.event.job import Observed as Observed
    from hotdesk.event.job import Pending as Pending
    from hotdesk.event.job import Planned as Planned
    from hotdesk.event.job import Preflight as Preflight
    from hotdesk.event.job import Resumed as Resumed
    from hotdesk.event.job import RolledBack as RolledBack
    from hotdesk.event.job import SentBack as SentBack
    from hotdesk.event.job import StepBegun as StepBegun
    from hotdesk.event.job import StepEnded as StepEnded
    from hotdesk.event.job import Summed as Summed
    from hotdesk.event.job import Thought as Thought
    from hotdesk.event.job import Verified as Verified
    from hotdesk.event.job import VisionAsked as VisionAsked
    from hotdesk.event.operator import DriveChanged as DriveChanged
    from hotdesk.event.operator import ImageSigned as ImageSigned
    from hotdesk.event.operator import KeyChanged as KeyChanged
    from hotdesk.event.operator import VaultChanged as VaultChanged
    from hotdesk.event.operator import VolumeChanged as VolumeChanged
    from hotdesk.event.swarm import ItemEnded as ItemEnded
    from hotdesk.event.swarm import ItemReviewed as ItemReviewed
    from hotdesk.event.swarm import ItemsAdded as ItemsAdded
    from hotdesk.event.swarm import ItemsBegun as ItemsBegun
    from hotdesk.event.swarm import ItemsOffered as ItemsOffered
    from hotdesk.event.swarm import ItemsUsed as ItemsUsed
    from hotdesk.event.swarm import PilotEnded as PilotEnded
    from hotdesk.event.swarm import ReduceBegun as ReduceBegun
    from hotdesk.event.swarm import Reduced as Reduced
    from hotdesk.event.swarm import SwarmBegun as SwarmBegun
    from hotdesk.event.swarm import SwarmCertified as SwarmCertified
    from hotdesk.event.swarm import SwarmEvent as SwarmEvent

    Event: TypeAlias = DeskEvent | JobEvent | SwarmEvent
else:
    Event = object  # needed by type checkers only: making all the classes would cost every command 30 ms


VERSION = 1
PLAIN = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
"""Made once, because making an encoder costs more than encoding an event."""

Note: TypeAlias = Callable[[Event], None]
"""Records an event; raises `HostError` if it cannot."""


def __getattr__(name: str) -> object:
    for module in ("desk", "job", "swarm"):
        if (found := getattr(import_module(f"hotdesk.event.{module}"), name, None)) is not None:
            return found
    raise AttributeError(name)


def list_kinds() -> tuple[type, ...]:
    desk, job, swarm = (import_module(f"hotdesk.event.{module}") for module in ("desk", "job", "swarm"))
    return (*get_args(desk.DeskEvent), *get_args(job.JobEvent), *get_args(swarm.SwarmEvent))


def get_chain(event: Event) -> str:
    """Return the chain of an event: the id of its job or its desk."""
    return str(getattr(event, "job", "") or getattr(event, "desk", ""))


def to_json(event: Event) -> str:
    """Encode an event's fields as one line of plain ASCII JSON; raise for a value that is not plain data."""
    return PLAIN.encode(as_dict(event))


def as_dict(event: Event) -> dict[str, object]:
    """Return an event's fields without copying; they are plain values."""
    return {name: getattr(event, name) for name in event.__slots__}


def from_json(name: str, data: str, version: int = VERSION, *, ignore_unknown: bool = False) -> Event:
    """Parse an event strictly; raise `ValueError` for data of no known version. Fields with a default are optional.

    With `ignore_unknown` it may have fields of newer code, which are left out.
    """
    read = compile_readers(ignore_unknown=ignore_unknown).get(name)
    if read is None or version != VERSION:
        raise ValueError(f"unknown event {name!r} of version {version}")
    try:
        event: Event = read(json.loads(data))
    except (StrictError, RecursionError) as e:
        raise ValueError(f"malformed event {name}: {e}") from None
    return event


@cache
def compile_readers(*, ignore_unknown: bool = False) -> dict[str, Callable[[object], Event]]:
    return {kind.__name__: compile_reader(kind, ignore_unknown=ignore_unknown) for kind in list_kinds()}


def ignore(event: Event) -> None:
    """Record nothing."""
