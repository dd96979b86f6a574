"""The check for active content, which every file must pass in addition to the brief's own checks."""

from __future__ import annotations

from collections.abc import Mapping

from hotdesk.checks.active_requirements import REMEDIES, describe_active
from hotdesk.checks.batch import LookRequest
from hotdesk.checks.evidence import (
    OFFICE_PROCESSES,
    RESIDENT,
    limit_faults,
    look,
    make_unreadable_verdict,
    read_json,
    read_number,
    read_text,
)
from hotdesk.checks.malformed import MalformedReportError
from hotdesk.checks.seam import Evidence, Fault, Value, Verdict
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.errors import BriefError, make_printable

NAME = "active-content"
NEEDS = (
    "active_found",
    "active_kinds",
    "active_links",
    "active_markup",
    "active_office",
    "active_pdf",
    "active_prose",
    "active_text",
    "active_zip",
    RESIDENT,
)
OFFICE_NEEDS = (
    "office_look",
    "opening",
    "office",
    "sheet_look",
    "xlsx_look",
    "xlsx_colours",
    "xlsx_raw",
    "xlsx_sources",
)
"""Modules that the resident program of an office desk imports in addition."""
STAYS = "office_look"
LOOK_TIMEOUT_S = 120.0
FAMILIES: Mapping[str, str] = {
    "macros": "no VBA or Basic macros, and no event that starts them",
    "xlm": "no Excel 4 macro sheet, and no function that runs a program",
    "dde": "no DDE: link, field or formula",
    "external-links": "no links except hyperlinks: no other workbook, picture, field or object from outside the file",
    "queries": "no data connection, Power Query or data model",
    "remote-template": "no linked template",
    "embedded": "no OLE object, embedded file or document except a clean workbook",
    "activex": "no ActiveX or form control",
    "alternate-content": "the same text and parts for every program that opens the file",
    "ambiguous-archive": "an archive with every member once, at its position, under a plain name, and no other data",
    "polyglot": "a file of one format, without data before or after it",
    "encrypted": "nothing encrypted",
    "legacy-format": "no legacy format, in which macros cannot be ruled out",
    "scripts": "no script, event handler, script link or frame",
    "actions": "no PDF action that starts a program, sends or reads data, or runs by itself",
    "forms": "no XFA form",
    "external-references": "no external resources",
    "entities": "no custom entity or document type definition",
    "formulas": "no table cell that a spreadsheet would calculate",
    "programs": "no program, script or shortcut, and in an archive only names of files that a desktop does not start",
    "bidi": "no bidirectional control characters",
    "unknown-format": "a format that can be inspected",
}
"""Kinds of active content, each with what is required of a file. A brief can allow each of them."""
ALWAYS: Mapping[str, str] = {
    "archive-bomb": "no content that unpacks to far more than its size",
    "unreadable": "only content that can be inspected",
}
"""Kinds that no brief can allow, because nothing is known about content that was not inspected."""
LOOKED_FOR = (*FAMILIES, *ALWAYS)
_MOST_REQUESTS = 50
"""Maximum requests of an opened file that are read."""
EXAMPLE = 'active = ["macros"]'
FIELDS = ("allow", "code", "open", "draw")
REACHING = frozenset(
    {
        "macros", "xlm", "dde", "external-links", "queries", "remote-template", "embedded", "activex", "legacy-format",
        "scripts", "actions", "forms", "external-references",
    }
)  # fmt: skip
"""Kinds of content that may make requests when the file is opened. A file that may have one may make them."""
_CODE = "The file may be a program. It must be a single file that can be inspected."
_NOT_OPENED = "the behaviour of the file when a program opens it: it was inspected, not opened"


