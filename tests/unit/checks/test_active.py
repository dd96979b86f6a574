"""Tests of the scan for active content: each family in a file of its own, and files that have none."""

from __future__ import annotations

import io
import json
import struct
import time
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotdesk.brief.brief import Deliverable, RequiredCheck
from hotdesk.checks import find
from hotdesk.checks.active import ALWAYS, FAMILIES, LOOKED_FOR, ActiveCheck
from hotdesk.checks.inside import active_pdf, active_prose, active_zip
from hotdesk.checks.inside.active_found import Found
from hotdesk.checks.inside.active_look import look
from hotdesk.checks.required import list_checks
from hotdesk.checks.seam import Evidence, Verdict
from hotdesk.errors import BriefError

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPES = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
COMPATIBLE = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
CELLS = "<worksheet><sheetData><row><c><f>SUM(A1:A2)</f><v>3</v></c></row></sheetData></worksheet>"
BIDI = "\u202e"


def packed(members: dict[str, str | bytes] | list[tuple[str, str | bytes]], comment: bytes = b"") -> bytes:
    made = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        warnings.simplefilter("ignore")
        for name, data in members.items() if isinstance(members, dict) else members:
            file.writestr(name, data)
        file.comment = comment
    return made.getvalue()


def office(**parts: str | bytes) -> bytes:
    """Make an office document with these parts; in names, `__` stands for a slash and `_DOT_` for a dot."""
    named = {name.replace("__", "/").replace("_DOT_", "."): data for name, data in parts.items()}
    return packed({"[Content_Types].xml": TYPES, "xl/worksheets/sheet1.xml": CELLS, **named})


def related(kind: str, target: str, mode: str = ' TargetMode="External"') -> bytes:
    one = f'<Relationship Id="r1" Type="{OFFICE}/{kind}" Target="{target}"{mode}/>'
    return office(word___rels__document_DOT_xml_DOT_rels=f"<Relationships>{one}</Relationships>")


def typed(kind: str) -> bytes:
    one = f'<Override PartName="/a.xml" ContentType="{kind}"/>'
    return packed({"[Content_Types].xml": TYPES.replace("/>", f">{one}</Types>"), "a.xml": "<a/>"})


def worded(inside: str) -> bytes:
    return office(word__document_DOT_xml=f"<w:document {WORD} {COMPATIBLE}>{inside}</w:document>")


def formula(text: str) -> bytes:
    return office(xl__worksheets__sheet2_DOT_xml=CELLS.replace("SUM(A1:A2)", text))


def rich_field(inside: str) -> bytes:
    return rb"{\rtf1{\field{\*\fldinst %b}{\fldrslt x}}}" % inside.encode()


def carrier(kind: str) -> bytes:
    return f'<html><a href="data:{kind},x">x</a></html>'.encode()


def saver(names: str) -> bytes:
    return f'<html><a {names} href="data:text/plain,x">x</a></html>'.encode()


def pdf(*objects: str, before: bytes = b"", after: bytes = b"") -> bytes:
    told = "".join(f"{number} 0 obj\n{each}\nendobj\n" for number, each in enumerate(objects, 1))
    return before + f"%PDF-1.7\n{told}trailer\n<< /Root 1 0 R >>\n%%EOF\n".encode("latin-1") + after


def object_stream(text: str, filters: str = "/FlateDecode", end: bytes = b"\n", cut: int = 0) -> bytes:
    """Make a PDF with compressed objects; the last `cut` bytes of the compressed data are damaged."""
    packing = zlib.compressobj()
    inside = packing.compress(f"9 0 {text}".encode()) + packing.flush(zlib.Z_SYNC_FLUSH if cut else zlib.Z_FINISH)
    inside += b"\xff" * cut
    head = f"1 0 obj\n<< /Type /ObjStm /N 1 /First 4 /Filter {filters} /Length {len(inside)} >>\nstream".encode()
    return b"%PDF-1.7\n" + head + end + inside + b"\nendstream\nendobj\n%%EOF\n"


def png(after: bytes = b"") -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0abc")) + chunk(b"IEND", b"") + after


def old(*streams: str) -> bytes:
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512) + b"".join(each.encode("utf-16-le") for each in streams)


def other(words: str, fallback: str) -> bytes:
    choice = f'<mc:Choice Requires="x">{words}</mc:Choice>'
    return worded(f"<mc:AlternateContent>{choice}<mc:Fallback>{fallback}</mc:Fallback></mc:AlternateContent>")


