"""The brief of one job, read from TOML: goal, inputs, deliverables, where it may go, with which secrets, for how long.

goal = "Compare the invoices with the orders."
inputs = ["invoices"]
egress = ["GET https://erp.example.test/orders/*"]
grants = ["erp-token@erp.example.test bearer"]

[[deliverables]]
path = "report.xlsx"
check = "xlsx"
expect = {rows = 5}
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias

from hotdesk.brief.data import CLOSED, Scope
from hotdesk.brief.wire import MOST_GRANTS, MOST_NAMES, MOST_RULES
from hotdesk.errors import BriefError, printable

FILE = "brief.toml"
LARGEST = 1 << 20
"""Bytes of the largest brief."""
LONGEST_GOAL = 10_000
MOST_FILES = 100
"""Inputs or deliverables of one job."""
MOST_SECONDS = 7 * 86400
NAME_SHAPE = re.compile(r"[a-z][a-z0-9_-]{0,63}")
MODEL_SHAPE = re.compile(r"[a-z]{1,32}:[A-Za-z0-9._/:@-]{1,128}")
Told: TypeAlias = str | Mapping[str, object]
MakeScope: TypeAlias = Callable[[Iterable[Told], Iterable[Told], Mapping[str, str]], Scope]
"""Reads rules, grants and names: the very function the command line has, so that the same words mean the same."""


@dataclass(frozen=True, slots=True)
class Deliverable:
    """One file the job is for."""

    path: str
    """Below the desk's home folder."""
    check: str
    """Which check it must pass."""
    expect: Mapping[str, object] = field(default_factory=dict)
    """What that check shall find; its own business."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a job may use; None: as much as it takes. Its time is the brief's `seconds`."""

    tokens: int | None = None
    """That models read and write, in all."""
    dollars: float | None = None
    """Where a price is known; a model without one stops at the other limits."""
    acts: int | None = None
    """Uses of tools."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large the desk is."""

    cpus: float = 2.0
    memory: int = 2 << 30
    disk: int = 16 << 30


@dataclass(frozen=True, slots=True)
class Models:
    """Who plans, and who takes the steps: names such as `anthropic:MODEL`, each list in the order they are tried."""

    plan: tuple[str, ...] = ()
    act: tuple[str, ...] = ()
    """Empty: whoever plans."""


Approve: TypeAlias = Literal["auto", "plan", "risky", "every"]
"""Who admits a plan: whoever wrote the brief, by writing it; a person; a person where something is at stake; a person,
and each step, too."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is asked, inside which limits."""

    goal: str
    deliverables: tuple[Deliverable, ...]
    folder: Path
    """Where the brief lies, and its inputs with it."""
    digest: str
    """SHA-256 of the brief as it was read."""
    inputs: tuple[str, ...] = ()
    """Files and folders beside the brief, copied into the desk's home folder under the same names."""
    scope: Scope = CLOSED
    image: str = "base"
    seconds: float = 900.0
    """How long it may take, from its first desk to its last."""
    look: str = ""
    """The model that may be shown pictures of the desk's, as `anthropic:MODEL`; empty: none."""
    approve: Approve = "auto"
    """Who admits a plan."""
    tools: tuple[str, ...] = ()
    """Names of tools that may be used, `browser_*` for every one so called; empty: all."""
    wall: str = "container"
    size: Size = Size()
    budget: Budget = Budget()
    models: Models = Models()
    wait: float = 86400.0
    """Seconds a person's answer is waited for; then it is no."""


def read_job(path: Path, make_scope: MakeScope) -> Job:
    """Read the brief at a path, or in a folder; whatever is unknown or cannot be meant is refused."""
    file = path / FILE if path.is_dir() else path
    try:
        with file.open("rb") as source:
            data = source.read(LARGEST + 1)
    except OSError as e:
        raise BriefError(f"the brief {printable(str(file))} cannot be read: {e.strerror}; name it or its folder") from e
    try:
        return parse_job(data, file.absolute().parent, make_scope)
    except ValueError as e:
        raise BriefError(f"{printable(str(file))}{e}") from None


