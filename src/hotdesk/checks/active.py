"""Does a file only say something, or also do something: always looked for, whatever else a brief asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hotdesk.checks.evidence import RESIDENT, look, read_json, told_number, told_text, unreadable
from hotdesk.checks.seam import Evidence, Fault, Value, Verdict
from hotdesk.desk.seam import Desk
from hotdesk.errors import BriefError, printable

NAME = "active-content"
NEEDS = ("active_found", "active_zip", "active_office", "active_pdf", "active_text", RESIDENT)
FAMILIES: Mapping[str, str] = {
    "macros": "no VBA or Basic, and no event that starts them",
    "xlm": "no sheet of Excel 4 macros, and no function that runs something",
    "dde": "no DDE: link, field or formula",
    "external-links": "no link but to a page: no other workbook, picture, field or object from elsewhere",
    "queries": "no connection, Power Query or data model",
    "remote-template": "no template from elsewhere",
    "embedded": "no OLE object, embedded file or document but a clean workbook",
    "activex": "no ActiveX or form control",
    "alternate-content": "the same words and parts for every program that opens it",
    "ambiguous-archive": "every member once, in its place, by a plain name, and nothing around them",
    "polyglot": "one file and nothing before or behind it",
    "encrypted": "nothing that needs a password",
    "legacy-format": "no old format, in which macros cannot be ruled out",
    "scripts": "no script, handler, script link or page in a page",
    "actions": "nothing in a PDF that starts, sends, reads or acts by itself",
    "forms": "no XFA form",
    "external-references": "nothing that a page fetches from elsewhere",
    "entities": "no entity or definition of its own",
    "formulas": "no cell of a table that a spreadsheet calculates",
    "programs": "no program, script or shortcut",
    "bidi": "no letters that turn a line around",
    "unknown-format": "a format that can be looked into",
}
"""What is looked for, and what must be so. A brief can name each, and it is let be."""
ALWAYS: Mapping[str, str] = {
    "archive-bomb": "nothing far larger than it looks",
    "unreadable": "nothing that cannot be looked into",
}
"""What no brief can name: what was not looked into is not known to be anything."""
LOOKED_FOR = (*FAMILIES, *ALWAYS)
MOST_FAULTS = 20
EXAMPLE = 'active = ["macros"]'


@dataclass(frozen=True, slots=True)
class ActiveCheck:
    """What a file may do beyond being read."""

    allow: tuple[str, ...] = ()
    """Families that the brief names."""
    code: bool = False
    """Whether it is a program, and may be one."""

    @classmethod
    def expecting(cls, expect: Mapping[str, object]) -> ActiveCheck:
        """Read what a brief allows."""
        allow, code = expect.get("allow", []), expect.get("code", False)
        if set(expect) - {"allow", "code"} or not isinstance(allow, list) or not isinstance(code, bool):
            raise BriefError(f"{NAME} is told what a file may do by its deliverable; write {EXAMPLE}")
        for each in allow:
            if not isinstance(each, str) or each not in FAMILIES:
                known = ", ".join(FAMILIES)
                raise BriefError(f"active cannot be {printable(str(each)[:80])!r}; write {EXAMPLE}, of {known}")
        return cls(tuple(allow), code)

    @property
    def image(self) -> str:
        """Look in a desk of the smallest image: Python is enough."""
        return "base"

    @property
    def alone(self) -> bool:
        """Open it beside others of its job."""
        return False

    @property
    def beside(self) -> tuple[str, ...]:
        """Need nothing else."""
        return ()

    @property
    def not_checked(self) -> tuple[str, ...]:
        """Say what nobody looked at."""
        named = [f"{each}: the brief allows it" for each in self.allow]
        return (*named, "faults of the programs that open it, and what a link leads to once it is clicked")

    async def gather(self, desk: Desk, path: str) -> Evidence:
        """Have the desk's own Python take it apart."""
        return await look(desk, "active_look", {"path": path, "code": self.code}, needs=NEEDS)

    def judge(self, evidence: Evidence) -> Verdict:
        """Judge what was found."""
        try:
            told = Told.read(evidence.told)
        except (ValueError, RecursionError) as e:
            return unreadable(LOOKED_FOR, "a file that can be looked into", e)
        bad = [each for each in told.found if each.rule not in self.allow]
        let_be = sorted({each.rule for each in told.found} & set(self.allow))
        values: dict[str, Value] = {"kind": told.kind, "bytes": told.size, "parts": told.parts}
        if self.allow:
            values["allowed by the brief"] = ", ".join(self.allow)
            values["found of it"] = ", ".join(let_be) or "nothing"
        held = (f"{told.kind}: {len(LOOKED_FOR) - len(self.allow)} kinds of active content looked for, none found",)
        return Verdict(LOOKED_FOR, tuple(bad[:MOST_FAULTS]), held, values, told.tools)


@dataclass(frozen=True, slots=True)
class Told:
    """What the desk said, read strictly."""

    kind: str
    size: int
    parts: int
    found: tuple[Fault, ...]
    tools: Mapping[str, str]

    @classmethod
    def read(cls, told: bytes) -> Told:
        """Read it; `ValueError` for what makes no sense."""
        match read_json(told):
            case {"unreadable": str(why)}:
                raise ValueError(f"it cannot be looked into: {printable(why[:200])}")
            case {"kind": kind, "bytes": size, "parts": parts, "count": count, "found": list(found), "tools": tools}:
                faults = tuple(map(fault_of, found))
                if told_number(count) < len(faults) or (told_number(count) and not faults):
                    raise ValueError("what was found is not what was counted")
                named = tools if isinstance(tools, dict) and len(tools) < 9 else {}
                versions = {told_text(key, 40): told_text(value, 40) for key, value in named.items()}
                return cls(told_text(kind, 40), int(told_number(size)), int(told_number(parts)), faults, versions)
            case _:
                raise ValueError("what was seen of it makes no sense")


def fault_of(thing: object) -> Fault:
    """Read one finding."""
    match thing:
        case [str(family), where, what] if family in LOOKED_FOR:
            return Fault(family, told_text(where, 200), {**FAMILIES, **ALWAYS}[family], told_text(what, 200))
        case _:
            raise ValueError("what was found is nothing that was looked for")
