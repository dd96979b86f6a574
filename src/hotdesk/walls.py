"""Walls as data: traits, strength, and which of them a machine has. Pure, standard library only.

Strength follows from traits, never from a name: an emulated wall may be no stronger than a container.
`desk/wall/registry.py` determines which walls this machine has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError

NAMES = ("local", "container", "gvisor", "microvm")
"""Every wall that a brief may name. `local` is no wall, and only for tests."""
UNWALLED = "local"
_INSTALLABLE = frozenset({"gvisor", "microvm"})
"""Walls that `hotdesk setup --wall` installs."""
_UNBUILT = "this version of hotdesk does not support it"


@dataclass(frozen=True, slots=True)
class Traits:
    """The abilities of a wall. Code above the wall asks for a trait, never for the wall's name."""

    kernel: Literal["host", "sentry", "own"]
    """The kernel that serves programs' system calls: the host's (`host`), gVisor's (`sentry`) or its own (`own`)."""
    is_boundary: bool
    """Whether the makers of the wall call it an isolation boundary."""
    can_keep_memory: bool
    """Whether running programs can be copied or hibernated."""
    can_stop_programs: bool
    """Whether single programs can be stopped from outside, as a takeover of the screen needs."""
    can_resize: bool
    """Whether memory and CPUs of a running desk can be changed."""
    survives_exhaustion: bool
    """Whether exhausting memory or processes ends programs, but not the desk."""
    can_dial: bool
    """Whether the keeper can connect to a port inside.

    If not, the network stack is the desk's own: its guest connects to ports for the owner, and forwards programs'
    connections to the gate.
    """
    counts_programs: bool
    """Whether the host's kernel counts its programs and their attempts to connect, which verification uses."""
    min_share: int = 64
    """CPU shares (of 1024) that a desk of the pool needs to start beside busy desks."""
    kernel_threads: int = 0
    """Threads that its own kernel may use on the host, beside eight per program; 0: it has no kernel of its own."""
    kernel_memory: int = 0
    """Additional bytes of memory on the host for its own kernel and the program that runs it."""
    stage: str = ""
    """The image that its first process runs in; empty: the desk's own.

    With a stage, the desk's layers are passed to that process as files (sterile copies).
    """
    start_seconds: float = 15.0
    """Seconds a guest may take to connect to its owner."""
    can_equip_spares: bool = True
    """Whether a desk of the pool can get root or a door when it is claimed."""
    can_mount_volumes: bool = True
    """Whether volumes of the host can be mounted in its desks."""

    @property
    def strength(self) -> int:
        """Return how hard it is for a program to reach the host; a higher number is stronger.

        A wall that its makers do not call a boundary counts no more than a container, whatever kernel it has.
        """
        if not self.is_boundary:
            return 0 if self.kernel == "host" else 1
        return {"host": 1, "sentry": 2, "own": 3}[self.kernel]


@dataclass(frozen=True, slots=True)
class WallProof:
    """The wall of a desk, as its keeper proved it before releasing the desk."""

    wall: str
    kernel: str
    """The kernel that serves programs' system calls: `host`, `sentry` or `own`."""
    is_boundary: bool
    version: str = ""
    """The program that implements the wall, with its version, such as `crun 1.14.1`."""
    platform: str = ""
    """That program's execution platform, such as `kvm`; empty: it has only one."""

    def describe(self) -> str:
        """Describe it for people, such as `gvisor (runsc 20240729, kvm; its own kernel in user space)`."""
        program = ", ".join(filter(None, (self.version, self.platform)))
        facts = "; ".join(filter(None, (program, describe_kernel(self.kernel, is_boundary=self.is_boundary))))
        return f"{self.wall} ({facts})"

    def as_json(self) -> dict[str, object]:
        """Return its fields. `dataclasses.asdict` would copy each, for every desk."""
        return {name: getattr(self, name) for name in WallProof.__slots__}


def read_proof(record: Mapping[str, object]) -> WallProof:
    """Return the keeper's proof of a desk's wall from desk.json, or only the name for a desk of an earlier version."""
    proof = record.get("proof")
    if isinstance(proof, dict):
        return WallProof(**proof)
    return WallProof(str(record.get("wall", "")), "", is_boundary=False)


def describe_kernel(kernel: str, *, is_boundary: bool) -> str:
    words = {"host": "the host's kernel", "sentry": "its own kernel in user space", "own": "its own kernel"}
    found = words.get(kernel, "")
    return found if is_boundary or not found else f"{found}, but not an isolation boundary"


