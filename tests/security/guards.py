"""Which guard stops which attack: decorators that declare it at the attack, and the list `test_guards.py` works from.

A guard that another one covers is removed together with it: no capability is of use to a call the filter refuses. A
guard of the door that its canaries check is removed together with that check. Some removals replace a strict parser
with a lenient one. No removal lets an attack leave this machine or its test's folder: routes lead to loopback, limits
grow a little.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TypeVar

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"

Test = TypeVar("Test", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Removal:
    """One edit that removes a guard or a part of one."""

    file: str
    """The end of a path below src/, long enough to match exactly one file."""
    old: str
    """The text to replace; it must occur exactly once."""
    new: str

    def find(self, source: Path) -> Path:
        found = [path for path in _source_paths() if f"/{path}".endswith(f"/{self.file}")]
        if len(found) != 1:
            raise ValueError(f"{self.file} must mean one file in src/, not {found}")
        return source / found[0]


@cache
def _source_paths() -> tuple[str, ...]:
    return tuple(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.*"))


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard and the attacks it stops."""

    name: str
    removals: tuple[Removal, ...]
    attacks: tuple[str, ...]
    """Tests in this folder; a name without a case in brackets stands for all its cases."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a decorator attaches to an attack."""

    text: str
    """A guard's name, or the reason why there is none."""
    removals: tuple[Removal, ...] | None
    """`None` if there is no guard; empty if another attack lists them."""
    cases: tuple[str, ...] | None
    """The cases concerned; `None` means all of them."""


def falls_without(guard: str, *removals: Removal, cases: str | Iterable[str] | None = None) -> Callable[[Test], Test]:
    """Name a guard without which this attack, or its `cases` (separated by ` | `), succeeds.

    One of a guard's attacks lists the removals; the others give only its name.
    """
    return _attach(Note(guard, removals, _names(cases)))


def no_guard(reason: str, *, cases: str | Iterable[str] | None = None) -> Callable[[Test], Test]:
    """State why no removal lets this attack, or its `cases` (separated by ` | `), succeed."""
    return _attach(Note(reason, None, _names(cases)))


def _names(cases: str | Iterable[str] | None) -> tuple[str, ...] | None:
    if cases is None:
        return None
    return tuple(" ".join(cases.split()).split(" | ") if isinstance(cases, str) else cases)


def _attach(note: Note) -> Callable[[Test], Test]:
    def attach(test: Test) -> Test:
        vars(test)["guard_notes"] = (note, *vars(test).get("guard_notes", ()))
        return test

    return attach


def _noted() -> Iterator[tuple[Note, list[str]]]:
    for file in sorted(HERE.glob("test_*_attacks.py")):
        for name, test in vars(import_module(f"{__package__}.{file.stem}")).items():
            for note in getattr(test, "guard_notes", ()):
                attack = f"{file.name}::{name}"
                yield note, [attack] if note.cases is None else [f"{attack}[{case}]" for case in note.cases]


def collect() -> tuple[tuple[Guard, ...], dict[str, str]]:
    removals: dict[str, tuple[Removal, ...]] = {}
    attacks: dict[str, list[str]] = defaultdict(list)
    reasons: dict[str, str] = {}
    for note, ids in _noted():
        if note.removals is None:
            reasons |= dict.fromkeys(ids, note.text)
            continue
        if note.removals and removals.get(note.text):
            raise ValueError(f"two attacks give removals for the guard {note.text!r}")
        removals[note.text] = note.removals or removals.get(note.text, ())
        attacks[note.text] += ids
    if nowhere := [name for name, removed in removals.items() if not removed]:
        raise ValueError(f"no attack gives removals for {nowhere}")
    return tuple(Guard(name, removals[name], tuple(attacks[name])) for name in removals), reasons


WALLS_UNPROVEN = Removal(
    "container/prove.py",
    "while wrong := list_flaws(pid, uid, capabilities, netns, userns):",
    "while wrong := list[str]():",
)
"""Without it, a desk that lacks a wall is never handed over."""
ALL_CAPABILITIES = (
    WALLS_UNPROVEN,
    Removal(
        "container/bundle.py",
        "build_guest_process(room, uids.USER, [],",
        'build_guest_process(room, uids.USER, [f"CAP_{each}" for each in ALL.split()],',
    ),
    Removal(
        "container/bundle.py",
        '"inheritable": [], "ambient": []',
        '"inheritable": capabilities, "ambient": capabilities',
    ),
    Removal(
        "container/bundle.py",
        'LIMITS = {"NOFILE"',
        'ALL = """CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE\n'
        "NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_CHROOT SYS_PTRACE SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE\n"
        'MKNOD SETFCAP"""\n'
        'LIMITS = {"NOFILE"',
    ),
)
CALLS_ALLOWED = Removal("container/seccomp.py", "refuse(REFUSED, errno.EPERM)", "allow(REFUSED)")
FIRST_PROCESS_SHOWN = Removal(
    "hotdesk_guest/agent.py", "    guest.is_hidden = hide()\n    guest.run()\n", "    guest.run()\n"
)
FIRST_PROCESS_TRACED = Removal(
    "container/seccomp.py", 'refuse("ptrace", errno.EPERM, match_equal(1, 1))', 'allow("ptrace", match_equal(1, 1))'
)
SHORT_WAITS = (
    Removal("linux/cgroup.py", "def kill(self, seconds: float = 5.0)", "def kill(self, seconds: float = 0.3)"),
    Removal("keeper/burn.py", "STUCK_AFTER_S = 5.0", "STUCK_AFTER_S = 0.3"),
)
FIRST_PROCESS_SPARED = (
    *SHORT_WAITS,
    Removal("linux/cgroup.py", "        for pid in sorted(pids):\n", "        for pid in sorted(pids)[1:]:\n"),
)
"""Spares a desk's first process and nothing that could do harm."""
NEVER_THAWED = (*SHORT_WAITS, Removal("linux/cgroup.py", "            self.freeze(False)\n", "            pass\n"))
CANARIES_IGNORED = Removal("door/selftest.py", "    if report.failed:\n", "    if False:\n")
"""Without it, a desk whose canaries get through is never handed over."""
HEADERS_TWICE = Removal(
    "http/framing.py",
    "        if value is not None and len(self._values) != len(self.pairs) and len(self.get_all(name)) > 1:\n",
    "        if False:\n",
)
STATE_SHARED = Removal(
    "api/tenants.py", "        settings = get_settings(self.settings, name)\n", "        settings = self.settings\n"
)
ROUTED_TO_LOOPBACK = Removal(
    "room/room.py",
    "    syscalls.raise_loopback()\n",
    "    syscalls.raise_loopback()\n"
    '    for version in ("-4", "-6"):\n'
    '        argv = ["ip", version, "route", "add", "local", "default", "dev", "lo"]\n'
    '        __import__("subprocess").run(argv)\n',
)
