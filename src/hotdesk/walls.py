"""Walls as data: what each can do, how strong it is, and which of them a machine has. Pure, standard library only.

Strength follows from traits, never from a name: a wall that is emulated here may be no stronger than a container.
`desk/wall/registry.py` finds out what this machine has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError

NAMES = ("local", "container", "gvisor", "microvm")
"""Every wall a brief may name; `local` is none, and for tests alone."""
UNWALLED = "local"
_INSTALLABLE = frozenset({"gvisor", "microvm"})
"""Those that `hotdesk setup --wall` installs."""
_UNBUILT = "this version of hotdesk does not support it"


@dataclass(frozen=True, slots=True)
class Traits:
    """The abilities of a wall. Code above the wall asks for a trait, never for the wall's name."""

    kernel: Literal["host", "sentry", "own"]
    """What answers the system calls of programs."""
    is_boundary: bool
    """Whether its makers call it an isolation boundary."""
    can_keep_memory: bool
    """Whether running programs can be copied or hibernated."""
    can_stop_programs: bool
    """Whether single programs can be stopped from outside, as a takeover of the screen needs."""
    can_resize: bool
    """Whether memory and CPUs of a running desk can change."""
    survives_exhaustion: bool
    """Whether running out of memory or processes ends programs and leaves the desk."""
    can_dial: bool
    """Whether the keeper can connect to a port inside. If not, the network stack is the desk's own: its guest connects
    to ports for the owner, and forwards what programs send to the gate."""
    counts_programs: bool
    """Whether the host's kernel counts its programs and their attempts to connect, on which verifying relies."""
    min_share: int = 64
    """CPU shares (of 1024) without which a desk that is kept ready does not start beside busy ones."""
    kernel_threads: int = 0
    """Threads on the host that its own kernel may take beside eight for each program; 0: programs are the host's."""
    kernel_memory: int = 0
    """Bytes of memory on the host that its own kernel and what runs it may take beside the desk's."""
    stage: str = ""
    """The image that its first process runs in, where that is not the desk's: the desk's layers are shown to it as
    files (sterile copies)."""
    start_seconds: float = 15.0
    """How long a guest may take to call its owner."""
    can_equip_spares: bool = True
    """Whether a desk that is kept ready can get root, or a way out, when it is claimed."""
    can_mount_volumes: bool = True
    """Whether volumes of the host can be mounted in its desks."""

    @property
    def strength(self) -> int:
        """Return how much a program has to break to reach the host; more is stronger.

        A wall that its makers do not call a boundary counts no more than a container, whatever kernel it has.
        """
        if not self.is_boundary:
            return 0 if self.kernel == "host" else 1
        return {"host": 1, "sentry": 2, "own": 3}[self.kernel]


@dataclass(frozen=True, slots=True)
class WallProof:
    """A keeper's observation of a desk's wall before it released the desk."""

    wall: str
    kernel: str
    """What answers the system calls of programs: `host`, `sentry` or `own`."""
    is_boundary: bool
    version: str = ""
    """The program that puts the wall up, with its version: `crun 1.14.1`."""
    platform: str = ""
    """How that program runs desks where it has several ways, as `kvm`; empty: it has one."""

    def describe(self) -> str:
        """Write it for people: `gvisor (runsc 20240729, kvm; kernel of its own in user space)`."""
        program = ", ".join(filter(None, (self.version, self.platform)))
        facts = "; ".join(filter(None, (program, describe_kernel(self.kernel, is_boundary=self.is_boundary))))
        return f"{self.wall} ({facts})"


def read_proof(record: Mapping[str, object]) -> WallProof:
    """Read what its keeper proved of a desk's wall from desk.json; of one opened by an earlier version, the name."""
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
    """Those it has here; of one that cannot be used here, those it would usually have."""
    missing: str = ""
    """Why it cannot be used here; empty: it can."""
    remedy: str = ""
    """What makes it usable."""
    program: str = ""
    """The path of the program that puts it up."""
    version: str = ""
    """That program with its version."""
    platform: str = ""
    released: float = 0.0
    """When the program was made, in seconds since 1970; 0: not known."""
    flaws: tuple[str, ...] = ()
    """What this version of the program is known to do wrong, and why a desk is not reached by it or is."""

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
        """Return an available wall. One that is not is refused with the remedy, never replaced by a weaker one."""
        found = self.find(name)
        if not found.is_available:
            raise BriefError(f"{explain_missing(found)}; hotdesk does not fall back to a weaker wall")
        return found

    def get_strength(self, name: str) -> int:
        return self.find(name).traits.strength

    def is_weaker(self, name: str, other: str) -> bool:
        return self.get_strength(name) < self.get_strength(other)

    def choose(self, *required: str) -> str:
        """Return the strongest of some required walls; of equally strong ones the last. Empty names require nothing."""
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
        """Name the strongest available wall; empty where there is none."""
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
        can_keep_memory=False,
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
"""What each wall usually is: by this walls are compared that a machine does not have."""
NOMINAL_CATALOG = WallCatalog({name: WallStatus(name, traits) for name, traits in TRAITS.items()})
"""For comparing alone, where it does not matter what a machine has."""
