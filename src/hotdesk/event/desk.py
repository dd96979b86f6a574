"""Events of a desk and its door."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.walls import WallProof

KEEPER = "keeper"
"""Whose word on a wall counts: the actor a journal has for what a keeper says over its own line, or in its outbox."""


@dataclass(frozen=True, slots=True)
class RootAct:
    """A program is about to run as root inside a desk."""

    desk: str
    by: Literal["owner", "sudo"]
    """The requester: the desk's owner, or a program inside that called `sudo`."""
    argv: tuple[str, ...]
    cwd: str
    number: int = 0
    """Which of `sudo`'s acts it is."""


@dataclass(frozen=True, slots=True)
class RootActEnded:
    """A program run by `sudo` ended. The exit code is the guest's word."""

    desk: str
    number: int
    exit_code: int


@dataclass(frozen=True, slots=True)
class Opened:
    """A desk is opened, and what it may reach; one without a scope reaches nothing."""

    desk: str
    scope: str
    """SHA-256 of the scope it was given, as JSON; empty for a desk without one."""
    rules: tuple[str, ...]
    grants: tuple[str, ...]
    """As text: `erp-token@erp.test bearer`. Never a value."""
    by: str = ""
    """Who opened it: a server's key, or a process of this machine."""
    image: str = ""
    wall: str = ""
    """The wall that its keeper proved; empty: this was written before the proof, and `WallProven` follows."""
    kernel: str = ""
    is_boundary: bool = False
    version: str = ""
    platform: str = ""


@dataclass(frozen=True, slots=True)
class WallProven:
    """A keeper proved a desk's wall before releasing the desk. It is never the word of the desk's opener."""

    desk: str
    wall: str
    kernel: str
    """What answers the system calls of programs: `host`, `sentry` or `own`."""
    is_boundary: bool
    """Whether the wall's makers call it an isolation boundary."""
    version: str
    """The program that put it up, with its version."""
    platform: str
    """How that program runs desks where it has several ways; empty: it has one."""


@dataclass(frozen=True, slots=True)
class Rescoped:
    """A desk's egress is about to be replaced; connections through the old one are cut."""

    desk: str
    scope: str
    """SHA-256 of the scope it has from now on, as JSON."""
    rules: tuple[str, ...]
    grants: tuple[str, ...]
    """As text. Never a value."""
    by: str = ""
    """Who wanted it so."""
    allowed: tuple[str, ...] = ()
    """Of the rules: what people let pass beside the scope, all told. A job's next desks have it, too."""


@dataclass(frozen=True, slots=True)
class Proven:
    """The canaries that ran inside before hand-over, and whether each held."""

    desk: str
    held: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Burnt:
    """A desk is gone, and why; its grants with it."""

    desk: str
    why: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request at the door, and what became of it."""

    desk: str
    step: str
    verdict: Literal["allow", "deny", "ask", "broken"]
    """`broken`: it was no request anybody could judge."""
    rule: str
    """The rule that decided, as text; or why none did."""
    method: str
    scheme: str
    host: str
    port: int
    path: str
    """The canonical path; of a query the names only."""
    status: int
    """What the desk was answered; 0: nothing."""
    up: int
    """Bytes sent upstream."""
    down: int
    """Bytes that came back."""
    ms: int
    grants: tuple[str, ...] = ()
    """Which secrets went along, and where: `erp-token in header authorization`. Never a value."""
    note: str = ""
    """Anything else a person should know: why it failed, what was scrubbed."""
    test: bool = False
    """Whether it is of the self-test before hand-over, some of which must be refused. Keys say so;
    the door's word counts only for what ends just after it."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """An act of no honest desk: a placeholder sent where it is not granted, or a secret that came back unasked."""

    desk: str
    what: Literal["placeholder", "leak", "foreign"]
    secret: str
    host: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Revoked:
    """A grant ended before its desk did."""

    desk: str
    grant: str
    why: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A desk asks for more than it has. What `reason` says is the desk's word."""

    desk: str
    id: str
    digest: str
    """Of the exact rule that would be added: what is approved is this, once."""
    rule: str
    method: str
    host: str
    path: str
    seconds: float
    """How long the answer is waited for."""
    reason: str = ""
    size: int = -1
    """Bytes of the body that would be sent; -1: it is no request but a rule; -2: it does not say how many."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a question, and who gave it."""

    desk: str
    id: str
    digest: str
    answer: Literal["approved", "refused", "expired"]
    by: str
    """`uid 0 pid 4711`; empty when time ran out."""


@dataclass(frozen=True, slots=True)
class Used:
    """A worker used a tool at a desk. The arguments are not here: they may hold secrets."""

    desk: str
    tool: str
    outcome: Literal["done", "failed", "refused", "wrong"]
    """`refused`: it may not be used now; `wrong`: nothing ran, for it was asked for what cannot be meant."""
    ms: int
    fallback: str = ""
    """Which way was taken when the first did not lead there."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class TookOver:
    """A person takes the wheel of a desk: its worker is suspended from now on."""

    desk: str
    viewer: int
    """Which of the desk's viewers."""
    by: str
    """`uid 0 pid 4711`."""


@dataclass(frozen=True, slots=True)
class HandedBack:
    """A person handed the wheel back. What they did is theirs, not the worker's; which keys is not written down."""

    desk: str
    viewer: int
    by: str
    """`uid 0 pid 4711`; empty when nobody did it."""
    seconds: float
    clicks: int
    keys: int
    note: str = ""
    """Why, when no one did it."""


DeskEvent: TypeAlias = (
    RootAct
    | RootActEnded
    | Opened
    | WallProven
    | Rescoped
    | Proven
    | Burnt
    | Exchange
    | Alarm
    | Revoked
    | Asked
    | Answered
    | Used
    | TookOver
    | HandedBack
)


def find_proof(event: object) -> WallProof | None:
    if isinstance(event, Opened | WallProven) and event.wall:
        return WallProof(event.wall, event.kernel, event.is_boundary, event.version, event.platform)
    return None