def locked() -> bytes:
    data = bytearray(packed({"a.txt": "x"}))
    data[6] |= 1
    data[data.find(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def hidden() -> bytes:
    one, two = packed({"a.txt": "x"}), packed({"b.txt": "y"})
    return one + two


class Stream(io.BytesIO):
    """A file that cannot be changed behind its end, so that an archive's sizes follow the data."""

    def seekable(self) -> bool:
        return False

    def seek(self, offset: int, whence: int = 0) -> int:
        raise io.UnsupportedOperation

    def tell(self) -> int:
        raise io.UnsupportedOperation


def streamed(*, wide: bool = False) -> bytes:
    made = io.BytesIO() if wide else Stream()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a/", "")
        with file.open("a/ä.txt", "w", force_zip64=wide) as member:
            member.write(b"text " * 99)
    return made.getvalue()


FIELD = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
SPLIT = "<w:r><w:instrText>DDE</w:instrText></w:r><w:r><w:instrText>AUTO c:\\x</w:instrText></w:r>"
CHARTS = office(xl__embeddings__Book_DOT_xlsx=packed({"[Content_Types].xml": TYPES, "xl/a.xml": CELLS}))
FORMULA_BOOK = packed({"[Content_Types].xml": TYPES, "xl/a.xml": CELLS.replace("SUM(A1:A2)", "cmd|'/c calc'!A0")})
LETTERS = {
    "utf-32-le": b"\xff\xfe\0\0", "utf-32-be": b"\0\0\xfe\xff", "utf-16-be": b"\xfe\xff",
    "utf-16-le": b"", "utf_16_be": b""
}  # fmt: skip
OPENS = "application/vnd.ms-excel.sheet.macroEnabled.main+xml"
NAMED = '<a><definedName name="_xlnm.Auto_Open">x</definedName></a>'
MASHUP = '<?xml version="1.0" encoding="utf-16"?><DataMashup xmlns="http://x"/>'
ELSEWHERE = f'<w:t>1</w:t><w:a xmlns:r="{OFFICE}" r:id="r9"/>'
DDE_LINK = '<externalLink><ddeLink ddeService="cmd" ddeTopic="/c calc"/></externalLink>'
TEMPLATE = f'<a><b Type="{OFFICE}/attachedTemplate" Target="http://evil.test/a.dotm" TargetMode="External"/></a>'
COLUMN = "<table><calculatedColumnFormula>cmd|'/c'!A0</calculatedColumnFormula></table>"
OPEN = "<a xmlns:t='urn:t'><c t:formula='of:=DDE(&quot;cmd&quot;;&quot;/c&quot;)'/></a>"
MARKS = {"a bitmap": b"BM", "a sound": b"RIFF", "a PDF": b"%PDF-1.4", "a photo": b"\xff\xd8\xff", "a GIF": b"GIF89a"}
LINKS = {
    "in hexadecimal": "<66696c653a2f2f2f61>", "in octal": r"(\146ile:///a)", "after a space": "( file:///a)",
    "elsewhere": "2 0 R", "nowhere": "9 0 R",
}  # fmt: skip
PLIST = '<?xml version="1.0"?>\n<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "x"><plist/>'
SHARE = r'<w:instrText>HYPERLINK "\\\\a\\b"</w:instrText>'
DIGITS = " ".join(str(pow(7, each, 10**9)) for each in range(9000))
BITMAP = b"BM" + struct.pack("<I2H2I2i2H6I", 58, 0, 0, 54, 40, 1, 1, 1, 24, 0, 4, 0, 0, 0, 0) + b"abc\0"
SOURCES = (
    "go.mod", "a.hh", "CMakeLists.cmake", "build.gradle", "build.gradle.kts", "a.f90", "a.dart", "a.swift", "a.sty",
    "a.scss", "a.less", "a.vue", "a.css.map", "a.graphql", "a.mdx", "py.typed", "MANIFEST.in", "LICENSE.MIT",
    "Dockerfile.prod", ".nvmrc", ".clang-format", ".eslintrc", "notes.v2",
)  # fmt: skip
USUAL = ("README", "a/b.md", "v1.2/notes.2024", "Makefile", ".gitignore", "a.CSV", "a.sql", "a.rs", "a.jpeg.txt")
LETTERED = ("PK", "BM", "RIFF", "GIF89a", "MM", "VCLMTF", "MZ")
MANY = b"""<!DOCTYPE html><html><head><style>a > b {background: url(a.png)}
@font-face {src: url(data:font/woff2;base64,AA)}</style></head><body title="on=3">
<a href="mailto:a@b.test">mail</a> <a href="#part">part</a> <a href="other.html">page</a> <a href="tel:+491">call</a>
<a href="https://a.test/?b=1&amp;c=2#d" target=_blank>on top = x</a>
<img src="a.png" srcset="a.png 1x, b.png 2x" alt="a > b"><img src="data:image/png;base64,AAAA">
<p data="Note: 1" action="x:y">1 <2 once = 3</p>
<svg xmlns:xlink="http://www.w3.org/1999/xlink"><use xlink:href="#a"/><path fill="url(#g)"/></svg></body></html>"""
RICH_LINKS = rb"""{\rtf1 {\field{\*\fldinst {\rtlch\fcs1 HYPERLINK "https://a.test/x" \\o "tip" }}{\fldrslt a link}}
{\field{\*\fldinst HYPERLINK \\l "_Toc1"}{\fldrslt 1}} A hyperlink is a link.}"""
HEX_LINK = "<</S/URI/URI<68747470733a2f2f61>/F 4>>"
NAMED_LINK = "<< /S /URI /URI 4 0 R >>\nendobj\n4 0 obj (mailto:a@b.test)"
FONTS = "<< /F 4 0 R /Font << /F1 5 0 R >> >>"
JS = "<< /S /JavaScript /JS (x) >>"
TWICE = "[/ASCIIHexDecode /FlateDecode] /DecodeParms << /Predictor 12 >>"
FORMULAS = (
    "SUM(Table1[2024])", "SUM(Table1[[#This Row],[2024]])", "SUM(Sales[1])", "SUM(Table1[[2023]:[2024]],B!A1)",
    "[0]!SalesRange", "Table1[[#This Row],[No '#]]*Table1[[#This Row],[Qty '#]]", "SUM(T[a'#],T[b'[1']'#])",
    "'#North'!A1", "'A'!B1+'#N'!C1", 'HYPERLINK("#B!A1","x")', 'HYPERLINK("https://a.test/"&amp;A1)',
)  # fmt: skip
WEB = ("https://a.test/a b", "mailto:a@b.test?subject=x", "#part", "HTTP://A.TEST", "tel:+491")
WRITTEN = "<w:r><w:instrText>{}</w:instrText></w:r>"
BEGIN, SEPARATE, END = map(FIELD.format, ("begin", "separate", "end"))
IN_CONTENTS = BEGIN + WRITTEN.format(r'HYPERLINK \l "_Toc2"') + SEPARATE + "<w:t>1</w:t>" + END
CONTENTS = BEGIN + WRITTEN.format(r"TOC \o ") + WRITTEN.format(r'"1-3" \h') + SEPARATE + IN_CONTENTS * 2 + END
COUNTED = BEGIN + WRITTEN.format("= ") + BEGIN + WRITTEN.format("NUMPAGES") + END + WRITTEN.format(" - 1") + END
TIPPED = BEGIN + WRITTEN.format(r' HYPERLINK "https://a.test/" \l "y" \o "tip" \h ') + END
LOOSE = BEGIN + WRITTEN.format("PAGE ") + SEPARATE + WRITTEN.format("HYPERLINK file:///x") + END
RICH_HIDDEN = {
    "a nested field": r'IF 1=1 {\field{\*\fldinst HYPERLINK "file:///x"}{\fldrslt x}}',
    "a link that a nested field completes": r"HYPERLINK {\field{\*\fldinst REF x}{\fldrslt x}}",
    "text that is not shown before the name": r'{\*\none PAGE }HYPERLINK "file:///x"',
    "a backslash before the word of a result": r'HYPERLINK \\fldrslt "file:///x"',
}
QUIET_FIELDS = (
    r' HYPERLINK "https://en.wikipedia.org/wiki/Hyperlink" ', r' HYPERLINK "https://a.b" \o "Hyperlink to the report" ',
    r' TOC \h \t "Hyperlink,1" ', ' STYLEREF "Hyperlink" ', ' ADDIN CSL {"title":"Hyperlink analysis"}',
    ' HYPERLINK "https://en.wikipedia.org/wiki/DDE" ',
)  # fmt: skip
RICH_QUIET = rb"""{\rtf1 {\field{\*\fldinst {\rtlch\fcs1 \f1 HYPERLINK "https://a.test/Hyperlink"
\\o "a hyperlink here" }}{\fldrslt a}}
{\field{\*\fldinst {\rtlch TOC \\h \\t "Hyperlink,1"}}{\fldrslt 1}}}"""
DOCUMENTS = ("text/html", "image/svg+xml", "application/xhtml+xml", "text/xml", "application/octet-stream")
SHEETS = (
    '<link rel="stylesheet" href="data:text/css,p{background:url(%68ttps://evil.test/x)}">',
    '<link rel="stylesheet" href="data:text/css;base64,QGltcG9ydCAiaHR0cHM6Ly9ldmlsLnRlc3QveCI7">',
    '<link rel="stylesheet" href="data:text/css;base64,/////w==">',
    '<style>@import "data:text/css;base64,QGltcG9ydCAiaHR0cHM6Ly9ldmlsLnRlc3QveCI7"</style>',
)
SAVED = ('download="a.exe"', 'download="a.exe" download="a.txt"', 'download="a&#46;exe"', "download=a.desktop")
PAGES_IN_XML = {
    "an element of a page": '<a xmlns:h="http://www.w3.org/1999/xhtml"><h:p onx="x()"/></a>',
    "an element of a page in other letters": '<a xmlns:h="http://www.w3.org/1999/xhtm&#108;"><h:p onx="x()"/></a>',
    "an element of a page in another encoding": (
        '<?xml version="1.0" encoding="iso-2022-jp"?><a xmlns:h="http://w'
        'ww.w3.org/1999/xh\x1b(Btml"><h:p onx="x()"/></a>'
    ),
    "a page inside": '<!-- a --><html onx="x()"/>',
}
NEAR = "<a xmlns:t='urn:t'><c t:formula=\"of:=T['../b.ods'#$S.A1]\"/></a>"
DECK = """<a xmlns:x="http://www.w3.org/1999/xlink"><object x:href="./Object 1"/>
<image x:href="./ObjectReplacements/Object 1"/>
<template x:href=""/></a>"""
CARRIES = (
    '<a href="data:image/png;base64,AAAA">a picture</a>', '<a download="a.csv" href="data:text/csv,a%2Cb">rows</a>',
    '<a download href="data:application/json,{}">x</a>', '<link rel="stylesheet" href="data:text/css,p{}">',
    "<style>@font-face {src: url(data:application/vnd.ms-fontobject;base64,AA)}</style>",
)  # fmt: skip
DATA = """<?xml version="1.0"?>
<!-- rows --><rows xmlns="urn:rows"><row on="1" one="1" online="yes"
src="D:report.csv" action="run:/a" data="c:/x"/></rows>"""
REPORT = """# Report

- one, two
- a [source](https://a.test/x "title"), <https://a.test>, [mail](mailto:a@b.test), [below](#x), [rows](data/x.csv)

| name | p |
|---|---|
| a<br>b | =2 |

![chart](chart.png) ![c](data:image/png;base64,AA) p < 0.05 and online = 3 > 2 cost $5 to $9.
In JavaScript: new URL('https://a.test'). Note: file:///x is no link, nor is \\\\server\\share.

[1]: https://a.test/y
[^1]: Source: the file
"""
CODE = """It shows `<script>` and ``<img src=https://a.test>``:

```html
<script>x()</script><img src=https://a.test onerror=x>
[x](file:///c:/x)
```

~~~cpp
if (a < b) online = f(v8::Local<v8::Value>);
~~~
"""
TAGGED = """<details>
<summary>More</summary>

```
code
```
</details>
<!-- a remark -->
1. one

   ```sh
   echo $HOME
   ```
"""
NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "markdown", "metadata": {}, "source": ["# a\n", "[x](https://a.test) `<b onx=1>`"]},
            {
                "cell_type": "code", "metadata": {}, "source": ["html = '<script>x</script>'"], "outputs": [
                    {"output_type": "stream", "name": "stdout", "text": ["<script>"]},
                    {
                        "output_type": "execute_result", "metadata": {}, "data": {
                            "text/html": ["<style>.t {top: 0}</style>", "<table border=\"1\"><td>1</td></table>"],
                            "text/plain": ["<b onclick=x>"], "image/png": "iVBOR",
                        },
                    },
                    {"output_type": "error", "ename": "E", "evalue": "<script>", "traceback": ["<script>"]},
                ],
            },
        ],
        "metadata": {"language_info": {"mimetype": "text/x-python", "name": "python"}}, "nbformat": 4,
    }
)  # fmt: skip
DIRECTED = """Title
=====

A `page <https://a.test>`_ and ``code``.

.. image:: a.png

.. _x: https://a.test
"""
MESSAGE = """From: A <a@b.test>
Message-ID: <x.1@b.test>
Content-Type: text/plain; charset="utf-8"
Content-Transfer-Encoding: 8bit
Content-Disposition: attachment; filename="a.csv"

See https://a.test, 2 < 3.
"""
CLEAN: dict[str, tuple[str, bytes]] = {
    **{f"a page that carries content: {each}": ("a.html", f"<html>{each}</html>".encode()) for each in CARRIES},
    "a deck with an object": ("a.odp", packed({"mimetype": "x", "content.xml": DECK, "Object 1/content.xml": "<a/>"})),
    "XML with attributes that mean something in a page": ("a.xml", DATA.encode()),
    **{f"a text with the field{each}": ("a.docx", worded(BEGIN + WRITTEN.format(each) + END)) for each in QUIET_FIELDS},
    "rich text with fields that mention a link": ("a.rtf", RICH_QUIET),
    "a workbook": ("a.xlsx", office()),
    "a workbook with a link to a page": ("a.xlsx", related("hyperlink", "https://example.test/a?b=1")),
    "a workbook with a formula's link to a page": ("a.xlsx", formula('HYPERLINK("https://a.test","a: b")')),
    "a workbook with what a printer of Apple's was told": ("a.xlsx", office(xl__printerSettings1_DOT_bin=PLIST)),
    **{f"a workbook with the formula {text}": ("a.xlsx", formula(text)) for text in FORMULAS},
    **{f"a text with a link to {each}": ("a.docx", related("hyperlink", each)) for each in WEB},
    "a text with a list of contents": ("a.docx", worded(CONTENTS)),
    "a text with fields in fields": ("a.docx", worded(COUNTED)),
    "a text with a field's link and a tip": ("a.docx", worded(TIPPED)),
    "a text with a field's link into itself": ("a.docx", worded(r'<w:instrText>HYPERLINK \l "a"</w:instrText>')),
    "a PDF with a link to a page": ("a.pdf", pdf("<< /S /URI /URI (https://a.test/\\(b\\)) >>")),
    "a workbook whose text has a pipe": ("a.xlsx", formula('IF(A1,"a|b!","c")')),
    "a deck with a chart's workbook inside": ("a.pptx", CHARTS),
    "a text with a page number": (
        "a.docx",
        worded(FIELD.format("begin") + "<w:instrText>PAGE ADDED</w:instrText>" + FIELD.format("end")),
    ),
    "one thing for all programs": ("a.docx", other("<w:t>same</w:t>", "<w:t>same</w:t>")),
    "a table": ("a.csv", b"name,amount\nA & B,-12.50\nC,+3\nD,-1e-5\nE,-\nF,+49 30 1234\n"),
    "a table parted by semicolons": ("a.csv", b"name;text\nA;good, - see note\n"),
    "a list": ("a.md", b"- one, two\n- three, four\n"),
    "a report": ("a.md", REPORT.encode()),
    "a report under its long suffix": ("a.markdown", REPORT.replace("\n", "\r\n").encode()),
    "a report with code": ("a.md", CODE.encode()),
    "a report with tags": ("a.md", TAGGED.encode()),
    "a notebook": ("a.ipynb", NOTEBOOK.encode()),
    "a text with directives": ("a.rst", DIRECTED.encode()),
    "a message": ("a.eml", MESSAGE.encode()),
    "JSON": ("a.json", b'{"a": "<script>"}'),
    "a PDF": ("a.pdf", pdf("<< /Type /Catalog /OpenAction [1 0 R /Fit] >>", "(text: /JS)")),
    "a PDF that opens at a page": ("a.pdf", pdf("<< /OpenAction 2 0 R >>", "[1 0 R /XYZ 0 0 0]")),
    "a PDF that opens at a page by an action": ("a.pdf", pdf("<< /OpenAction << /S /GoTo /D [1 0 R /Fit] >> >>")),
    "a PDF with a link": ("a.pdf", pdf("<< /S /URI /URI (https://example.test) >>")),
    "a PDF with links in other notations": (
        "a.pdf",
        pdf("<< /S /URI /URI (https://a\\\n.test) >>", HEX_LINK, NAMED_LINK),
    ),
    "a PDF with other names": ("a.pdf", pdf("<< /URI << /Base (https://a.test) >> >>", FONTS, "(text /URI here)")),
    "packed objects": ("a.pdf", object_stream("<< /Type /Page >>")),
    "a picture": ("a.png", png()),
    "a page": ("a.html", b"<!DOCTYPE html><html><a href='https://example.test'>on top = x</a></html>"),
    "a page of many kinds": ("a.html", MANY),
    "rich text with links": ("a.rtf", RICH_LINKS),
    "a drawing": ("a.svg", b'<svg xmlns="http://www.w3.org/2000/svg"><path d="M0"/></svg>'),
    "an archive written to a stream": ("a.zip", streamed()),
    "an archive with wide sizes": ("a.zip", streamed(wide=True)),
    "a bitmap": ("a.bmp", BITMAP),
    "a picture of the web": ("a.webp", b"RIFF\x1e\0\0\0WEBPVP8 " + bytes(22)),
    "an archive of usual names": ("a.zip", packed(dict.fromkeys(USUAL, "text"))),
    "an archive of sources": ("a.zip", packed(dict.fromkeys(SOURCES, "text"))),
    "rich text under its other name": ("a.doc", rb"{\rtf1 hello}"),
    **{f"a table that starts with {each}": ("a.csv", f"{each},Name\n1,a\n2,b\n".encode()) for each in LETTERED},
    "an archive": ("a.zip", packed({"a/b.txt": "x", "c.png": png()})),
    "rich text": ("a.rtf", rb"{\rtf1 hello}"),
    "a text in another script": ("a.txt", "שלום, עולם\n".encode()),
}
ACTIVE: list[tuple[str, str, str, bytes]] = [
    ("macros", "VBA", "a.xlsm", office(xl__vbaProject_DOT_bin=old("_VBA_PROJECT"))),
    ("macros", "a type with macros", "a.xlsx", typed(OPENS)),
    ("macros", "Basic", "a.ods", packed({"mimetype": "x", "Basic/Standard/Module1.xml": "<a/>"})),
    ("xlm", "a macro sheet", "a.xlsx", office(xl__macrosheets__sheet1_DOT_xml="<a/>")),
    ("xlm", "a macro sheet by another name", "a.xlsx", office(xl__x_DOT_xml="<macrosheet/>")),
    ("xlm", "a name that opens", "a.xlsx", office(xl__a_DOT_xml=NAMED)),
    ("xlm", "a formula that runs", "a.xlsx", formula('EXEC("calc")')),
    ("dde", "a link", "a.xlsx", office(xl__x_DOT_xml="<externalLink><ddeLink/></externalLink>")),
    ("dde", "a formula", "a.xlsx", formula("cmd|'/c calc'!A0")),
    ("dde", "a field in pieces", "a.docx", worded(FIELD.format("begin") + SPLIT + FIELD.format("end"))),
    ("dde", "a simple field", "a.docx", worded('<w:fldSimple w:instr="DDEAUTO x"/>')),
    ("dde", "an embedded workbook", "a.pptx", office(ppt__embeddings__a_DOT_xlsx=FORMULA_BOOK)),
    ("dde", "a cell of a table", "a.csv", b"a,b\n=cmd|'/c calc'!A0,1\n"),
    ("external-links", "another workbook", "a.xlsx", office(xl__externalLinks__externalLink1_DOT_xml="<a/>")),
    ("external-links", "a picture", "a.docx", related("image", "https://example.test/a.png")),
    ("external-links", "a link to a share", "a.docx", related("hyperlink", "\\\\host\\share\\a")),
    ("external-links", "a link to a file", "a.docx", related("hyperlink", "file:///etc/passwd")),
    ("external-links", "a target that is not said to be outside", "a.docx", related("image", "http://a.test/x", "")),
    ("external-links", "a formula", "a.xlsx", formula('WEBSERVICE("http://a.test")')),
    ("external-links", "a field", "a.docx", worded('<w:fldSimple w:instr=" INCLUDEPICTURE x"/>')),
    ("external-links", "a PDF's way elsewhere", "a.pdf", pdf("<< /S /GoToR /F (x.pdf) >>")),
    ("external-links", "a PDF's link to a file", "a.pdf", pdf("<< /S /URI /URI (file:///x) >>")),
    ("queries", "a connection", "a.xlsx", office(xl__connections_DOT_xml="<connections/>")),
    ("queries", "Power Query", "a.xlsx", office(customXml__item1_DOT_xml='<DataMashup xmlns="http://x"/>')),
    ("queries", "Power Query in other letters", "a.xlsx", office(customXml__a_DOT_xml=MASHUP.encode("utf-16"))),
    ("remote-template", "a template", "a.docx", related("attachedTemplate", "https://example.test/a.dotm")),
    ("remote-template", "rich text", "a.rtf", rb"{\rtf1{\*\template http://a.test/x}}"),
    ("embedded", "an object", "a.docx", office(word__embeddings__oleObject1_DOT_bin=old("Ole10Native"))),
    ("embedded", "a chunk", "a.docx", related("aFChunk", "a.html", "")),
    ("embedded", "a file in a PDF", "a.pdf", pdf("<< /Type /EmbeddedFile >>")),
    ("embedded", "media in a PDF", "a.pdf", pdf("<< /Subtype /RichMedia >>")),
    ("embedded", "rich text", "a.rtf", rb"{\rtf1{\object\objemb{\*\objdata 0105}}}"),
    ("activex", "a control", "a.docx", office(word__activeX__activeX1_DOT_xml="<a/>")),
    ("activex", "a relationship", "a.docx", related("control", "a.xml", "")),
    ("alternate-content", "other words", "a.docx", other("<w:t>100</w:t>", "<w:t>900</w:t>")),
    ("alternate-content", "words for some only", "a.docx", other("<w:t>100</w:t>", "")),
    ("alternate-content", "another part", "a.docx", other("<w:t>1</w:t>", ELSEWHERE)),
    ("ambiguous-archive", "a name twice", "a.xlsx", packed([("a.xml", "<a/>"), ("a.xml", "<b/>")])),
    ("ambiguous-archive", "a name in another case", "a.zip", packed({"a.txt": "x", "A.TXT": "y"})),
    ("ambiguous-archive", "a way up", "a.zip", packed({"../a.txt": "x"})),
    ("ambiguous-archive", "an absolute name", "a.zip", packed({"/a.txt": "x"})),
    ("ambiguous-archive", "a way up in other letters", "a.zip", packed({"a/%2e%2e/b.txt": "x"})),
    ("ambiguous-archive", "a way up for Windows", "a.zip", packed({"..\\a.txt": "x"})),
    ("ambiguous-archive", "a remark", "a.zip", packed({"a.txt": "x"}, b"MZ")),
    ("ambiguous-archive", "two archives", "a.zip", hidden()),
    ("polyglot", "bytes before an archive", "a.zip", b"GIF89a" + packed({"a.txt": "x"})),
    ("polyglot", "an archive behind a picture", "a.png", png(packed({"a.txt": "x"}))),
    ("polyglot", "bytes behind a picture", "a.png", png(b"more")),
    ("polyglot", "bytes behind a PDF", "a.pdf", pdf("<< >>", after=b"MZ")),
    ("polyglot", "bytes before a PDF", "a.pdf", pdf("<< >>", before=b"<script>")),
    ("encrypted", "a member", "a.zip", locked()),
    ("encrypted", "a document", "a.xlsx", old("EncryptedPackage")),
    ("encrypted", "a PDF", "a.pdf", pdf("<< /Encrypt 2 0 R >>")),
    ("archive-bomb", "zeros", "a.zip", packed({"a.txt": bytes(16 << 20)})),
    ("legacy-format", "an old workbook", "a.xls", old("Workbook")),
    ("macros", "an old workbook", "a.xls", old("_VBA_PROJECT_CUR")),
    ("scripts", "a PDF", "a.pdf", pdf("<< /S /JavaScript /JS (app.alert\\(1\\)) >>")),
    ("scripts", "a PDF in other letters", "a.pdf", pdf("<< /S /J#61vaScript /#4aS (x) >>")),
    ("scripts", "a PDF's packed objects", "a.pdf", object_stream("<< /S /JavaScript /JS (x) >>")),
    ("unreadable", "objects packed twice", "a.pdf", object_stream("<< >>", TWICE)),
    ("actions", "a program", "a.pdf", pdf("<< /S /Launch /F (calc) >>")),
    ("actions", "on opening", "a.pdf", pdf("<< /OpenAction << /S /Named >> >>")),
    ("actions", "on opening, elsewhere", "a.pdf", pdf("<< /OpenAction 2 0 R >>", "<< /S /Named >>")),
    ("actions", "of a page", "a.pdf", pdf("<< /AA << /O 2 0 R >> >>")),
    ("actions", "a form that is sent", "a.pdf", pdf("<< /S /SubmitForm >>")),
    ("actions", "data that are read", "a.pdf", pdf("<< /S /ImportData >>")),
    ("forms", "XFA", "a.pdf", pdf("<< /XFA [(a) 2 0 R] >>")),
    ("scripts", "a page", "a.html", b"<html><script>x</script></html>"),
    ("scripts", "a page that is called a text", "a.txt", b"hello <html><ScRiPt>x</script>"),
    ("scripts", "a handler", "a.svg", b'<svg onload="x()"/>'),
    ("scripts", "a link", "a.html", b'<a href="java&#115;cript:x">'),
    ("scripts", "a link in pieces", "a.html", b'<a href="java\tscript:x">'),
    ("scripts", "a page in a drawing", "a.svg", b"<svg><foreignObject/></svg>"),
    ("scripts", "a drawing in a document", "a.docx", office(word__media__a_DOT_svg="<svg><script/></svg>")),
    ("scripts", "in other letters", "a.html", "<html><script>".encode("utf-16")),
    ("external-references", "a picture", "a.html", b'<img src="https://a.test/x.png">'),
    ("external-references", "a style", "a.html", b"<style>@import url(//a.test/x)</style>"),
    ("external-references", "a drawing", "a.svg", b'<svg><image xlink:href="http://a.test"/></svg>'),
    ("entities", "XML", "a.xml", b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'),
    ("entities", "a part", "a.xlsx", office(xl__a_DOT_xml='<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>')),
    ("formulas", "equals", "a.csv", b'a,b\n"=HYPERLINK(""x"")",1\n'),
    ("formulas", "plus", "a.csv", b"a,b\n+A1,1\n"),
    ("formulas", "minus", "a.csv", b"a,b\n-1+A1,1\n"),
    ("formulas", "at", "a.csv", b"a,b\n@SUM(A1),1\n"),
    ("formulas", "behind a tab", "a.csv", b'a,b\n"\t=1+1",1\n'),
    ("formulas", "tabs", "a.tsv", b"a\tb\n=1+1\t2\n"),
    ("formulas", "another mark", "a.csv", b"a,b\nx;=1+1;y,2\n"),
    ("formulas", "a table that is called a text", "a.txt", b"a,b\n=1+1,2\n"),
    ("programs", "Linux", "a.docx", b"\x7fELF" + bytes(99)),
    ("programs", "Windows", "a.pdf", b"MZ" + bytes(99)),
    ("programs", "a shortcut", "a.xlsx", b"L\0\0\0\x01\x14\x02\0" + bytes(99)),
    ("programs", "a starter", "a.txt", b"[Desktop Entry]\nExec=x\n"),
    ("programs", "a script", "a.txt", b"#!/bin/sh\nx\n"),
    ("programs", "a script in an archive", "a.zip", packed({"a": "#!/bin/sh\n"})),
    ("programs", "a name in an archive", "a.zip", packed({"a.pdf.exe": "x"})),
    ("bidi", "a text", "a.py", f"x = 1 # {BIDI} y\n".encode()),
    ("bidi", "a name", "a.zip", packed({f"a{BIDI}txt.exe": "x"})),
    ("unknown-format", "bytes", "a.dat", bytes(range(256))),
    ("unknown-format", "a binary workbook", "a.xlsb", office(xl__worksheets__sheet9_DOT_bin=bytes(range(256)))),
    ("external-links", "an add-in", "a.xlsx", office(xl__webextensions__a_DOT_xml="<a/>")),
    ("macros", "by its relationship", "a.xlsx", related("vbaProject", "a.dat", "")),
    ("macros", "by its type", "a.xlsx", typed("application/vnd.ms-office.vbaProject")),
    ("xlm", "by its type", "a.xlsx", typed("application/vnd.ms-excel.macrosheet+xml")),
    ("activex", "by its type", "a.docx", typed("application/vnd.ms-office.activeX+xml")),
    ("unknown-format", "by its type", "a.xlsb", typed("application/vnd.ms-excel.sheet.binary.main")),
    ("xlm", "a sheet of macros by its relationship", "a.xlsx", related("xlMacrosheet", "a.xml", "")),
    ("dde", "a table's source", "a.ods", office(a_DOT_xml="<a><dde-source/></a>")),
    ("dde", "a text's source", "a.odt", office(a_DOT_xml="<a><dde-connection-decl/></a>")),
    ("external-links", "an object elsewhere", "a.xlsx", office(xl__a_DOT_xml="<a><oleLink/></a>")),
    ("queries", "a connection by another name", "a.xlsx", office(xl__a_DOT_xml="<a><connection/></a>")),
    ("macros", "an event", "a.odt", office(a_DOT_xml="<a><event-listener/></a>")),
    ("activex", "an element", "a.docx", worded("<w:control/>")),
    ("dde", "a formula that asks a program", "a.xlsx", formula('RTD("x",,"y")')),
    ("scripts", "a PDF by its name", "a.pdf", pdf("<< /Names << /JavaScript 3 0 R >> >>")),
    ("scripts", "a PDF by its text", "a.pdf", pdf("<< /JS 3 0 R >>")),
    ("actions", "a film", "a.pdf", pdf("<< /Movie << /F (x) >> >>")),
    ("external-links", "a page of another PDF", "a.pdf", pdf("<< /Ref << /F (x) >> >>")),
    ("embedded", "a file by its entry", "a.pdf", pdf("<< /EF << /F 3 0 R >> >>")),
    ("scripts", "a page in a link", "a.html", b'<a href="data:text/html,x">'),
    ("scripts", "a page that goes", "a.html", b'<meta http-equiv="refresh" content="0">'),
    ("external-references", "a style sheet", "a.xml", b'<?xml-stylesheet href="x"?><a/>'),
    ("entities", "a definition elsewhere", "a.xml", b'<!DOCTYPE a SYSTEM "x"><a/>'),
    ("dde", "rich text", "a.rtf", rb"{\rtf1{\field{\*\fldinst DDEAUTO x}}}"),
    ("external-links", "rich text", "a.rtf", rb'{\rtf1{\field{\*\fldinst INCLUDEPICTURE "http://a.test"}}}'),
    ("embedded", "raw bytes in rich text", "a.rtf", rb"{\rtf1\bin5 hello}"),
    ("programs", "Java", "a.doc", b"\xca\xfe\xba\xbe" + bytes(9)),
    ("programs", "macOS", "a.doc", b"\xcf\xfa\xed\xfe" + bytes(9)),
    ("programs", "WebAssembly", "a.doc", b"\0asm" + bytes(9)),
    ("macros", "an old text", "a.doc", old("Macros")),
    ("embedded", "an old text with a package", "a.doc", old("\1Ole10Native")),
    ("embedded", "an old text with objects", "a.doc", old("ObjectPool")),
    ("embedded", "an old text with an equation", "a.doc", old("Equation Native")),
    ("xlm", "an old workbook", "a.xls", old() + b"Excel 4.0"),
    *(("scripts", f"in {name}", "a.html", b + "<html><script>".encode(name)) for name, b in LETTERS.items()),
    *(("dde", f"a table like {what}", "a.csv", mark + b",b\n=c|'/c'!A0,2\n;\xff\xd9") for what, mark in MARKS.items()),
    *(("scripts", f"like {what}", "a.html", mark + b"<script>1</script>;\xff\xd9") for what, mark in MARKS.items()),
    ("polyglot", "a picture that is called a table", "a.csv", png()),
    *(("programs", f"by name: {name}", name, b"calc.exe\r\n") for name in ("a.bat", "a.iqy", "a.reg", "a.url")),
    ("legacy-format", "a table that is called another", "a.csv", b'ID;PWXL;N;E\nC;Y1;X1;K0;EEXEC("calc")\nE\n'),
    ("remote-template", "relations of another case", "a.docx", office(word___rels__a_DOT_xml_DOT_RELS=TEMPLATE)),
    ("dde", "types of another case", "a.xlsx", packed({"[content_types].xml": TYPES, "a.xml": DDE_LINK})),
    ("dde", "a part called otherwise", "a.xlsx", office(xl__a_DOT_dat=DDE_LINK)),
    ("dde", "a part called a printer", "a.xlsx", office(xl__printerSettings1_DOT_bin=DDE_LINK)),
    ("dde", "a part in other letters, called otherwise", "a.xlsx", office(xl__a_DOT_bin=DDE_LINK.encode("utf-16"))),
    ("dde", "a column's formula", "a.xlsx", office(xl__a_DOT_xml=COLUMN)),
    ("dde", "another office's formula", "a.ods", packed({"mimetype": "x", "content.xml": OPEN})),
    ("external-links", "a formula's link to a share", "a.xlsx", formula(r'HYPERLINK("\\evil\a.exe","a")')),
    ("external-links", "a formula's link in pieces", "a.xlsx", formula('HYPERLINK("fi" &amp; "le:///c:/a.exe")')),
    ("external-links", "a field's link to a share", "a.docx", worded(SHARE)),
    ("external-links", "a workbook by its relation", "a.xlsx", related("externalLink", "a/b.dat", "")),
    ("external-links", "a picture by its address", "a.docx", worded('<a src="http://a.test/"/>')),
    *(("external-links", f"rich text, {how}", "a.rtf", rich_field(inside)) for how, inside in RICH_HIDDEN.items()),
    ("external-links", "a loose link behind a field", "a.docx", worded(LOOSE)),
    *(("external-references", f"a link that carries {each}", "a.html", carrier(each)) for each in DOCUMENTS),
    *(("external-references", f"a page that carries {each}", "a.html", each.encode()) for each in SHEETS),
    *(("programs", f"a link that saves {each}", "a.html", saver(each)) for each in SAVED),
    *(("scripts", f"XML with {how}", "a.xml", data.encode()) for how, data in PAGES_IN_XML.items()),
    ("external-links", "a formula like a column", "a.ods", packed({"mimetype": "x", "content.xml": NEAR})),
    ("macros", "buttons", "a.docx", related("ui/extensibility", "a/b.xml", "")),
    ("queries", "letters to many", "a.docx", worded("<w:mailMerge/>")),
    *(("scripts", f"packed after {end!r}", "a.pdf", object_stream(JS, end=end)) for end in (b" \n", b"\r", b"\t\r\n")),
    ("unreadable", "packed objects that break off", "a.pdf", object_stream(DIGITS, cut=9)),
    ("unreadable", "packed objects nobody finds", "a.pdf", object_stream(JS, "/A85 /X(obj)")),
    ("unreadable", "packed objects in pieces", "a.pdf", object_stream(JS, "/FlateDecode /DecodeParms 9 0 R")),
    ("embedded", "a file by reference", "a.pdf", pdf("<< /Type /Filespec /EF 6 0 R >>")),
    ("embedded", "a file that is attached", "a.pdf", pdf("<< /Subtype /FileAttachment /FS 4 0 R >>")),
    ("actions", "a film", "a.pdf", pdf("<< /S /Rendition /OP 0 /R 5 0 R >>")),
    *(("external-links", f"a link {how}", "a.pdf", pdf(f"<< /URI {at} >>", "(file://a)")) for how, at in LINKS.items()),
    ("external-references", "a report's picture", "a.md", b"![](https://a.test/p.png?u=1)"),
    ("external-references", "a report's link", "a.md", b"[x](file:///C:/x.exe)"),
    ("scripts", "a report's script", "a.md", b"# a\n\n<script>x</script>"),
    ("scripts", "a script far below", "a.markdown", b"a\n" * 900 + b"<script>x</script>"),
    ("scripts", "a notebook's output", "a.ipynb", b'[{"data": {"application/javascript": "x"}}]'),
    ("unreadable", "a notebook that is none", "a.ipynb", b"{"),
    ("unreadable", "a notebook of many texts", "a.ipynb", b"[" + b'["a",1],' * 100_001 + b"1]"),
    ("unreadable", "a message in letters", "a.mht", b"Content-Transfer-Encoding: base64\n\nPHNj"),
    ("polyglot", "a picture that is called a report", "a.md", png()),
    ("unreadable", "a part", "a.xlsx", office(xl__a_DOT_xml="<a")),
    ("unreadable", "a picture", "a.png", png()[:-20]),
    ("unreadable", "an archive", "a.zip", packed({"a": "x" * 99})[:-30]),
]  # fmt: skip


def seen(folder: Path, name: str, data: bytes, check: ActiveCheck | None = None) -> Verdict:
    check = check or ActiveCheck()
    (folder / name).write_bytes(data)
    return check.judge(Evidence(json.dumps(look(str(folder / name), check.code)).encode()))


@pytest.mark.parametrize("what", CLEAN)
def test_a_file_without_active_content_passes(tmp_path: Path, what: str) -> None:
    verdict = seen(tmp_path, *CLEAN[what])
    assert verdict.faults == ()
    assert verdict.passed
    assert verdict.looked_for == LOOKED_FOR


@pytest.mark.slow
@pytest.mark.parametrize(("family", "what", "name", "data"), ACTIVE, ids=[f"{a}: {b}" for a, b, *_ in ACTIVE])
def test_active_content_fails_unless_the_brief_allows_it(
    tmp_path: Path, family: str, what: str, name: str, data: bytes
) -> None:
    verdict = seen(tmp_path, name, data)
    assert family in {fault.rule for fault in verdict.faults}
    if family in FAMILIES:
        named = seen(tmp_path, name, data, ActiveCheck((family,)))
        assert family not in {fault.rule for fault in named.faults}
        assert named.values["allowed and found"] == family


def test_every_family_of_active_content_has_a_test_file() -> None:
    assert {family for family, *_ in ACTIVE} == set(LOOKED_FOR)


def test_a_program_may_contain_nothing_else_that_is_active(tmp_path: Path) -> None:
    code = ActiveCheck(code=True)
    assert seen(tmp_path, "a", b"#!/bin/sh\necho '<html><script>'\n", code).passed
    assert seen(tmp_path, "a.patch", b"--- a\n+++ b\n-1+1,2\n+=x,3\n", code).passed
    assert not seen(tmp_path, "a.py", f"#!/x\n# {BIDI}\n".encode(), code).passed


def test_links_of_an_encrypted_pdf_are_not_read(tmp_path: Path) -> None:
    data = pdf("<< /Encrypt 2 0 R >>", "<< /S /URI /URI (\\254*x) >>")
    assert [fault.rule for fault in seen(tmp_path, "a.pdf", data).faults] == ["encrypted"]


def test_nested_files_are_scanned_to_a_fixed_depth(tmp_path: Path) -> None:
    data = packed({"a": "#!/bin/sh\n"})
    for _ in range(2):
        data = packed({"a.zip": data})
    assert [fault.rule for fault in seen(tmp_path, "a.zip", data).faults] == ["programs"]
    for _ in range(2):
        data = packed({"a.zip": data})
    assert [fault.rule for fault in seen(tmp_path, "a.zip", data).faults] == ["unreadable"]


def test_overlapping_members_are_found(tmp_path: Path) -> None:
    data = bytearray(packed({"a.txt": "x", "b.txt": "x"}))
    second = data.rfind(b"PK\x01\x02")
    data[second + 42 : second + 46] = bytes(4)
    assert not seen(tmp_path, "a.zip", bytes(data)).passed


TOLD: dict[str, Any] = {"kind": "text", "bytes": 1, "parts": 0, "count": 0, "found": [], "tools": {}}


@pytest.mark.parametrize(
    "change",
    [
        {"found": [["macros", "a", "b"]]},
        {"count": 3},
        {"count": True},
        {"found": [["unheard of", "a", "b"]], "count": 1},
        {"found": [["macros", 1, "b"]], "count": 1},
        {"found": "macros", "count": 1},
        {"kind": None},
        {"bytes": "1"},
        {"tools": {"a": 1}},
    ],
)
def test_malformed_evidence_fails(change: dict[str, object]) -> None:
    assert ActiveCheck().judge(Evidence(json.dumps(TOLD).encode())).passed
    assert not ActiveCheck().judge(Evidence(json.dumps({**TOLD, **change}).encode())).passed


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text("a\x1b\u202e\n", max_size=9)
    | st.sampled_from(LOOKED_FOR),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*TOLD, "x"]), inner, max_size=6),
    max_leaves=12,
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([*TOLD, "unreadable"]), VALUES, max_size=7))
def test_no_evidence_raises_or_gives_a_long_message(told: dict[str, Any]) -> None:
    verdict = ActiveCheck(("macros",)).judge(Evidence(json.dumps({**TOLD, **told}).encode()))
    assert all(finding.isprintable() and len(finding) < 1000 for finding in verdict.findings)


