"""Memory across jobs: facts and files in the drive that workers left for later jobs.

    memory/NAME/facts/DIGEST   one fact, a line of text
    memory/NAME/files/FILE     one file

NAME is the memory's name in briefs. The origin of an item is in the journal: the `MemoryKept` event of the job that the
drive records for it. A file put below `memory/` by hand has no job, and is offered to no one. Everything here was
written by a worker that may be under an attacker's control, so sizes and names are limited strictly and the content is
not parsed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from hotdesk.brief.brief import MEMORY
from hotdesk.config import MIB
from hotdesk.dataclass import dataclass
from hotdesk.drive.catalog import Version
from hotdesk.drive.keep import Drive, Intent, tell_nobody
from hotdesk.errors import BriefError, HostError, HotdeskError, make_printable

FACTS_FILE = "facts.md"
"""The file of the facts at a worker's desk."""
MAX_FACTS = 40
MAX_FACT_CHARS = 400
MAX_FILES = 20
MAX_FILE_BYTES = MIB
MAX_BYTES = 8 * MIB
"""Maximum bytes of one memory."""
MAX_AGE_DAYS = 90
MAX_NAME_CHARS = 40
DAY_MS = 86_400_000
_MEMORY_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_FILE_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME_CHARS - 1}}}")
_FACT_NAME = re.compile(r"[0-9a-f]{16}")
MemoryKind: TypeAlias = Literal["fact", "file"]
FOLDERS: dict[MemoryKind, str] = {"fact": "facts", "file": "files"}


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """One fact or file in a memory."""

    memory: str
    kind: MemoryKind
    name: str
    """The name of a file, or the start of a fact's digest."""
    version: Version

    @property
    def reference(self) -> str:
        return f"{self.version.name}@{self.version.number}"


def check_memory_name(name: str) -> str:
    if not _MEMORY_NAME.fullmatch(name):
        raise BriefError(
            f"{make_printable(name[:80])!r} is not the name of a memory (what workers stored for later jobs); "
            "`hotdesk memory ls` lists the names"
        )
    return name


def find_name_fault(name: str) -> str:
    """Return why a file in a memory cannot have this name, or an empty string if it can."""
    if not _FILE_NAME.fullmatch(name):
        return f"use at most {MAX_NAME_CHARS} letters, digits, `.`, `_` and `-`, starting with a letter or digit"
    return f"{FACTS_FILE} is reserved for the list of facts; choose another name" if name == FACTS_FILE else ""


def clean_fact(text: str) -> str:
    return make_printable(" ".join(text.split()))


def name_fact(data: bytes) -> str:
    """Return a fact's name, derived from its text, so that the same fact is stored once."""
    return hashlib.sha256(data).hexdigest()[:16]


def make_drive_name(memory: str, kind: MemoryKind, name: str) -> str:
    return f"{MEMORY}/{memory}/{FOLDERS[kind]}/{name}"


def parse_drive_name(name: str) -> tuple[str, MemoryKind, str] | None:
    """Split a drive name into memory, kind and name; return `None` if no job can have written it."""
    match name.split("/"):
        case [root, memory, "facts", label] if root == MEMORY and _FACT_NAME.fullmatch(label):
            return (memory, "fact", label) if _MEMORY_NAME.fullmatch(memory) else None
        case [root, memory, "files", label] if root == MEMORY and not find_name_fault(label):
            return (memory, "file", label) if _MEMORY_NAME.fullmatch(memory) else None
    return None


class MemoryStore:
    """The memories of one owner."""

    def __init__(self, drive: Drive, owner: str) -> None:
        self.drive, self.owner = drive, owner

    def list_items(self, memory: str = "") -> list[MemoryItem]:
        prefix = f"{MEMORY}/{memory}/" if memory else f"{MEMORY}/"
        versions = self.drive.ls(prefix, who=self.owner)
        found = [
            MemoryItem(*parsed, each)
            for each in versions
            if each.owner == self.owner and each.job and (parsed := parse_drive_name(each.name)) is not None
        ]
        return sorted(found, key=lambda each: (-each.version.at, each.version.name))

    def select_current(self, memory: str, now_ms: int) -> list[MemoryItem]:
        """List the items to offer to a job, the newest first, within the limits of count, bytes and age."""
        counts: dict[MemoryKind, int] = {"fact": 0, "file": 0}
        limits: dict[MemoryKind, int] = {"fact": MAX_FACTS, "file": MAX_FILES}
        size, found = 0, list[MemoryItem]()
        for item in self.list_items(memory):
            is_new = now_ms - item.version.at <= MAX_AGE_DAYS * DAY_MS
            largest = MAX_FILE_BYTES if item.kind == "file" else 4 * MAX_FACT_CHARS
            fits = item.version.size <= largest and size + item.version.size <= MAX_BYTES
            if is_new and fits and counts[item.kind] < limits[item.kind]:
                counts[item.kind] += 1
                size += item.version.size
                found.append(item)
        return found

    def find_item(self, reference: str) -> MemoryItem | None:
        """Return an item that was offered before, or `None` if it is gone."""
        name, _, number = reference.rpartition("@")
        parsed = parse_drive_name(name)
        if parsed is None or not number.isdecimal():
            return None
        try:
            version = self.drive.get_version(name, int(number), who=self.owner, owner=self.owner)
        except BriefError:
            return None
        return MemoryItem(*parsed, version)

    def read(self, item: MemoryItem) -> bytes:
        """Return an item's bytes; raise `HostError` if they were changed."""
        return b"".join(self.drive.blobs.read(item.version.sha256, item.version.size))

    def read_fact(self, item: MemoryItem) -> str:
        """Return the text of a fact, for display; empty for a file, and for a fact whose bytes were changed."""
        try:
            return clean_fact(self.read(item).decode("utf-8", "replace")) if item.kind == "fact" else ""
        except HostError:
            return ""

    def keep(
        self,
        memory: str,
        kind: MemoryKind,
        name: str,
        data: bytes,
        *,
        job: str,
        brief: str,
        intent: Intent = tell_nobody,
    ) -> bool:
        """Store an item as the newest version of its name; return False if this job has already stored it."""
        full = make_drive_name(memory, kind, name)
        sha256 = hashlib.sha256(data).hexdigest()
        mine = [each for each in self.drive.ls(full, who=self.owner) if (each.name, each.owner) == (full, self.owner)]
        if any((each.sha256, each.job) == (sha256, job) for each in mine):
            return False
        self.drive.keep(full, data, owner=self.owner, job=job, brief=brief, intent=intent)
        return True

    def prune(self, memory: str, now_ms: int, note: Callable[[MemoryItem], None]) -> None:
        current = self.select_current(memory, now_ms)
        for item in self.list_items(memory):
            if item not in current:
                self._remove_noted(item, note)
        for item in current:
            for version in self._list_replaced(item):
                self.drive.remove(item.version.name, version.number, who=self.owner, owner=self.owner)

    def _remove_noted(self, item: MemoryItem, note: Callable[[MemoryItem], None]) -> None:
        self.remove_item(item, lambda version: note(item))

    def _list_replaced(self, item: MemoryItem) -> Iterator[Version]:
        history = self.drive.list_history(item.version.name, who=self.owner, owner=self.owner)
        return (each for each in history if each.number < item.version.number)

    def remove_item(self, item: MemoryItem, intent: Intent = tell_nobody) -> None:
        """Remove an item with all its versions. An item that is already gone is no error."""
        try:
            self.drive.remove(item.version.name, who=self.owner, owner=self.owner, intent=intent)
        except HotdeskError:
            if self.find_item(item.reference) is not None:
                raise
