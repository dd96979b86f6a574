"""The requirements of a file with pages, in sentences, and a remedy for each rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hotdesk.checks.pages.expect import SOME, PageExpectations
from hotdesk.checks.sentences import list_numbers, list_words, quote_words, show, show_count

REMEDIES: Mapping[str, str] = {
    "opens": "Save the file in the format of its suffix, and open it once to test it.",
    "drawn": "Write a file whose pages can all be rendered, with fewer pages.",
    "pages": "Add or remove pages until the count is right.",
    "blank": "Remove the page, or add its content.",
    "clipped": "Move the content inside the page, or make it smaller.",
    "overflow": "Shorten the text, make it smaller, or enlarge its shape.",
    "overlap": "Move one of the two texts.",
    "fonts": "Use a font that is installed (`fc-list`), or embed it.",
    "media": "Embed the picture in the file, and check that it is not blank.",
    "charts": "Store the same numbers in the chart as in its workbook.",
    "text": "Write the words as text, not as a picture of text.",
    "words": "Add the expected words to the text.",
    "leftovers": "Replace or delete the template text or placeholder.",
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
    yield "Pictures must be embedded in the file and not blank; charts must have the same numbers as their workbooks."
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
        but = f" except {list_numbers(word, want.no_footer)}" if want.no_footer else ""
        yield f"Every {word}{but} must have a link to one of the sources, or its full address, in {where}."
    yield f"The sources are {list_words(want.sources)}. Every link and address in {where} must lead to one of them."


def _describe_fonts(want: PageExpectations, *, pdf: bool) -> str:
    state = "embedded" if pdf else "installed"
    free = f" ({list_words(want.fonts)} need not be {state})" if want.fonts else ""
    if not pdf:
        return f"Use fonts that are installed here (`fc-list`), or fonts with the same letter widths as those{free}."
    standard = "" if want.embedded else "; the 14 standard fonts of PDF need not be embedded"
    return f"Every font must be embedded{free}{standard}."
