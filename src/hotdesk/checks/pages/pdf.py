"""The check of a PDF: every page is rendered and complete, text is text, and fonts are embedded."""

from __future__ import annotations

from typing import ClassVar

from hotdesk.checks.pages.check import PagesCheck


class PdfCheck(PagesCheck):
    __slots__ = ()
    kind: ClassVar[str] = "a PDF"
    program: ClassVar[str] = "pdf_look"
    needs: ClassVar[tuple[str, ...]] = ("drawn_look",)
    unseen: ClassVar[tuple[str, ...]] = ("the content of charts", "forms, notes and layers", "rotated text")