@pytest.mark.parametrize("expect", [{"allow": ["magic"]}, {"allow": "macros"}, {"allow": [1]}, {"code": 1}, {"x": 1}])
def test_an_unknown_family_in_a_brief_is_refused(expect: dict[str, object]) -> None:
    with pytest.raises(BriefError, match="write active = "):
        find("active-content", expect)


@pytest.mark.parametrize("family", ALWAYS)
def test_unscanned_content_cannot_be_allowed(family: str) -> None:
    with pytest.raises(BriefError, match="is not a kind of active content"):
        find("active-content", {"allow": [family]})


def test_every_deliverable_with_a_check_is_scanned_first() -> None:
    item = Deliverable("a.xlsx", "xlsx", (RequiredCheck("xlsx", {"rows": 1}),), ("macros",))
    assert list_checks(item) == [("active-content", {"allow": ["macros"], "code": False}), ("xlsx", {"rows": 1})]
    assert list_checks(Deliverable("a", "file", (RequiredCheck("program"),)))[0][1] == {"allow": [], "code": True}
    assert list_checks(Deliverable("a.txt", "txt", (RequiredCheck("active-content"),))) == [
        ("active-content", {"allow": [], "code": False})
    ]
    assert list_checks(Deliverable("a.txt", "txt")) == []


