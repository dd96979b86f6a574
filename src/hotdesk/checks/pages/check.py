"""What the checks of PDF, documents and slides share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Self

from hotdesk.checks.count_range import many
from hotdesk.checks.evidence import LONGEST, MOST_FAULTS, MOST_PAGES, look, unreadable
from hotdesk.checks.pages.document import DocumentEvidence, read_told
from hotdesk.checks.pages.expect import PageExpectations
from hotdesk.checks.pages.layout import Layout
from hotdesk.checks.pages.parts import DocumentParts, pictures
from hotdesk.checks.pages.pixels import is_blank
from hotdesk.checks.pages.reading import DocumentText
from hotdesk.checks.seam import DrawnPixels, Evidence, Fault, Value, Verdict
from hotdesk.desk.seam import Desk
from hotdesk.errors import printable

WIDEST = 900
"""Pixels of the widest page."""
MOST_SHOWN = 60
MOST_OF_A_RULE = 10
"""Faults that are told of one rule."""
SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class PagesCheck:
    """What a file with pages shall be."""

    want: PageExpectations
    kind: ClassVar[str] = ""
    """What it is, in a sentence."""
    word: ClassVar[str] = "page"
    """What one of its pages is called."""
    foot: ClassVar[float] = 0.88
    """How far down a page its foot begins."""
    program: ClassVar[str] = ""
    needs: ClassVar[tuple[str, ...]] = ()
    unseen: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def expecting(cls, expect: Mapping[str, object]) -> Self:
        """Read what a brief expects; nothing is enough."""
        return cls(PageExpectations.expecting(cls.program.removesuffix("_look"), expect))

    @property
    def image(self) -> str:
        """Look in a desk with an office."""
        return "office"

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
        return ("whether what it says is true", "what pictures show", *self.unseen)

    async def gather(self, desk: Desk, path: str) -> Evidence:
        """Have the desk open the file and draw it."""
        return await look(desk, self.program, {"path": path}, seconds=SECONDS, needs=self.needs)

    def judge(self, evidence: Evidence) -> Verdict:
        """Judge what was seen."""
        rules = self.rules(DocumentEvidence(0, (), "", {}), ())
        try:
            told = read_told(evidence.told, self.kind)
        except (ValueError, RecursionError) as e:
            return unreadable(tuple(rules), self.kind, e)
        pages = evidence.pages if all(page.width <= WIDEST for page in evidence.pages) else ()
        found = [list(islice(each, MOST_OF_A_RULE)) for each in self.rules(told, pages).values()]
        faults = tuple(short(fault) for each in found for fault in each)[:MOST_FAULTS]
        return Verdict(tuple(rules), faults, self.held(told), values(told), told.tools, pages[:MOST_SHOWN])

    def rules(self, told: DocumentEvidence, pages: tuple[DrawnPixels, ...]) -> dict[str, Iterable[Fault]]:
        """Give every rule by its name, with what breaks it."""
        blanks = frozenset(place for place, page in enumerate(pages) if is_blank(page))
        layout = Layout(self.want, told, pages, blanks, self.word)
        reading = DocumentText(self.want, told, blanks, self.word, self.foot)
        parts = DocumentParts(self.want, told, self.word)
        every = {"opens": (), "drawn": drawn(told, pages, self.word), "pages": self.counted(told)}
        every |= {name: getattr(layout, name)() for name in ("blank", "clipped", "overflow", "overlap")}
        every |= {name: getattr(parts, name)() for name in ("fonts", "media", "charts")}
        names = ("text", "words", "leftovers", "garbled", "links", "title")
        return every | {name: getattr(reading, name)() for name in names}

    def counted(self, told: DocumentEvidence) -> Iterator[Fault]:
        """Compare how many pages there are with how many there shall be."""
        if told.count not in self.want.pages:
            yield Fault("pages", "", f"{self.want.pages} {self.word}s", str(told.count))

    def held(self, told: DocumentEvidence) -> tuple[str, ...]:
        """Say what holds, of a file in which everything does."""
        reading = DocumentText(self.want, told, frozenset(), self.word)
        said = [f"{many(told.count, self.word)}, each drawn: nothing blank, cut off, overflowing or overlapping"]
        said += [f"{printable(word)!r} on {self.word} {listed(reading.pages_with(word))}" for word in self.want.words]
        if self.want.sources:
            said.append("every footer link leads to a listed source")
        if told.charts:
            said.append(f"{many(len(told.charts), 'chart')} with their numbers")
        if shown := pictures(told.leaves):
            said.append(f"{many(shown, 'picture')}, told as pictures: what they show is not read")
        return tuple(each[:LONGEST] for each in said)


def drawn(told: DocumentEvidence, pages: tuple[DrawnPixels, ...], word: str) -> Iterator[Fault]:
    """See that there is a picture of every page, and that it has the page's shape."""
    if told.count > MOST_PAGES:
        yield Fault("drawn", "", f"at most {MOST_PAGES} {word}s, so that each can be looked at", str(told.count))
    elif told.count == 0:
        yield Fault("drawn", "", f"a {word}", "none")
    elif not told.count == len(told.leaves) == len(pages):
        yield Fault("drawn", "", f"{told.count} {word}s drawn", f"{len(pages)}")
    for place, (leaf, page) in enumerate(zip(told.leaves, pages, strict=False)):
        if abs(leaf.height / leaf.width - page.height / page.width) > 0.05 * leaf.height / leaf.width + 2 / page.width:
            yield Fault("drawn", f"{word} {place + 1}", "a picture of its shape", f"{page.width} x {page.height}")


def values(told: DocumentEvidence) -> dict[str, Value]:
    """Say what was seen, for a certificate."""
    names = {name for leaf in told.leaves for name, _ in leaf.fonts} | {font.name for font in told.fonts}
    return {
        "pages": told.count,
        "words": sum(len(leaf.text.split()) for leaf in told.leaves),
        "fonts": ", ".join(sorted(names))[:LONGEST],
        "links": sum(len(leaf.links) for leaf in told.leaves),
        "pictures": pictures(told.leaves),
        "charts": len(told.charts),
        "title": told.title,
    }


def short(fault: Fault) -> Fault:
    """Give a fault that can be shown whole."""
    return Fault(fault.rule, fault.where[:200], fault.expected[:200], fault.found[:300])


def listed(pages: list[int]) -> str:
    """Write some page numbers."""
    return ", ".join(map(str, pages[:10])) + (", ..." if len(pages) > 10 else "")
