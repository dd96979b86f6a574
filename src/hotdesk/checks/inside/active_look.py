"""Finds active content, and content that programs read differently. Runs inside a clean desk with its own Python.

Files are identified by content, whatever their name. Except for opening files, it needs only the standard library.
Prints JSON.
"""

from __future__ import annotations

import io
import json
import platform
import re
import sys
import zipfile
from importlib import import_module
from pathlib import PurePosixPath

from hotdesk.checks.inside import active_kinds, active_office, active_pdf, active_text, active_zip
from hotdesk.checks.inside.active_found import DEEPEST, Found, TooMuchError

MAX_FILE_BYTES = 80 << 20
"""Maximum bytes of an inspected file."""
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
PNG = b"\x89PNG\r\n\x1a\n"
PROGRAMS = (
    (b"\x7fELF", "a program for Linux"), (b"MZ", "a program for Windows"), (b"L\0\0\0\x01\x14\x02\0", "a shortcut"),
    (b"\xca\xfe\xba\xbe", "a program"), (b"\xcf\xfa\xed\xfe", "a program for macOS"), (b"\0asm", "a program"),
)  # fmt: skip
FONTS = ("odttf", "fntdata", "ttf", "otf", "woff", "woff2")
STARTED = re.compile(
    r"\.(exe|com|bat|cmd|ps1|psm1|vbs|vbe|js|jse|wsf|wsh|hta|scr|lnk|msi|msp|msc|jar|reg|url|desktop|scf|cpl|dll|iqy|oqy"
    r"|slk|pif|rdp|chm|hlp|gadget|appref-ms|application|settingcontent-ms|library-ms|searchconnector-ms|search-ms"
    r"|diagcab|theme|command|terminal|workflow|webloc|fileloc|inetloc|app|appimage|action)[. ]*$",
    re.I,
)
"""Names of files that a desktop starts. For members of an archive, `active_kinds.py` lists names that it does not."""
FLAT = re.compile(r"urn:oasis:names:tc:opendocument|<\?mso-application|schemas-microsoft-com:office:|/xmlPackage\"")
"""Marks of a document that is a single XML file."""
PAGE = re.compile(r"[\s\ufeff]*(?:<!doctype html|<html)", re.I)
STREAMS = (
    ("macros", "_VBA_PROJECT"), ("macros", "Macros"), ("encrypted", "EncryptedPackage"), ("embedded", "Ole10Native"),
    ("embedded", "ObjectPool"), ("embedded", "Equation Native"), ("xlm", "Excel 4.0"),
)  # fmt: skip