@dataclass(frozen=True, slots=True)
class ActiveCheck:
    """The active content that a file may have."""

    allow: tuple[str, ...] = ()
    """Kinds that the brief allows."""
    code: bool = False
    """Whether the file may be a program."""
    open: bool = False
    """Whether the file is also opened, in an office suite or a PDF viewer."""
    draw: bool = False
    """Whether its pages are then rendered, because no other check does so."""

    @classmethod
    def from_expect(cls, expect: Mapping[str, object]) -> ActiveCheck:
        allow, *flags = (expect.get("allow", []), *(expect.get(key, False) for key in FIELDS[1:]))
        if set(expect) - set(FIELDS) or not isinstance(allow, list) or not all(type(each) is bool for each in flags):
            raise BriefError(
                f"the check {NAME} takes no options in expect; to allow active content, write {EXAMPLE} in the "
                "deliverable"
            )
        for each in allow:
            if not isinstance(each, str) or each not in FAMILIES:
                families = ", ".join(FAMILIES)
                raise BriefError(
                    f"{make_printable(str(each)[:80])!r} is not a kind of active content; write {EXAMPLE}; the kinds "
                    f"are {families}"
                )
        return cls(tuple(allow), *map(bool, flags))

    @property
    def image(self) -> str:
        """The smallest image, which has Python; an opened file needs the office image."""
        return "office" if self.open else "base"

    @property
    def alone(self) -> bool:
        return False

    @property
    def stays(self) -> int:
        return OFFICE_PROCESSES if self.open else 0

    @property
    def beside(self) -> tuple[str, ...]:
        return ()

    @property
    def not_checked(self) -> tuple[str, ...]:
        named = [f"{each}, allowed by the brief" for each in self.allow]
        unopened = () if self.open else (_NOT_OPENED,)
        return (
            *named,
            *unopened,
            "vulnerabilities of the programs that open the file, and the targets of its hyperlinks",
        )

    @property
    def requirements(self) -> tuple[str, ...]:
        """The requirements for a file of any kind; `required.py` describes those for the deliverable's own kind."""
        return tuple(describe_active("", self.allow, code=self.code, opened=self.open)) or (_CODE,)

    def ask_look(self, path: str, beside: str) -> LookRequest | None:
        """Inspect it in a batch with other files, unless it is opened."""
        return None if self.open else LookRequest("active_look", self.write_request(path), NEEDS)

    def write_request(self, path: str) -> dict[str, object]:
        links = not REACHING & set(self.allow)
        return {"path": path, "code": self.code, "open": self.open, "links": links, "draw": self.draw}

    async def gather(self, desk: Desk, path: str) -> Evidence:
        """Analyse the file with the desk's own Python; an opened file has its links updated, but runs no macros."""
        request = self.write_request(path)
        if not self.open:
            return await look(desk, "active_look", request, needs=NEEDS)
        needs = (*NEEDS, *OFFICE_NEEDS)
        return await look(desk, "active_look", request, seconds=LOOK_TIMEOUT_S, needs=needs, stays=STAYS)

    def judge(self, evidence: Evidence) -> Verdict:
        try:
            findings = ActiveFindings.read(evidence.report, opened=self.open)
        except (ValueError, RecursionError) as e:
            return make_unreadable_verdict(LOOKED_FOR, "a file that can be inspected", e, REMEDIES["unreadable"])
        bad = [each for each in findings.found if each.rule not in self.allow]
        let_be = sorted({each.rule for each in findings.found} & set(self.allow))
        values: dict[str, Value] = {"kind": findings.kind, "bytes": findings.size, "parts": findings.parts}
        if self.open:
            values["opened by"] = findings.opener
        if self.allow:
            values["allowed by the brief"] = ", ".join(self.allow)
            values["allowed and found"] = ", ".join(let_be) or "nothing"
        facts = [f"{findings.kind}: {len(LOOKED_FOR) - len(self.allow)} kinds of active content looked for, none found"]
        if self.open:
            facts.append(f"opened by {findings.opener}: the file requested nothing from outside")
        faults, more = limit_faults(bad, REMEDIES)
        return Verdict(LOOKED_FOR, faults, tuple(facts), values, findings.tools, more=more)


@dataclass(frozen=True, slots=True)
class ActiveFindings:
    """The desk's report, parsed strictly."""

    kind: str
    size: int
    parts: int
    found: tuple[Fault, ...]
    tools: Mapping[str, str]
    opener: str = ""
    """The program that opened the file."""

    @classmethod
    def read(cls, report: bytes, *, opened: bool = False) -> ActiveFindings:
        """Parse a report; raise `ValueError` if it is malformed, or lacks the opening although one was requested."""
        match read_json(report):
            case {"unreadable": str(why)}:
                raise ValueError(f"the file cannot be inspected: {make_printable(why[:200])}")
            case {"kind": kind, "bytes": size, "parts": parts, "count": count, "found": list(found), **more}:
                faults = tuple(map(_read_fault, found))
                if read_number(count) < len(faults) or (read_number(count) and not faults):
                    raise MalformedReportError("the counts do not match the findings")
                opener, requests = _read_opened(more.get("opened")) if opened else ("", ())
                tools = more.get("tools")
                named = tools if isinstance(tools, dict) and len(tools) < 9 else {}
                versions = {read_text(key, 40): read_text(value, 40) for key, value in named.items()}
                sizes = int(read_number(size)), int(read_number(parts))
                return cls(read_text(kind, 40), *sizes, (*faults, *requests), versions, opener)
            case _:
                raise MalformedReportError


def _read_fault(thing: object) -> Fault:
    match thing:
        case [str(family), where, what] if family in LOOKED_FOR:
            return Fault(family, read_text(where, 200), {**FAMILIES, **ALWAYS}[family], read_text(what, 200))
        case _:
            raise MalformedReportError("unknown kind of active content")


def _read_opened(thing: object) -> tuple[str, tuple[Fault, ...]]:
    """Read the program that opened a file and the file's requests. A file that could not be opened gets a fault."""
    match thing:
        case {"by": by, "requests": list(requests), "why": ""} if len(requests) <= _MOST_REQUESTS:
            return read_text(by, 40), tuple(_read_request(each) for each in requests)
        case {"by": by, "why": str(why)}:
            opener = read_text(by, 40)
            found = f"a file that {opener} cannot open: {make_printable(why[:160])}"
            return opener, (Fault("unreadable", "", ALWAYS["unreadable"], found),)
        case _:
            raise MalformedReportError("the record of opening the file is invalid")


def _read_request(thing: object) -> Fault:
    match thing:
        case [str(what), target]:
            family = "actions" if what.startswith("an action") else "external-links"
            found = f"{read_text(what, 80)}: {read_text(target, 120)}"
            return Fault(family, "when the file is opened", FAMILIES[family], found)
        case _:
            raise MalformedReportError("invalid request of the opened file")