@dataclass(frozen=True, slots=True)
class WallStatus:
    """One wall on one machine."""

    name: str
    traits: Traits
    """Its traits here; for an unavailable wall, its usual ones."""
    missing: str = ""
    """Why it is unavailable; empty: it is available."""
    remedy: str = ""
    """How to make it available."""
    program: str = ""
    """The path of the program that implements it."""
    version: str = ""
    """That program with its version."""
    platform: str = ""
    released: float = 0.0
    """Build time of the program, in seconds since the epoch; 0: unknown."""
    flaws: tuple[str, ...] = ()
    """Known defects of this version of the program, and whether they affect desks."""

    @property
    def is_available(self) -> bool:
        return not self.missing

    def prove(self) -> WallProof:
        traits = self.traits
        return WallProof(self.name, traits.kernel, traits.is_boundary, self.version, self.platform)


@dataclass(frozen=True, slots=True)
class WallCatalog:
    """The walls of a machine, available or not."""

    statuses: Mapping[str, WallStatus] = field(default_factory=dict)

    def find(self, name: str) -> WallStatus:
        found = self.statuses.get(name)
        if found is not None:
            return found
        if name not in TRAITS:
            raise BriefError(f"unknown wall {name[:40]!r}; the walls are {', '.join(NAMES[1:])}")
        if name in _INSTALLABLE:
            return WallStatus(name, TRAITS[name], "it is not set up", f"`hotdesk setup --wall {name}` sets it up")
        return WallStatus(
            name, TRAITS[name], "it isolates nothing and is for tests only" if name == UNWALLED else _UNBUILT
        )

    def require(self, name: str) -> WallStatus:
        """Return an available wall; raise `BriefError` with the remedy if it is not. No weaker one replaces it."""
        found = self.find(name)
        if not found.is_available:
            raise BriefError(f"{explain_missing(found)}; hotdesk does not fall back to a weaker wall")
        return found

    def get_strength(self, name: str) -> int:
        return self.find(name).traits.strength

    def is_weaker(self, name: str, other: str) -> bool:
        return self.get_strength(name) < self.get_strength(other)

    def choose(self, *required: str) -> str:
        """Return the strongest of the required walls, the last of equally strong ones; empty names are ignored."""
        chosen = ""
        for name in filter(None, required):
            if not chosen or not self.is_weaker(name, chosen):
                chosen = name
        return chosen

    def list_available(self, least: str = "") -> tuple[str, ...]:
        there = [each for each in self.statuses.values() if each.is_available]
        if least:
            there = [each for each in there if not self.is_weaker(each.name, least)]
        return tuple(each.name for each in sorted(there, key=lambda each: (each.traits.strength, each.name)))

    def find_strongest(self) -> str:
        """Return the strongest available wall, or an empty string if there is none."""
        return max(self.list_available(), key=self.get_strength, default="")


def explain_missing(status: WallStatus) -> str:
    remedy = f"; {status.remedy}" if status.remedy else ""
    return f"the wall {status.name} is not available here: {status.missing}{remedy}"


TRAITS: Mapping[str, Traits] = {
    "local": Traits(
        kernel="host",
        is_boundary=False,
        can_keep_memory=False,
        can_stop_programs=False,
        can_resize=False,
        survives_exhaustion=False,
        can_dial=True,
        counts_programs=False,
    ),
    "container": Traits(
        kernel="host",
        is_boundary=True,
        can_keep_memory=False,
        can_stop_programs=True,
        can_resize=True,
        survives_exhaustion=True,
        can_dial=True,
        counts_programs=True,
    ),
    "gvisor": Traits(
        kernel="sentry",
        is_boundary=True,
        can_keep_memory=True,
        can_stop_programs=False,
        can_resize=False,
        survives_exhaustion=False,
        can_dial=False,
        counts_programs=False,
        kernel_threads=512,
    ),
    "microvm": Traits(
        kernel="own",
        is_boundary=True,
        can_keep_memory=True,
        can_stop_programs=False,
        can_resize=False,
        survives_exhaustion=True,
        can_dial=False,
        counts_programs=False,
        kernel_threads=128,
        kernel_memory=256 << 20,
        stage="vmm",
        start_seconds=60.0,
        can_equip_spares=False,
        can_mount_volumes=False,
    ),
}
"""The usual traits of each wall, for comparing walls that a machine does not have."""


def list_memory_walls() -> str:
    """Return the walls whose desks' memory can be saved, such as `gvisor or microvm`."""
    return " or ".join(name for name, traits in TRAITS.items() if traits.can_keep_memory)


NOMINAL_CATALOG = WallCatalog({name: WallStatus(name, traits) for name, traits in TRAITS.items()})
"""For comparing walls where it does not matter which of them a machine has."""
