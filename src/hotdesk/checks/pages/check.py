"""The common part of the checks of PDFs, documents and slides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import ClassVar, Self

from hotdesk.checks.count_range import format_count
from hotdesk.checks.evidence import (
    MAX_TEXT_CHARS,
    MOST_PAGES,
    OFFICE_PROCESSES,
    limit_faults,
    look,
    make_unreadable_verdict,
)
from hotdesk.checks.pages.document import DocumentEvidence, read_report
from hotdesk.checks.pages.expect import PageExpectations
from hotdesk.checks.pages.layout import Layout
from hotdesk.checks.pages.parts import DocumentParts, count_pictures
from hotdesk.checks.pages.pixels import is_blank
from hotdesk.checks.pages.reading import DocumentText
from hotdesk.checks.pages.requirements import REMEDIES, describe_pages
from hotdesk.checks.seam import DrawnPixels, Evidence, Fault, Value, Verdict
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.errors import make_printable

WIDEST = 900
"""Maximum pixels of a page's width."""
_MOST_SHOWN = 60
_MOST_OF_A_RULE = 100
"""Maximum reported faults of one rule."""
LOOK_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class PagesCheck:
    """Expectations of a file with pages."""

    want: PageExpectations
    kind: ClassVar[str] = ""
    """What the file is, in a sentence."""
    word: ClassVar[str] = "page"
    """Word for one of its pages."""
    foot: ClassVar[float] = 0.88
    """Start of the footer, as a fraction of the page's height."""
    program: ClassVar[str] = ""
    needs: ClassVar[tuple[str, ...]] = ()
    unseen: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_expect(cls, expect: Mapping[str, object]) -> Self:
        """Read a brief's options; none is required."""
        return cls(PageExpectations.from_expect(cls.program.removesuffix("_look"), expect))

    @property
    def image(self) -> str:
        return "office"

    @property
    def alone(self) -> bool:
        return False

    @property
    def stays(self) -> int:
        return OFFICE_PROCESSES if "office" in self.needs else 0

    @property
    def beside(self) -> tuple[str, ...]:
        return ()

    @property
    def not_checked(self) -> tuple[str, ...]:
        return ("the truth of its statements", "the content of pictures", *self.unseen)

    @property
    def requirements(self) -> tuple[str, ...]:
        return tuple(describe_pages(self.want, self.word, self.foot, pdf=self.program == "pdf_look"))

    async def gather(self, desk: Desk, path: str) -> Evidence:
        return await look(desk, self.program, {"path": path}, seconds=LOOK_TIMEOUT_S, needs=self.needs)

    def judge(self, evidence: Evidence) -> Verdict:
        rules = self.apply_rules(DocumentEvidence(0, (), "", {}), ())
        try:
            document = read_report(evidence.report, self.kind)
        except (ValueError, RecursionError) as e:
            return make_unreadable_verdict(tuple(rules), self.kind, e, REMEDIES["opens"])
        pages = evidence.pages if all(page.width <= WIDEST for page in evidence.pages) else ()
        found = [islice(each, _MOST_OF_A_RULE) for each in self.apply_rules(document, pages).values()]
        faults, more = limit_faults((_shorten_fault(fault) for each in found for fault in each), REMEDIES)
        shown = pages[:_MOST_SHOWN]
        return Verdict(
            tuple(rules), faults, self.describe_facts(document), collect_values(document), document.tools, shown, more
        )

    def apply_rules(self, document: DocumentEvidence, pages: tuple[DrawnPixels, ...]) -> dict[str, Iterable[Fault]]:
        blanks = frozenset(place for place, page in enumerate(pages) if is_blank(page))
        layout = Layout(self.want, document, pages, blanks, self.word)
        reading = DocumentText(self.want, document, blanks, self.word, self.foot)
        parts = DocumentParts(self.want, document, self.word)
        every = {
            "opens": (),
            "drawn": _check_page_pictures(document, pages, self.word),
            "pages": self.check_page_count(document),
        }
        every |= {name: getattr(layout, name)() for name in ("blank", "clipped", "overflow", "overlap")}
        every |= {name: getattr(parts, name)() for name in ("fonts", "media", "charts")}
        names = ("text", "words", "leftovers", "garbled", "links", "title")
        return every | {name: getattr(reading, name)() for name in names}

    def check_page_count(self, document: DocumentEvidence) -> Iterator[Fault]:
        if document.count not in self.want.pages:
            yield Fault("pages", "", f"{self.want.pages} {self.word}s", str(document.count))

    def describe_facts(self, document: DocumentEvidence) -> tuple[str, ...]:
        reading = DocumentText(self.want, document, frozenset(), self.word)
        facts = [
            f"{format_count(document.count, self.word)}, each drawn: nothing blank, cut off, overflowing or overlapping"
        ]
        facts += [
            f"{make_printable(word)!r} on {self.word} {_format_page_numbers(reading.list_pages_with(word))}"
            for word in self.want.words
        ]
        if self.want.sources:
            facts.append("every footer link leads to a listed source")
        if document.charts:
            facts.append(f"{format_count(len(document.charts), 'chart')} with numbers")
        if shown := count_pictures(document.leaves):
            facts.append(f"{format_count(shown, 'picture')}, whose content was not read")
        return tuple(each[:MAX_TEXT_CHARS] for each in facts)


def _check_page_pictures(document: DocumentEvidence, pages: tuple[DrawnPixels, ...], word: str) -> Iterator[Fault]:
    if document.count > MOST_PAGES:
        yield Fault("drawn", "", f"at most {MOST_PAGES} {word}s, so that each can be checked", str(document.count))
    elif document.count == 0:
        yield Fault("drawn", "", f"a {word}", "none")
    elif not document.count == len(document.leaves) == len(pages):
        yield Fault("drawn", "", f"{document.count} rendered {word}s", f"{len(pages)}")
    for place, (leaf, page) in enumerate(zip(document.leaves, pages, strict=False)):
        if abs(leaf.height / leaf.width - page.height / page.width) > 0.05 * leaf.height / leaf.width + 2 / page.width:
            yield Fault(
                "drawn",
                f"{word} {place + 1}",
                f"a rendered picture in the proportions of the {word}",
                f"{page.width} x {page.height}",
            )


def collect_values(document: DocumentEvidence) -> dict[str, Value]:
    names = {name for leaf in document.leaves for name, _ in leaf.fonts} | {font.name for font in document.fonts}
    return {
        "pages": document.count,
        "words": sum(len(leaf.text.split()) for leaf in document.leaves),
        "fonts": ", ".join(sorted(names))[:MAX_TEXT_CHARS],
        "links": sum(len(leaf.links) for leaf in document.leaves),
        "pictures": count_pictures(document.leaves),
        "charts": len(document.charts),
        "title": document.title,
    }


def _shorten_fault(fault: Fault) -> Fault:
    return Fault(fault.rule, fault.where[:200], fault.expected[:200], fault.found[:300], fault.remedy)


def _format_page_numbers(pages: list[int]) -> str:
    return ", ".join(map(str, pages[:10])) + (", ..." if len(pages) > 10 else "")