def test_an_office_file_is_opened_and_drawn_once() -> None:
    def told(path: str, check: str, *active: str) -> object:
        return list_checks(Deliverable(path, path.rpartition(".")[2], (RequiredCheck(check),), active), office=True)[0][
            1
        ]

    bare = {"allow": [], "code": False}
    assert told("a.txt", "active-content") == bare
    assert told("a.ODS", "active-content") == {**bare, "open": True, "draw": True}
    assert told("a.xlsx", "xlsx") == {**bare, "open": True, "draw": False}
    assert told("a.pdf", "active-content", "encrypted") == {"allow": ["encrypted"], "code": False}
    assert find("active-content", {**bare, "open": True, "draw": True}).image == "office"
    assert "not opened" in str(find("active-content", bare).not_checked)


NESTED_TAGS = ("<a ", "<b x='", "<meta ", "<!DOCTYPE ", "<style>/*", "=+", '<i x="')


@pytest.mark.parametrize("repeated", NESTED_TAGS)
def test_a_page_of_tags_inside_tags_takes_linear_time(tmp_path: Path, repeated: str) -> None:
    """With the square of this number of tags, it would take minutes."""
    begun = time.process_time()
    seen(tmp_path, "a.html", b"<html>" + repeated.encode() * 20_000)
    assert time.process_time() - begun < 30


