"""Opens a file as a trusting user would, with every link updated, and records what it starts or requests.

Runs inside a clean desk with an office suite. The kernel counts network traffic, which the host reads. This program
reports the rest: targets of PDF actions, and other files that are linked.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import office  # type: ignore[import-not-found]
import pypdfium2  # type: ignore[import-not-found]
import pypdfium2.raw as pdfium  # type: ignore[import-not-found]

MAX_TEXT_CHARS = 200
"""Maximum characters of a reported text."""
MAX_REQUESTS = 50
MAX_PAGES = 200
FULL_UPDATE, NO_UPDATE = 3, 0
"""Modes of LibreOffice for the links of a loaded document."""
OPEN_PAGE = 0
"""Event code of a page that is opened."""
PDF = b"%PDF-"
LINK_LISTS = ("ExternalDocLinks", "SheetLinks", "AreaLinks", "DDELinks")
"""Properties in which a spreadsheet lists its external links, including those to local files."""


def trace_opening(path: str, *, links: bool, draw: bool) -> dict[str, object]:
    """Open a file; report the program, the file's requests, and why it could not be opened."""
    with open(path, "rb") as file:
        is_pdf = PDF in file.read(1024)
    tool = "PDFium" if is_pdf else "LibreOffice"
    try:
        requests = _read_pdf(path) if is_pdf else _read_office(path, links=links, draw=draw)
    except Exception as e:  # noqa: BLE001 - whatever a broken file does to a program, it is a broken file
        return {"by": tool, "requests": [], "why": f"{type(e).__name__}: {e}"[:MAX_TEXT_CHARS]}
    listed = [[what[:MAX_TEXT_CHARS], target[:MAX_TEXT_CHARS]] for what, target in requests]
    return {"by": tool, "requests": listed[:MAX_REQUESTS], "why": ""}


def _read_office(path: str, *, links: bool, draw: bool) -> list[tuple[str, str]]:
    """Load a document, and render it unless a check does so later, because pictures are loaded on rendering."""
    found: list[tuple[str, str]] = []
    with office.open_document(path, UpdateDocMode=FULL_UPDATE if links else NO_UPDATE) as document:
        if links:
            found += _update_links(document)
        if draw:
            with tempfile.TemporaryDirectory() as folder:
                office.as_pdf(document, str(Path(folder, "pages.pdf")))
    return found


def _update_links(document: Any) -> Iterator[tuple[str, str]]:
    """Update a document's links, and yield those it declares."""
    for name in LINK_LISTS:
        for target in list_names(getattr(document, name, None)):
            yield "a link to another document", target
    sections: Any = getattr(document, "TextSections", None)
    for name in list_names(sections):
        if target := sections.getByName(name).FileLink.FileURL:
            yield "a section from another document", target
    if hasattr(document, "updateLinks"):
        document.updateLinks()


def list_names(listed: Any) -> list[str]:
    """Return the names in a container of the office API; number them if it only has a count."""
    if hasattr(listed, "ElementNames"):
        return list(listed.ElementNames)
    return [f"link {place + 1}" for place in range(listed.Count)] if hasattr(listed, "Count") else []


class PdfViewer:
    """A PDF viewer that carries out no actions, and records those that PDFium starts without a click."""

    def __init__(self, path: str) -> None:
        self.requests: list[tuple[str, str]] = []
        self.file = pypdfium2.PdfDocument(path)
        self.calls = pdfium.FPDF_FORMFILLINFO()
        self.calls.version = 2
        self.answer("FFI_DoURIAction", lambda _, target: self.note("an action that opens an address", target))
        self.answer("FFI_ExecuteNamedAction", lambda _, name: self.note("an action that controls the viewer", name))

    def answer(self, name: str, call: Any) -> None:
        kinds = dict(pdfium.FPDF_FORMFILLINFO._fields_)
        setattr(self.calls, name, kinds[name](call))

    def note(self, what: str, target: Any) -> None:
        if len(self.requests) < MAX_REQUESTS:
            self.requests.append((what, decode_text(target)))

    def show(self) -> list[tuple[str, str]]:
        """Open the document and its pages; return the actions that were started."""
        form = pdfium.FPDFDOC_InitFormFillEnvironment(self.file, self.calls)
        if not form:
            raise ValueError("PDFium cannot show the file")
        try:
            pdfium.FORM_DoDocumentJSAction(form)
            pdfium.FORM_DoDocumentOpenAction(form)
            for place in range(min(len(self.file), MAX_PAGES)):
                page = self.file[place]
                pdfium.FORM_OnAfterLoadPage(page, form)
                pdfium.FORM_DoPageAAction(page, form, OPEN_PAGE)
                pdfium.FORM_OnBeforeClosePage(page, form)
                page.close()
        finally:
            pdfium.FPDFDOC_ExitFormFillEnvironment(form)
        return self.requests


def decode_text(target: Any) -> str:
    data = target if isinstance(target, bytes) else ctypes.cast(target, ctypes.c_char_p).value
    return (data or b"").decode("utf-8", "replace")


def _read_pdf(path: str) -> list[tuple[str, str]]:
    return PdfViewer(path).show()
