"""The requirements of a file with pages, in sentences, and a remedy for each rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hotdesk.checks.pages.expect import SOME, PageExpectations
from hotdesk.checks.sentences import list_numbers, list_words, quote_words, show, show_count

REMEDIES: Mapping[str, str] = {
    "opens": "Save it in its own format, and open it once to see that it works.",
    "drawn": "Write a file whose pages can all be rendered, with fewer pages.",
    "pages": "Add or remove pages until the count is right.",
    "blank": "Remove the page, or add its content.",
    "clipped": "Move it onto the page, or make it smaller.",
    "overflow": "Shorten it, make it smaller, or give it more room.",
    "overlap": "Move one of the two.",
    "fonts": "Use a font that is installed (`fc-list`), or embed it.",
    "media": "Put the picture into the file itself, and see that it shows something.",
    "charts": "Give the chart its numbers, the same as in its workbook.",
    "text": "Write it as text, not as a picture of text.",
    "words": "Write these words.",
    "leftovers": "Replace it, or delete it.",
    "garbled": "Write the text again in a font that has these letters.",
    "links": "Correct the link.",
    "title": "Set the title in the file's properties.",
}


def describe_pages(want: PageExpectations, word: str, foot: float, *, pdf: bool) -> Iterator[str]:
    yield from _describe_contents(want, word)
    yield from _describe_sources(want, word, foot)
    but = f", except {list_numbers(word, want.blank)}" if want.blank else ""
    yield f"No {word} may be blank{but}."
    yield f"Text and pictures must be on the {word}, inside their shapes and margins; no text may overlap other text."
    if want.text and want.scanned is not True:
        but = f", except on {list_numbers(word, want.scanned)}" if isinstance(want.scanned, frozenset) else ""
        yield f"Text must be real text that can be selected, not a picture of text{but}."
    yield _describe_fonts(want, pdf=pdf)
    yield "Pictures must be inside the file and show something; charts must have the numbers of their workbook."
    but = f" ({quote_words(want.allow)} may stay)" if want.allow else ""
    yield f"No template text may remain: no Lorem ipsum, TODO, TBD, {{{{name}}}} or empty placeholder{but}."
    yield "No link may lead to a local file or to this machine."


def _describe_contents(want: PageExpectations, word: str) -> Iterator[str]:
    if want.pages != SOME:
        yield f"It must have {show_count(want.pages, word)}."
    if want.words:
        yield f"It must contain these words: {quote_words(want.words)}."
    if want.characters:
        yield f"Every {word} must have at least {want.characters} letters and digits."
    for name, span in (("chart", want.charts), ("picture", want.pictures)):
        if span is not None:
            yield f"It must have {show_count(span, name)}."
    if want.title:
        text = f'"{show(want.title)}"' if isinstance(want.title, str) else "set"
        yield f"The title in the file's properties must be {text}."


def _describe_sources(want: PageExpectations, word: str, foot: float) -> Iterator[str]:
    if not want.sources:
        return
    where = f"the footer (the lowest {1 - foot:.0%} of the {word})"
    if want.footer:
        but = f" but {list_numbers(word, want.no_footer)}" if want.no_footer else ""
        yield f"Every {word}{but} must have in {where} a link to one of the sources, or its address in full."
    yield f"The sources are {list_words(want.sources)}. Every link and address in {where} must lead to one of them."


def _describe_fonts(want: PageExpectations, *, pdf: bool) -> str:
    free = f" ({list_words(want.fonts)} need not be)" if want.fonts else ""
    if not pdf:
        return f"Use fonts that are installed here (`fc-list`), or as wide as one that is{free}."
    standard = "" if want.embedded else "; the 14 standard fonts of PDF need not be"
    return f"Every font must be embedded{free}{standard}."
