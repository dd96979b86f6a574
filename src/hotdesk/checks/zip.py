"""The check of an archive: it unpacks, and has the required content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import chain
from pathlib import PurePosixPath
from typing import ClassVar

from hotdesk.checks.evidence import limit_faults, look, make_unreadable_verdict, read_json, read_number, read_text
from hotdesk.checks.expectations import Count, Counts, Texts, read_expectations
from hotdesk.checks.malformed import MalformedReportError
from hotdesk.checks.seam import Evidence, Fault, Verdict
from hotdesk.checks.sentences import list_words, show, show_count
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.errors import make_printable

EXAMPLE = '{members = ["report.csv"], only = true, sizes = {"report.csv" = {min = 1}}}'
LOOKED_FOR = ("opens", "members", "count", "sizes", "names", "whole")
REMEDIES: Mapping[str, str] = {
    "opens": "Make the archive with `zip` or Python's zipfile, with at least one file in it.",
    "members": "Pack exactly the required files, under these names.",
    "count": "Pack the required number of files.",
    "sizes": "Correct the size of this file, and pack it again.",
    "names": "Pack only regular files, each name once and relative to the archive.",
    "whole": "Write the archive again: its contents are damaged.",
}
MOST_MEMBERS = 20_000


@dataclass(frozen=True, slots=True)
class Member:
    """One member as reported."""

    name: str
    size: int
    whole: bool
    """Whether its data matches its checksum."""
    kind: str


@dataclass(frozen=True, slots=True)
class ZipCheck:
    """Expectations of an archive."""

    image: ClassVar[str] = "base"
    alone: ClassVar[bool] = False
    beside: ClassVar[tuple[str, ...]] = ()
    members: Texts = ()
    only: bool = False
    """Whether other members are refused."""
    count: Count = None
    sizes: Counts = field(default_factory=dict)

    @classmethod
    def from_expect(cls, expect: Mapping[str, object]) -> ZipCheck:
        return read_expectations(cls, "zip", expect, EXAMPLE)

    @property
    def not_checked(self) -> tuple[str, ...]:
        return ("the content of the members",)

    @property
    def requirements(self) -> tuple[str, ...]:
        return tuple(self.list_requirements())

    def list_requirements(self) -> Iterator[str]:
        yield "It must be a zip archive of regular files: no links, every name unique and relative."
        if self.members:
            alone = " and nothing else" if self.only else ""
            yield f"It must contain {list_words(self.members)}{alone}."
        if self.count is not None:
            yield f"It must contain {show_count(self.count, 'member')}."
        for name, span in self.sizes.items():
            yield f"{show(name)} must have {show_count(span, 'byte')}."

    async def gather(self, desk: Desk, path: str) -> Evidence:
        return await look(desk, "zip_look", {"path": path})

    def judge(self, evidence: Evidence) -> Verdict:
        try:
            members = _read_members(evidence.report)
        except (ValueError, RecursionError) as e:
            return make_unreadable_verdict(LOOKED_FOR, "a zip archive", e, REMEDIES["opens"])
        faults, more = limit_faults(chain(self.find_missing(members), _find_unsound_members(members)), REMEDIES)
        size = sum(each.size for each in members)
        facts = (f"{len(members)} members, {size} bytes, every checksum matches",)
        values = {"members": len(members), "bytes unpacked": size}
        return Verdict(LOOKED_FOR, faults, facts, values, more=more)

    def find_missing(self, members: tuple[Member, ...]) -> Iterator[Fault]:
        there = {each.name: each for each in members}
        for name in self.members:
            if name not in there:
                yield Fault("members", make_printable(name[:200]), "a member of this name", "no such member")
        if self.only:
            for name in sorted(set(there) - set(self.members)):
                yield Fault("members", make_printable(name[:200]), "only the required members", "another member")
        if self.count is not None and len(members) not in self.count:
            yield Fault("count", "", f"{self.count} members", f"{len(members)} members")
        for name, span in self.sizes.items():
            if name not in there or there[name].size not in span:
                size = f"{there[name].size} bytes" if name in there else "no such member"
                yield Fault("sizes", make_printable(name[:200]), f"{span} bytes", size)


def _find_unsound_members(members: tuple[Member, ...]) -> Iterator[Fault]:
    """Find members that are damaged, not regular files, have unsafe names, or have the same name as another."""
    visited: set[str] = set()
    for each in members:
        where = make_printable(each.name[:200])
        if not each.whole:
            yield Fault("whole", where, "bytes that match their checksum", "different bytes")
        if each.kind != "file":
            yield Fault("names", where, "a file", each.kind)
        path = PurePosixPath(each.name)
        if path.is_absolute() or ".." in path.parts or "\\" in each.name or ":" in each.name or not each.name:
            yield Fault("names", where, "a relative name inside the archive", "a name that leads outside the archive")
        if each.name.casefold() in visited:
            yield Fault("names", where, "unique names, regardless of case", "the same name again")
        visited.add(each.name.casefold())


def _read_members(report: bytes) -> tuple[Member, ...]:
    match read_json(report):
        case {"unreadable": str(why)}:
            raise ValueError(f"the file cannot be opened as an archive: {make_printable(why[:200])}")
        case {"members": []}:
            raise ValueError("the archive is empty")
        case {"members": list(members)} if len(members) <= MOST_MEMBERS:
            return tuple(map(_read_member, members))
        case _:
            raise MalformedReportError


def _read_member(record: object) -> Member:
    match record:
        case [str(name), size, bool(whole), str(kind)] if read_number(size) >= 0:
            return Member(name[:1000], int(read_number(size)), whole, read_text(kind, 20))
        case _:
            raise MalformedReportError("invalid member")
