"""The check of quotations: every claim names a page of a PDF and quotes text on that page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

from hotdesk.brief.brief import locate_input
from hotdesk.checks.batch import LookRequest
from hotdesk.checks.evidence import limit_faults, look, make_unreadable_verdict, read_json, read_number, read_text
from hotdesk.checks.expectations import Place, read_expectations
from hotdesk.checks.malformed import MalformedReportError
from hotdesk.checks.seam import Evidence, Fault, Verdict
from hotdesk.checks.sentences import show
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.strict import Range

EXAMPLE = '{source = "contract.pdf", claims = "clauses", least = 20}'
LOOKED_FOR = ("opens", "claims", "evidence")
MOST_CLAIMS = 1000
_MAX_PAGES = 5000
REMEDIES: Mapping[str, str] = {
    "opens": "Write JSON in UTF-8 with a list of claims, each with a page and a quote.",
    "claims": "Give every claim a page number and a quote of the required length.",
    "evidence": "Quote the words of that page exactly as pdftotext reads them, with single spaces.",
}


@dataclass(frozen=True, slots=True)
class QuotesCheck:
    """The claims of a JSON document about a PDF, each with its source."""

    image: ClassVar[str] = "office"
    alone: ClassVar[bool] = False
    source: Place
    """The PDF: beside the brief, in the drive, or the item of a swarm (`item.pdf`)."""
    claims: str = "claims"
    """Path of the list of claims; each has `page` and `quote`."""
    least: Annotated[int, Range(1, 1000)] = 20
    """Minimum characters of a quotation."""

    @classmethod
    def from_expect(cls, expect: Mapping[str, object]) -> QuotesCheck:
        return read_expectations(cls, "quotes", expect, EXAMPLE)

    @property
    def beside(self) -> tuple[str, ...]:
        """The PDF, which comes from the brief's author and not from the worker."""
        return (self.source,)

    @property
    def not_checked(self) -> tuple[str, ...]:
        return ("whether a claim follows from the words it quotes, and what the rest of the PDF says",)

    @property
    def requirements(self) -> tuple[str, ...]:
        return (
            f"It must have a list `{show(self.claims)}`; every entry has `page`, a number from 1, and `quote`, a text.",
            f"Every quote has at least {self.least} characters and appears word for word on its page of "
            f"{show(self.source)}, as `pdftotext -layout` reads it, with single spaces.",
        )

    def ask_look(self, path: str, beside: str) -> LookRequest:
        source = f"{beside}/{locate_input(self.source)}"
        return LookRequest("quotes_look", {"path": path, "source": source, "claims": self.claims})

    async def gather(self, desk: Desk, path: str) -> Evidence:
        request = self.ask_look(path, "beside")
        return await look(desk, request.program, request.request)

    def judge(self, evidence: Evidence) -> Verdict:
        try:
            pages, quotes = _read_report(evidence.report)
        except (ValueError, RecursionError) as e:
            return make_unreadable_verdict(LOOKED_FOR, "claims about a PDF that can be read", e, REMEDIES["opens"])
        faults, more = limit_faults(self.find_faults(quotes), REMEDIES)
        facts = (f"{len(quotes)} quotes found on their pages of a PDF with {pages} pages",)
        return Verdict(LOOKED_FOR, faults, facts, {"pages": pages, "quotes": len(quotes)}, more=more)

    def find_faults(self, quotes: list[tuple[str, int, int, bool]]) -> Iterator[Fault]:
        if not quotes:
            yield Fault("claims", self.claims, "at least one claim", "none")
        for where, page, length, is_there in quotes:
            if page < 1 or length < self.least:
                found = f"page {page}, a quote of {length} characters"
                yield Fault("claims", where, f"a page and a quote of at least {self.least} characters", found)
            elif not is_there:
                yield Fault("evidence", where, f"a quote from page {page}", "a quote that is not on that page")


def _read_report(report: bytes) -> tuple[int, list[tuple[str, int, int, bool]]]:
    """Parse the report: the number of pages, and each claim's place, page, length and whether it was found."""
    match read_json(report):
        case {"unreadable": str(why)}:
            raise ValueError(f"the claims cannot be compared with the PDF: {read_text(why, 200)}")
        case {"pages": pages, "quotes": list(quotes), **more} if not more and len(quotes) <= MOST_CLAIMS:
            return int(min(read_number(pages), _MAX_PAGES)), [_read_quote(each) for each in quotes]
        case _:
            raise MalformedReportError


def _read_quote(value: object) -> tuple[str, int, int, bool]:
    match value:
        case [str(where), page, length, bool(is_there)]:
            return read_text(where, 100), int(read_number(page)), int(read_number(length)), is_there
        case _:
            raise MalformedReportError("invalid claim")