def parse_job(data: bytes, folder: Path, make_scope: MakeScope) -> Job:
    """Read a brief's text; `ValueError` says where and why, and begins with a line or a colon."""
    if len(data) > LARGEST:
        raise ValueError(f": it is larger than {LARGEST >> 20} MiB; a brief says what is wanted, inputs hold the rest")
    try:
        text = data.decode()
        table = tomllib.loads(text)
    except ValueError as e:
        raise ValueError(f": it is not TOML: {e}") from None
    return Reader(text, folder, make_scope).job(table, hashlib.sha256(data).hexdigest())


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads one brief, and knows its lines. What it raises is `ValueError`."""

    text: str
    folder: Path
    make_scope: MakeScope

    def job(self, table: dict[str, Any], digest: str) -> Job:
        """Read the whole."""
        self.known(table, KEYS, "a brief")
        for name in ("goal", "deliverables"):
            if name not in table:
                raise ValueError(f": it has no {name}; write {KEYS[name]}")
        return Job(
            goal=self.goal(table["goal"]),
            deliverables=tuple(self.deliverable(each) for each in self.tables(table, "deliverables")),
            folder=self.folder,
            digest=digest,
            inputs=tuple(self.input(name) for name in self.texts(table, "inputs", MOST_FILES)),
            scope=self.scope(table),
            image=self.name("image", table.get("image", "base"), "base"),
            seconds=self.seconds(table.get("seconds", 900)),
            look=self.look(table.get("look", "")),
            approve=self.approve(table.get("approve", "auto")),
        )

    def wrong(self, key: str, why: str) -> ValueError:
        """Say what is wrong, and on which line."""
        word = re.escape(key)
        found = re.search(rf"""^[ \t]*[\["' \t]*{word}["' \t]*[=\].]""", self.text, re.MULTILINE)
        found = found or re.search(rf"(?<![\w-]){word}(?![\w-])", self.text)
        line = f", line {self.text.count(chr(10), 0, found.end()) + 1}" if found else ""
        return ValueError(f"{line}: {why}")

    def known(self, table: Mapping[str, object], keys: Iterable[str], what: str) -> None:
        """Refuse a key that means nothing: it was meant to."""
        for key in table:
            if key not in keys:
                raise self.wrong(key, f"{what} has no {printable(key[:80])!r}; it has {', '.join(keys)}")

    def goal(self, value: object) -> str:
        """Read what is wanted."""
        if not isinstance(value, str) or not 0 < len(value.strip()) <= LONGEST_GOAL:
            raise self.wrong("goal", f"the goal is no text of at most {LONGEST_GOAL} characters; write {KEYS['goal']}")
        return value.strip()

    def texts(self, table: Mapping[str, object], key: str, most: int) -> list[str]:
        """Read a list of texts."""
        value = table.get(key, [])
        if not isinstance(value, list) or len(value) > most or not all(isinstance(each, str) for each in value):
            raise self.wrong(key, f"{key} is no list of at most {most} texts; write {KEYS[key]}")
        return value

    def tables(self, table: Mapping[str, object], key: str) -> list[dict[str, object]]:
        """Read a list of tables that has at least one."""
        value = table.get(key)
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self.wrong(key, f"{key} is no list of tables; write {KEYS[key]}")
        if not 0 < len(value) <= MOST_FILES:
            raise self.wrong(key, f"{key} are 1 to {MOST_FILES}; write {KEYS[key]}")
        if len({each.get("path") for each in value if isinstance(each.get("path"), str)}) < len(value):
            raise self.wrong(key, f"two {key} have one path, or one has none; give each its own")
        return value

    def deliverable(self, table: dict[str, object]) -> Deliverable:
        """Read one file that is wanted."""
        self.known(table, ("path", "check", "expect"), "a deliverable")
        expect = table.get("expect", {})
        if not isinstance(expect, dict):
            raise self.wrong("expect", "expect is no table of what the check shall find; write expect = {rows = 5}")
        return Deliverable(self.path("path", table.get("path")), self.name("check", table.get("check"), "xlsx"), expect)

    def path(self, key: str, value: object) -> str:
        """Read a path that stays below its folder, and is the same for everybody who sees it."""
        path = PurePosixPath(value) if isinstance(value, str) else PurePosixPath("/")
        if path.is_absolute() or not path.parts or ".." in path.parts or not str(value).isprintable():
            shown = printable(str(value)[:80])
            raise self.wrong(key, f"{shown!r} is no path below a folder; write it like 'out/report.xlsx'")
        return str(path)

    def input(self, name: str) -> str:
        """Read the name of a file or folder that is there."""
        path = self.path("inputs", name)
        if not (self.folder / path).exists():
            raise self.wrong("inputs", f"the input {path!r} is not there; it must lie beside the brief")
        return path

    def scope(self, table: Mapping[str, object]) -> Scope:
        """Read where the job may go, and as whom; a brief that says nothing of it reaches nothing."""
        rules, grants = self.told(table, "egress", MOST_RULES), self.told(table, "grants", MOST_GRANTS)
        names: Any = table.get("names", {})
        told = list(names.values()) if isinstance(names, dict) else [None]
        if len(told) > MOST_NAMES or not all(isinstance(each, str) for each in told):
            raise self.wrong("names", f"names is no table of at most {MOST_NAMES}; write {KEYS['names']}")
        if not rules and not grants and not names:
            return CLOSED
        try:
            return self.make_scope(rules, grants, names)
        except BriefError as e:
            lines = [text for text in (*rules, *grants) if isinstance(text, str) and text[:80] in str(e)]
            leads = ["names" for name, upstream in names.items() if f"{name}={upstream}"[:80] in str(e)]
            raise self.wrong([*lines, *leads, "egress"][0], str(e)) from None

    def told(self, table: Mapping[str, object], key: str, most: int) -> list[Told]:
        """Read a list of lines and tables."""
        value = table.get(key, [])
        if not isinstance(value, list) or len(value) > most or not all(isinstance(each, str | dict) for each in value):
            raise self.wrong(key, f"{key} is no list of at most {most} lines or tables; write {KEYS[key]}")
        return value

    def name(self, key: str, value: object, example: str) -> str:
        """Read the name of an image or a check."""
        if not isinstance(value, str) or not NAME_SHAPE.fullmatch(value):
            raise self.wrong(key, f'{key} is no name of small letters, digits, `_` and `-`; write {key} = "{example}"')
        return value

    def seconds(self, value: object) -> float:
        """Read how long it may take."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= MOST_SECONDS:
            raise self.wrong("seconds", f"seconds is no number from 1 to {MOST_SECONDS}; write {KEYS['seconds']}")
        return float(value)

    def look(self, value: object) -> str:
        """Read which model may be shown pictures."""
        if not isinstance(value, str) or not (value == "" or MODEL_SHAPE.fullmatch(value)):
            raise self.wrong("look", f"look names no model; write {KEYS['look']}")
        return value

    def approve(self, value: object) -> Approve:
        """Read who admits the plan."""
        if value != "auto":
            raise self.wrong("approve", 'the only way to approve is "auto": this brief admits its own plan')
        return "auto"


KEYS = {
    "goal": 'goal = "Compare the invoices with the orders."',
    "inputs": 'inputs = ["invoices"]',
    "deliverables": '[[deliverables]] and below it path = "report.xlsx" and check = "xlsx"',
    "egress": 'egress = ["GET https://erp.example.test/orders/*"]',
    "grants": 'grants = ["erp-token@erp.example.test bearer"]',
    "names": 'names = {"erp.example.test" = "127.0.0.1:8443"}',
    "image": 'image = "base"',
    "seconds": "seconds = 900",
    "look": 'look = "anthropic:MODEL"',
    "approve": 'approve = "auto"',
}
"""What a brief has, and how each is written."""
