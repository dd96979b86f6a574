"""The check of a Word document: its pages as rendered by LibreOffice, and its pictures, fonts and numbers."""

from __future__ import annotations

from typing import ClassVar

from hotdesk.checks.pages.check import PagesCheck


class DocxCheck(PagesCheck):
    __slots__ = ()
    kind: ClassVar[str] = "a document"
    program: ClassVar[str] = "docx_look"
    needs: ClassVar[tuple[str, ...]] = ("office", "drawn_look", "ooxml_look", "printed_look")
    unseen: ClassVar[tuple[str, ...]] = (
        "line and page breaks in programs other than LibreOffice",
        "comments and tracked changes",
        "rotated text",
    )