@pytest.mark.parametrize(
    "repeated", ["![", "](", "]:>", "]: ", "`", "<a:", ".. ", "charset ", "[a](<", "``a", ":url: "]
)
@pytest.mark.parametrize("suffix", ["md", "rst", "eml"])
def test_prose_of_many_marks_takes_linear_time(repeated: str, suffix: str) -> None:
    before = time.process_time()
    for text in (repeated * (200_000 // len(repeated)), repeated + repeated[-1] * 200_000):
        list(active_prose.inspect_prose(text, suffix, Found(), ""))
    assert time.process_time() - before < 5


def test_a_page_of_many_tags_inside_tags_is_refused(tmp_path: Path) -> None:
    assert seen(tmp_path, "a.html", b"<html>" + b"<i " * 300).passed
    refused = seen(tmp_path, "a.html", b"<html>" + b"<i " * 20_000)
    assert [fault.rule for fault in refused.faults] == ["unreadable"]


def test_the_second_name_of_a_member_is_not_taken_for_a_zero_byte() -> None:
    """Newer versions of Python show a member under its second name."""
    found = Found()
    with zipfile.ZipFile(io.BytesIO(packed({"a.txt": "x"}))) as file:
        file.infolist()[0].filename = "b.txt"
        active_zip.inspect_names(file, found, "")
    assert found.things == []


def test_definitions_are_found_in_zeros_with_little_work() -> None:
    """Matches at each of many places would take hours if a number could be divided into several."""
    zeros = b"0" * 200_000
    assert active_pdf.DEFINED.search(zeros + b" " + zeros) is None
    assert active_pdf.REFERENCE.match(b" " + zeros) is None
    found = active_pdf.DEFINED.search(b"% 09\n%x\n 00 obj")
    assert found is not None
    assert (found[1], found[2]) == (b"09", b"00")
