"""Events of a desk and its door."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.walls import WallProof

KEEPER = "keeper"
"""The actor of a keeper's events, which come over its own connection or its outbox. Only they prove a wall."""


@dataclass(frozen=True, slots=True)
class RootAct:
    """A program is about to run as root inside a desk."""

    desk: str
    by: Literal["owner", "sudo"]
    """The requester: the desk's owner, or a program inside that called `sudo`."""
    argv: tuple[str, ...]
    cwd: str
    number: int = 0
    """Number of the act among those through `sudo`."""


@dataclass(frozen=True, slots=True)
class RootActEnded:
    """A program run by `sudo` ended. The exit code is reported by the guest."""

    desk: str
    number: int
    exit_code: int


@dataclass(frozen=True, slots=True)
class Opened:
    """A desk is opened, with its egress rules and grants. A desk without a scope reaches nothing."""

    desk: str
    scope: str
    """SHA-256 of its scope as JSON; empty for a desk without one."""
    rules: tuple[str, ...]
    grants: tuple[str, ...]
    """Grants as text, such as `erp-token@erp.test bearer`. Never a value."""
    by: str = ""
    """The one who opened it: a server's API key, or a process of this machine."""
    image: str = ""
    wall: str = ""
    """The wall that its keeper proved. Empty: this was written before the proof, and `WallProven` follows."""
    kernel: str = ""
    is_boundary: bool = False
    version: str = ""
    platform: str = ""


@dataclass(frozen=True, slots=True)
class WallProven:
    """A keeper proved a desk's wall before releasing the desk. The desk's opener cannot record it."""

    desk: str
    wall: str
    kernel: str
    """The kernel that serves system calls: the host's (`host`), gVisor's (`sentry`) or its own (`own`)."""
    is_boundary: bool
    """Whether the makers of the wall call it an isolation boundary."""
    version: str
    """The program that implements the wall, with its version."""
    platform: str
    """That program's execution platform. Empty: it has only one."""


@dataclass(frozen=True, slots=True)
class Rescoped:
    """A desk's scope was replaced, or rules were added to it."""

    desk: str
    scope: str
    """SHA-256 of its scope from now on, as JSON."""
    rules: tuple[str, ...]
    grants: tuple[str, ...]
    """Grants as text. Never a value."""
    by: str = ""
    """The one who changed it."""
    allowed: tuple[str, ...] = ()
    """All of the rules that people added to the scope. The job's next desks get them, too."""


@dataclass(frozen=True, slots=True)
class Proven:
    """The canary tests that ran inside before hand-over, by result."""

    desk: str
    held: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Burnt:
    """A desk is gone, with its grants."""

    desk: str
    why: str


@dataclass(frozen=True, slots=True)
class RequestAdmitted:
    """The door is about to send a request outside. It is recorded only where a server requires `sync`.

    An `Exchange` follows; if it does not, the request may have been sent.
    """

    desk: str
    step: str
    rule: str
    method: str
    scheme: str
    host: str
    port: int
    path: str
    """The canonical path, with the names of the query's parameters only."""
    body: int
    """Bytes of its body; -1: unknown, as for a WebSocket or a tunnel."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request at the door, and its outcome."""

    desk: str
    step: str
    verdict: Literal["allow", "deny", "ask", "broken"]
    """The door's decision; `broken` means that the request was invalid."""
    rule: str
    """The rule that decided, as text, or the reason why none did."""
    method: str
    scheme: str
    host: str
    port: int
    path: str
    """The canonical path, with the names of the query's parameters only."""
    status: int
    """Status of the response to the desk; 0: none was sent."""
    up: int
    """Bytes sent upstream."""
    down: int
    """Bytes received from upstream."""
    ms: int
    grants: tuple[str, ...] = ()
    """Secrets that were inserted, and where, such as `erp-token in header authorization`. Never a value."""
    note: str = ""
    """Other details for a person: why it failed, what was scrubbed."""
    test: bool = False
    """Whether it belongs to the self-test before hand-over, some of whose requests must be refused. The keys process
    sets it; the door's statement counts only shortly after the test.
    """
    body: int = 0
    """Bytes sent upstream without the heads of requests: a body, or data of a WebSocket."""

    @property
    def refused(self) -> bool:
        """Whether the door refused it, or it was to be approved by a person and was not."""
        unapproved = self.verdict == "ask" and not self.up and self.status in (0, 403, 429)
        return self.verdict in ("deny", "broken") or unapproved


@dataclass(frozen=True, slots=True)
class Alarm:
    """Suspicious behaviour: a placeholder sent to a host without its grant, or a secret in an unexpected response."""

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
    """A desk asks for more rights. `reason` is the desk's own text."""

    desk: str
    id: str
    digest: str
    """SHA-256 of the exact request. An approval applies to it, once."""
    rule: str
    method: str
    host: str
    path: str
    seconds: float
    """Seconds that the door waits for the answer."""
    reason: str = ""
    size: int = -1
    """Bytes of the request's body; -1: it asks for a rule, not for one request; -2: unknown."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a question, and who gave it."""

    desk: str
    id: str
    digest: str
    answer: Literal["approved", "refused", "expired"]
    by: str
    """Such as `uid 0 pid 4711`; empty if it expired."""


@dataclass(frozen=True, slots=True)
class Used:
    """A worker used a tool at a desk. The arguments are left out, because they may hold secrets."""

    desk: str
    tool: str
    outcome: Literal["done", "failed", "refused", "wrong"]
    """`refused`: the tool may not be used now; `wrong`: nothing ran, because the arguments were invalid."""
    ms: int
    fallback: str = ""
    """The alternative that was used after the first way failed; empty: none."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class TookOver:
    """A person took control of a desk; its worker is suspended from now on."""

    desk: str
    viewer: int
    """Number of the viewer among the desk's viewers."""
    by: str
    """Such as `uid 0 pid 4711`."""


@dataclass(frozen=True, slots=True)
class HandedBack:
    """A person returned control. Their input is counted, but which keys they pressed is not recorded."""

    desk: str
    viewer: int
    by: str
    """Such as `uid 0 pid 4711`; empty if control was returned without a person."""
    seconds: float
    clicks: int
    keys: int
    note: str = ""
    """The reason, if no person returned control."""


DeskEvent: TypeAlias = (
    RootAct
    | RootActEnded
    | Opened
    | WallProven
    | Rescoped
    | Proven
    | Burnt
    | RequestAdmitted
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