class FileInspection:
    """The inspection of one file and its content."""

    def __init__(self, code: bool) -> None:
        self.code = code
        self.found = Found()

    def inspect_file(self, data: bytes, name: str, where: str = "", depth: int = 0, office: bool = False) -> str:
        """Inspect a file by its content, and by what programs take it for because of its name; return its type."""
        suffix = PurePosixPath(name).suffix[1:].lower()
        kind = self.inspect_content(data, suffix, where, depth, office)
        if kind not in ("text", "unknown") and suffix in active_text.OPENED_AS_TEXT:
            self.found.add("polyglot", where, f"content of the type {kind} under a name that ends in .{suffix}")
            active_text.look(data.decode("latin-1"), suffix, self.code, self.found, where)
        elif suffix in active_kinds.OFFICE and (kind == "picture" or (kind == "text" and not _is_rich(data))):
            self.found.add("polyglot", where, f"content of the type {kind} under a name that ends in .{suffix}")
        return kind

    def inspect_content(self, data: bytes, suffix: str, where: str, depth: int, office: bool) -> str:
        if depth > DEEPEST:
            self.found.add("unreadable", where, "a file nested too deeply")
            return "unknown"
        if active_kinds.is_archive(data):
            return self.archive(data, where, depth)
        if data.startswith(OLE):
            self.inspect_legacy(data, where)
            return "legacy office"
        if b"%PDF-" in data[:1024]:
            active_pdf.look(data, self.found, where)
            if zipfile.is_zipfile(io.BytesIO(data)):
                self.found.add("polyglot", where, "an archive inside the PDF")
            return "pdf"
        if self.inspect_program(data, where):
            return "program"
        if self.inspect_picture(data, where):
            return "picture"
        if office and suffix in FONTS:
            return "font"
        text = active_text.decode_text(data)
        if text is None:
            self.found.add("unknown-format", where, "bytes of a format that no check can read")
            return "unknown"
        active_text.look(text, suffix, self.code, self.found, where)
        if FLAT.search(text[:4096]) and not PAGE.match(text):
            self.inspect_flat_document(data, where)
        return "text"

    def inspect_flat_document(self, data: bytes, where: str) -> None:
        if b"tc:opendocument" not in data[:4096].replace(b"\0", b""):
            self.found.add("legacy-format", where, "a legacy single-file document, in which macros cannot be ruled out")
        package = active_office.OfficeParts()
        self.inspect_part("", data, where, package)
        package.judge(self.found, where)

    def inspect_program(self, data: bytes, where: str) -> bool:
        for mark, what in PROGRAMS:
            if data.startswith(mark) and (mark != b"MZ" or b"PE\0\0" in data[:4096] or b"\0" in data[:64]):
                if not self.code:
                    self.found.add("programs", where, what)
                return True
        return False

    def inspect_picture(self, data: bytes, where: str) -> bool:
        if data.startswith(PNG):
            after = _count_bytes_after_png(data)
            if after is None:
                self.found.add("unreadable", where, "a truncated picture")
            elif after:
                self.found.add("polyglot", where, f"{after} bytes after the picture")
            return True
        if not active_kinds.is_picture(data):
            return False
        if data.startswith(b"\xff\xd8\xff") and not data.rstrip(b"\0").endswith(b"\xff\xd9"):
            self.found.add("polyglot", where, "bytes after the picture")
        if data.startswith(b"GIF8") and not data.endswith((b";", b";\0")):
            self.found.add("polyglot", where, "bytes after the picture")
        return True

    def inspect_legacy(self, data: bytes, where: str) -> None:
        """Find active content by the stream names in a legacy document, which is not fully parsed."""
        self.found.add("legacy-format", where, "a legacy document, in which macros cannot be ruled out")
        for family, name in STREAMS:
            if name.encode("utf-16-le") in data or (family == "xlm" and name.encode() in data):
                self.found.add(family, where, f"a legacy document that contains {name}")

    def archive(self, data: bytes, where: str, depth: int) -> str:
        """Inspect an archive: its structure, its names and each member."""
        if not data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            self.found.add("polyglot", where, "bytes before the archive")
        file = active_zip.open_archive(data, self.found, where)
        if file is None:
            return "archive"
        names = file.namelist()
        office = any(name.lower() in ("[content_types].xml", "mimetype") for name in names)
        package = active_office.OfficeParts()
        package.names = frozenset(name.lower() for name in names)
        for name, inside in active_zip.unpack_members(file, self.found, where):
            self.inspect_member(name, inside, where + name, depth, package if office else None)
        package.judge(self.found, where)
        if any(name.lower() == "encryptedpackage" for name in names):
            self.found.add("encrypted", where, "an encrypted document")
        return "office document" if office else "archive"

    def inspect_member(
        self, name: str, data: bytes, where: str, depth: int, package: active_office.OfficeParts | None
    ) -> None:
        """Inspect one member of an archive; `package` is set if that is an office document."""
        office = package is not None
        if not self.code and (STARTED.search(name) or not (office or active_kinds.is_inert_name(name))):
            self.found.add("programs", where, "a file name with the suffix of a program, or with an unknown suffix")
        if active_text.BIDI.search(name):
            self.found.add("bidi", where, "bidirectional control characters in the name")
        if office:
            active_office.inspect_name(name, self.found, where)
        if package is not None and is_part(name, data):
            self.inspect_part(name, data, where, package)
        elif not (office and (not data or re.search(r"printerSettings\d*\.bin$|\.odttf$", name))):
            kind = self.inspect_file(data, name, f"{where}: ", depth + 1, office)
            if office and "/embeddings/" in f"/{name}" and kind != "office document":
                self.found.add("embedded", where, f"an object: {kind}")

    def inspect_part(self, name: str, data: bytes, where: str, package: active_office.OfficeParts) -> None:
        text = active_text.decode_text(data)
        if text is None or re.search(r"<!(ENTITY|DOCTYPE)", text):
            found = ("unreadable", "a part with an unusual or missing text encoding")
            if text is not None:
                found = ("entities", "a custom entity or document type definition")
            self.found.add(found[0], where, found[1])
            return
        active_office.inspect_xml(name, data, self.found, where, package)


def _is_rich(data: bytes) -> bool:
    return data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{\\rt")


def is_part(name: str, data: bytes) -> bool:
    """Return whether a member is an XML part of the document, by its name or content: a part can have any name."""
    suffix = PurePosixPath(name).suffix[1:].lower()
    if suffix in ("xml", "rels", "vml") or suffix in active_text.MARKUP:
        return suffix in ("xml", "rels", "vml")
    text = (active_text.decode_text(data[: 64 << 10]) or "").lstrip("\ufeff \t\r\n")
    return text.startswith("<") and "<!DOCTYPE plist" not in text[:400]


def _count_bytes_after_png(data: bytes) -> int | None:
    """Return the number of bytes after a PNG's end, or `None` if it has no end."""
    at = len(PNG)
    while at + 12 <= len(data):
        size = int.from_bytes(data[at : at + 4])
        kind, at = data[at + 4 : at + 8], at + 12 + size
        if kind == b"IEND" and at <= len(data):
            return len(data) - at
    return None


def look(path: str, code: bool = False) -> dict[str, object]:
    looking, kind = FileInspection(code), "unknown"
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if not data:
            return {"unreadable": "the file is empty"}
        if len(data) > MAX_FILE_BYTES:
            return {"unreadable": f"the file is larger than {MAX_FILE_BYTES >> 20} MiB"}
        if STARTED.search(path) and not code:
            looking.found.add("programs", "", "a file name with the suffix of a program")
        kind = looking.inspect_file(data, path)
    except TooMuchError:
        looking.found.add("archive-bomb", "", "more unpacked data than the limit for one file")
    except Exception as e:  # noqa: BLE001 - whatever a broken file does to the parsers, it is a broken file
        return {"unreadable": f"{type(e).__name__}: {e}"[:200]}
    found = looking.found
    report = {"kind": kind, "bytes": len(data), "parts": found.parts, "count": found.count, "found": found.things}
    return {**report, "tools": {"Python": platform.python_version()}}


def main() -> None:
    request = json.load(sys.stdin)
    report = look(request["path"], request["code"])
    if request["open"]:
        report["opened"] = import_module("opening").trace_opening(
            request["path"], links=request["links"], draw=request["draw"]
        )
    print(json.dumps(report))


if __name__ == "__main__":
    main()
