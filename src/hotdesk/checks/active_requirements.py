"""Requirements of `active-content` for each kind of file, in sentences, with remedies for its findings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from hotdesk.checks.sentences import list_words

_OFFICE = frozenset(
    """
    docx docm dotx dotm doc dot rtf xlsx xlsm xltx xltm xlsb xls xlt pptx pptm potx potm ppsx ppsm ppt pps pot
    odt ott odm ods ots odp otp odg otg fodt fods fodp fodg
    """.split()
)
_MARKUP = frozenset(("html", "htm", "xhtml", "svg", "xml"))
_PROSE = frozenset(("md", "markdown", "mdown", "mkd", "mkdn", "mdwn", "mdx", "qmd", "rmd", "rst", "ipynb"))
_MESSAGES = frozenset(("eml", "mbox", "mht", "mhtml"))
_TABLES = frozenset(("csv", "tsv", "tab"))
UNREAD_ARCHIVES = frozenset(("tar", "gz", "tgz", "bz2", "tbz2", "xz", "txz", "7z", "rar", "zst"))
"""Suffixes of archives that cannot be inspected."""
_ARCHIVES = frozenset(("zip", *UNREAD_ARCHIVES))
_PICTURES = frozenset(("png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff"))
_PARTS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "office": (
        ("macros", "macros"),
        ("dde", "DDE"),
        ("external-links", "linked files or pictures"),
        ("queries", "data connections"),
        ("embedded", "embedded files (other than the workbook of a chart)"),
        ("activex", "form controls"),
    ),
    "pdf": (
        ("scripts", "JavaScript"),
        ("actions", "actions that run by themselves"),
        ("embedded", "attached files"),
        ("forms", "XFA forms"),
    ),
    "markup": (
        ("scripts", "scripts, event handlers, frames"),
        ("external-references", "pictures, styles or fonts loaded from elsewhere"),
        ("entities", "custom XML entities"),
    ),
    "prose": (
        ("scripts", "scripts, event handlers, frames"),
        ("external-references", "pictures loaded from elsewhere, links to anything but web pages and files beside it"),
        ("bidi", "bidirectional control characters"),
    ),
    "message": (
        ("scripts", "scripts, event handlers, frames"),
        ("external-references", "pictures, styles or fonts loaded from elsewhere"),
        ("unreadable", "parts in base64 or quoted-printable"),
    ),
    "table": (),
    "archive": (("programs", "programs, scripts, shortcuts"), ("encrypted", "encrypted members")),
    "picture": (),
    "other": (("programs", "program code"), ("bidi", "bidirectional control characters")),
}
"""Content that each kind of file must not have, with the word by which a brief allows it."""
REMEDIES: Mapping[str, str] = {
    "macros": "Save the file without macros.",
    "xlm": "Remove that sheet or function.",
    "dde": "Remove the link, field or formula.",
    "external-links": (
        "Put the content into the file itself instead of linking it. Let a hyperlink start with https:, http:, mailto: "
        "or tel:, or with # for a place in the file."
    ),
    "queries": "Remove the connection and keep its values.",
    "remote-template": "Save the file without a linked template.",
    "embedded": "Remove the embedded object, or put its content into the file as text or a picture.",
    "activex": "Remove the control.",
    "alternate-content": "Write the content once, the same for every program.",
    "ambiguous-archive": "Write the file again, without duplicate parts and without data before or after it.",
    "polyglot": "Write the file again in the format of its suffix, without data before or after it.",
    "encrypted": "Save the file without a password.",
    "legacy-format": "Save the file in a current format: .docx, .xlsx or .pptx.",
    "scripts": (
        "Remove the script, event handler, script link or frame. In Markdown write code between lines of ``` that "
        "start at the margin, and no HTML outside of it."
    ),
    "actions": "Remove the action.",
    "forms": "Remove the form, or print it to a plain PDF.",
    "external-references": (
        "Embed the resource in the file instead of linking it. Let a link be relative, or start with https:, http:, "
        "mailto:, tel: or #. In Markdown write code between lines of ``` that start at the margin, and no HTML outside "
        "of it."
    ),
    "entities": "Write the text itself instead of an entity, and remove the document type definition.",
    "formulas": "Change the cell so that a spreadsheet treats it as text, or write its value.",
    "programs": "Remove the program, script or shortcut. In an archive use usual suffixes, such as .txt, .csv or .pdf.",
    "bidi": "Remove these characters.",
    "unknown-format": (
        "Save the file in a common format, under the usual suffix of that format. Of archives, only .zip is one."
    ),
    "archive-bomb": "Reduce the unpacked size of the content.",
    "unreadable": (
        "Save the file in the format of its suffix, and open it once to test it. Write parts of a message as 8bit text "
        "in utf-8, or deliver a page (.html) or a PDF."
    ),
}


def find_kind(suffix: str) -> str:
    kinds: dict[str, Collection[str]] = {
        "office": _OFFICE, "markup": _MARKUP, "prose": _PROSE, "message": _MESSAGES, "table": _TABLES,
        "archive": _ARCHIVES, "picture": _PICTURES, "pdf": ("pdf",),
    }  # fmt: skip
    return next((kind for kind, suffixes in kinds.items() if suffix in suffixes), "other")


def describe_active(suffix: str, allow: Collection[str], *, code: bool, opened: bool) -> Iterator[str]:
    """Describe what a file with this suffix must not contain, without what the brief allows or what code may be."""
    kind = find_kind(suffix)
    parts = [text for family, text in _PARTS[kind] if family not in allow]
    if kind == "table" and "formulas" not in allow:
        yield "No cell may start with =, +, - or @, unless it is a number: a spreadsheet would calculate it."
    if suffix in UNREAD_ARCHIVES and "unknown-format" not in allow:
        yield "It must be a zip archive: archives of other formats cannot be inspected."
    if parts and not (code and kind == "other"):
        links = "; a hyperlink to a web page may stay" if kind == "office" else ""
        yield f"It must not contain {list_words(parts, 'or')}{links}."
    if kind in ("office", "pdf") and "encrypted" not in allow:
        yield "It must not need a password."
    if opened:
        program = "a PDF viewer" if kind == "pdf" else "LibreOffice"
        yield f"It must open in {program} without a request to the network or for another file."
