"""The check of slides: each is rendered and complete, text fits its shapes, and charts match their workbooks."""

from __future__ import annotations

from typing import ClassVar

from hotdesk.checks.pages.check import PagesCheck


class PptxCheck(PagesCheck):
    """Expectations of a deck of slides."""

    __slots__ = ()
    kind: ClassVar[str] = "a deck of slides"
    word: ClassVar[str] = "slide"
    foot: ClassVar[float] = 0.85
    program: ClassVar[str] = "pptx_look"
    needs: ClassVar[tuple[str, ...]] = ("office", "drawn_look", "ooxml_look", "printed_look")
    unseen: ClassVar[tuple[str, ...]] = (
        "line breaks and shrinking of text in programs other than LibreOffice",
        "notes, animations, sound and film",
        "decoration beyond a slide",
        "rotated text",
    )
