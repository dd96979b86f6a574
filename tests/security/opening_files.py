"""Files that act when they are opened, one way each, by the family a scan reports; and files that do not."""

from __future__ import annotations

import struct

from tests.hostile_files import (
    RELATION,
    calculated,
    deflate,
    docx,
    framed,
    ods,
    odt,
    open_document,
    packed,
    pdf,
    picture,
    pptx,
    relations,
    renamed_zip,
    single_zip,
    xlsx,
)

PAGE = ("h1", "hyperlink", "https://page.test/", True)
"""A relation to a web page, as an ordinary clickable link has it."""
SETTINGS = {
    "word/settings.xml": f'<a xmlns:r="{RELATION}"><attachedTemplate r:id="h1"/></a>',
    "word/_rels/settings.xml.rels": relations(PAGE),
}
SVG = '<svg xmlns="http://www.w3.org/2000/svg"><image href="http://svg.test/a.png"/></svg>'
OBJECT = '<w:p><w:r><w:object><o:OLEObject r:id="h1" Type="Link"/></w:object></w:r></w:p>'
SHAPE = '<w:p><w:r><w:pict><v:shape style="width:9pt;height:9pt">{}</v:shape></w:pict></w:r></w:p>'
FIELD = '<w:p><w:fldSimple w:instr="{}"><w:r><w:t>x</w:t></w:r></w:fldSimple></w:p>'
SPELT = 'INDIRECT("\'fi"&amp;"le:///etc/passwd\'#A.A1")'
SOURCE = '<table:table-source xlink:href="{}" table:table-name="S"/>'
MACRO = '<text:p><text:a xlink:href="vnd.sun.star.script:a">x</text:a></text:p>'
GROUND = '<style:paragraph-properties><style:background-image xlink:href="http://ground.test/a.png"/>'
STYLE = (
    '<office:automatic-styles><style:style style:name="P" style:family="paragraph">'
    f"{GROUND}</style:paragraph-properties></style:style></office:automatic-styles>"
)
STYLED = '<text:p text:style-name="P">Text.</text:p>'
OPEN = "urn:oasis:names:tc:opendocument:xmlns"
FLAT = f'<?xml version="1.0"?><a xmlns:t="{OPEN}:table:1.0"><c t:formula="of:=[\'ftp://x.test/b.ods\'#$S.A1]"/></a>'
OLD = b'<?xml version="1.0"?><?mso-application progid="Word.Document"?><a/>'
GOES_ON = "/Next << /S /URI /URI (http://pdf.test/) >> >>"
JUMP = "/OpenAction << /S /GoTo /D"
STREAM = "<< /Length 0 /F (http://x.test/a) >>\nstream\n\nendstream"
RICH_LINK = rb'{\rtf1{\field{\*\fldinst {\b HYPERLINK \\o "tip" "file:////evil.test/x"}}{\fldrslt x}}}'
File = tuple[str, bytes]


def page(inside: str) -> bytes:
    return f"<!DOCTYPE html><html>{inside}</html>".encode()


FETCHES: dict[str, File] = {
    "a picture by a link to a page": ("a.docx", docx(picture('r:link="h1"'), PAGE)),
    "a picture inside by a link to a page": ("a.docx", docx(picture('r:embed="h1"'), PAGE)),
    "an old picture by a link to a page": ("a.docx", docx(SHAPE.format('<v:imagedata r:id="h1"/>'), PAGE)),
    "an old picture by another name": ("a.docx", docx(SHAPE.format('<v:imagedata o:relid="h1"/>'), PAGE)),
    "an object by a link to a page": ("a.docx", docx(OBJECT, PAGE)),
    "a template by a link to a page": ("a.docx", docx("", parts=SETTINGS)),
    "a field nobody listed": ("a.docx", docx(FIELD.format("PRINT x"))),
    "a field that reads a document": ("a.docx", docx(FIELD.format("INCLUDE x"))),
    "a slide's picture by a link to a page": ("a.pptx", pptx('r:link="h1"', PAGE)),
    "a slide's click that starts a program": ("a.pptx", pptx('r:embed="r9"', click="ppaction://program")),
    "a slide's link without a click": ("a.pptx", pptx('r:embed="r9"', PAGE, event="hlinkHover")),
    "a picture of a sheet by a link to a page": ("a.xlsx", xlsx("1+1", '<picture r:id="h1"/>', PAGE)),
    "a formula that reads by FTP": ("a.xlsx", xlsx("'ftp://x.test/[b.xlsx]S'!A1")),
    "a formula that reads a file": ("a.xlsx", xlsx("'file:///etc/[b.xlsx]S'!A1")),
    "a formula that reads another book": ("a.xlsx", xlsx("[b.xlsx]S!A1")),
    "a formula that reads what it spells": ("a.xlsx", xlsx(SPELT)),
    "another office's formula by FTP": ("a.ods", ods(calculated("of:=['ftp://x.test/b.ods'#$S.A1]"))),
    "another office's formula of a file": ("a.ods", ods(calculated("of:=['file:///etc/passwd'#$S.A1]"))),
    "another office's formula nearby": ("a.ods", ods(calculated("of:=['../b.ods'#$S.A1]"))),
    "a table from nearby": ("a.ods", ods("<table:table-cell/>", SOURCE.format("../b.ods"))),
    "a table from elsewhere": ("a.ods", ods("<table:table-cell/>", SOURCE.format("http://x.test/b.ods"))),
    "a formula in one text": ("a.fods", FLAT.encode()),
    "a link that is a macro": ("a.odt", odt(MACRO)),
    "a picture from nearby": ("a.odt", odt(framed('<draw:image xlink:href="../a.png"/>'))),
    "a ground from elsewhere": ("a.odt", odt(STYLED, STYLE)),
    "a PDF's file by its address": ("a.pdf", pdf("", "", "<< /FS /URL /F (http://x.test/a) >>")),
    "a PDF's stream by its address": ("a.pdf", pdf("", "", STREAM)),
}
CONTINUES: dict[str, File] = {
    "a PDF that goes on": ("a.pdf", pdf(f"{JUMP} [3 0 R /Fit] {GOES_ON}")),
    "a PDF that goes on elsewhere": (
        "a.pdf",
        pdf(
            "/OpenAction 4 0 R",
            "",
            "<< /S /GoTo /D [3 0 R /Fit] /Next [5 0 R] >>",
            "<< /S /URI /URI (http://a.test) >>",
        ),
    ),
    "a PDF that goes on behind a remark": ("a.pdf", pdf(f"{JUMP} [3 0 R /Fit] % >>\n{GOES_ON}")),
    "a PDF that goes on behind brackets": ("a.pdf", pdf(f"{JUMP} (a(b)>>) {GOES_ON}")),
    "a PDF that goes on behind a name": ("a.pdf", pdf(f"{JUMP} /A#3e#3e {GOES_ON}")),
}
CELLS: dict[str, File] = {
    "a table that says what parts it": ("a.csv", b"sep=^\na,b^=1+1\n"),
    "a cell behind nothing to see": ("a.csv", "a,b\n\u200b=1+1,2\n".encode()),
    "a cell behind a mark": ("a.csv", "a,b\n\ufeff=1+1,2\n".encode()),
    "a cell behind several": ("a.csv", "a,b\n\u2060\u00ad\u202f=1+1,2\n".encode()),
    "a cell that begins in small": ("a.csv", "a,b\n\ufe66A1,2\n".encode()),
}
LINK = "<< /S /URI /URI {} >>"
DEFINED = f"{LINK}\nendobj\n{{}}"
PACKED = "<< /Type /ObjStm /N 1 /First 4 /Length 15 >>\nstream\n9 0 (file:///x)\nendstream"
PDF_LINKS: dict[str, bytes] = {
    "a PDF's link behind a broken line": pdf("", "", LINK.format("(fi\\\nle:///x)")),
    "a PDF's link behind a broken line of another kind": pdf("", "", LINK.format("(java\\\rscript:x)")),
    "a PDF's link with a tab": pdf("", "", LINK.format(r"(fi\tle:///x)")),
    "a PDF's link with zeros": pdf("", "", LINK.format("<66696c65003a2f2f2f78>")),
    "a PDF's link in odd digits": pdf("", "", LINK.format("<66x696c653a2f2f2f78>")),
    "a PDF's link to a program": pdf("", "", LINK.format("(calc.exe)")),
    "a PDF's link that is a list": pdf("", "", LINK.format("[(file:///x)]")),
    "a PDF's link defined twice": pdf(
        "", "", DEFINED.format("9 0 R", "9 0 obj (https://a.test) endobj\n9 0 obj (file:///x)")
    ),
    "a PDF's link defined behind a remark": pdf(
        "", "", DEFINED.format("9 0 R", "% 9 0 obj (https://a.test)\n9 0 obj (file:///x)")
    ),
    "a PDF's link defined with zeros": pdf("", "", DEFINED.format("09 0 R", "9 00 obj (file:///x)")),
    "a PDF's link defined in packed objects": pdf("", "", DEFINED.format("9 0 R", "9 0 obj (https://a.test)"), PACKED),
}
PDF_FILES: dict[str, bytes] = {
    "a PDF's file by reference": pdf("", "", "<< /Type /Filespec /F 9 0 R >>\nendobj\n9 0 obj (http://x.test/a)"),
    "a PDF's file behind a broken line": pdf("", "", "<< /Type /Filespec /F (ht\\\ntp://x.test/a) >>"),
}
HIDES = '<img alt=">" '
"""A tag with a `>` in an attribute."""
PAGES: dict[str, str] = {
    "a page's picture behind a mark": f'{HIDES}src="https://evil.test/x">',
    "a page's second picture": '<img srcset="a.png 1x, https://evil.test/x 2x">',
    "a page's picture by a backslash": r'<img src="/\evil.test/x">',
    "a page's picture by entities": '<img src="&sol;&sol;evil.test/x">',
    "a page's link to a share": '<a href="file:////evil.test/share">x</a>',
    "a page's link to a share of its own scheme": '<a href="//evil.test/share">x</a>',
    "a page's link that starts a program": '<a href="ms-msdt:/id">x</a>',
    "a page's link that searches a share": '<a href="search-ms:query=x">x</a>',
    "a page's link that reports clicks": '<a href="https://a.test" ping="https://evil.test">x</a>',
    "a drawing's picture set later": '<svg><image><set attributeName="href" to="https://evil.test/x"/></image></svg>',
}
STYLES: dict[str, str] = {
    "a style with an escape": r"<p style='background: url(\68ttps://evil.test/x)'>x</p>",
    "a style with an entity": "<p style='background: url(&#x2f;&sol;evil.test/x)'>x</p>",
    "a style with a remark": '<style>@import/**/"https://evil.test/x";</style>',
    "a style with a set of pictures": '<style>p{background:image-set("a.png" 1x, "https://evil.test/x" 2x)}</style>',
}
SECOND = single_zip(b"b.exe").partition(b"PK\1\2")[0]
"""A member and its header, as a program finds it that reads an archive as a stream."""
HEADERS: dict[str, bytes] = {
    "an archive whose header gives another size": single_zip(data=b"a" + SECOND, local_size=1),
    "an archive whose header gives another method": single_zip(local_method=8),
    "an archive whose header gives another name": single_zip(b"a/", b"", local_name=b"b/"),
}
TAILS: dict[str, bytes] = {
    "an archive with a member behind compressed data": single_zip(method=8, stored=deflate(b"text") + SECOND),
    "an archive with more data than it says": single_zip(method=8, stored=deflate(b"text, and more")),
}
ENDS: dict[str, bytes] = {
    "an archive with fewer members than it says": single_zip().replace(bytes((1, 0, 1, 0)), bytes((2, 0, 2, 0))),
}
NAMES: dict[str, bytes] = {
    "an archive with a name that ends early": single_zip(b"a.txt\0.exe"),
    "an archive with a comment on a member": single_zip(comment=SECOND),
    "an archive with data in a folder": single_zip(b"a/"),
}
TARGETS = {
    "a program": "calc.exe",
    "a program above": r"..\..\evil.exe",
    "a drive": "/c:/x",
    "a share in escapes": "%5c%5cevil%5cshare",
    "a file behind a tab": "fi&#9;le:///x",
    "a search": "search-ms:x",
}
OFFICE_LINKS: dict[str, File] = {
    **{
        f"a document's link to {what}": ("a.docx", docx("", ("h1", "hyperlink", target, True)))
        for what, target in TARGETS.items()
    },
    "a document's link inside to a program": ("a.docx", docx("", ("h1", "hyperlink", "calc.exe", False))),
    "a shape's link to a program": ("a.docx", docx(SHAPE.replace("<v:shape", '<v:shape href="calc.exe"'))),
    "a text's link to a program": ("a.odt", odt('<text:p><text:a xlink:href="../calc.exe">x</text:a></text:p>')),
}
FORMULA_LINKS: dict[str, File] = {
    "a formula's link to a program": ("a.xlsx", xlsx('HYPERLINK("calc.exe","x")')),
    "a formula's link in brackets": ("a.xlsx", xlsx('HYPERLINK(("fi"&amp;"le:///x"))')),
}
FIELD_LINKS: dict[str, File] = {
    "a field's link behind a tip": (
        "a.docx",
        docx(FIELD.format("HYPERLINK \\o &quot;tip&quot; &quot;file:///x&quot;")),
    ),
    "a field's link behind a switch": ("a.docx", docx(FIELD.format("HYPERLINK \\n file:///x"))),
    "a field's link to a program": ("a.docx", docx(FIELD.format("HYPERLINK calc.exe"))),
}
BEGIN, END = (f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "end"))
WRITTEN = "<w:r><w:instrText>{}</w:instrText></w:r>"
NAME = BEGIN + WRITTEN.format('QUOTE "INCLUDEPICTURE"') + END
NESTED: dict[str, File] = {
    "a field named by another": ("a.docx", docx(f"<w:p>{BEGIN}{NAME}{WRITTEN.format('x')}{END}</w:p>")),
}
BOOKS: dict[str, File] = {
    "a formula that reads a numbered book": ("a.xlsx", xlsx("SUM([1]Sheet1!A1)")),
    "a formula that reads a quoted book": ("a.xlsx", xlsx("'[1]It''s'!A1")),
    "a formula that reads a name of a book": ("a.xlsx", xlsx("[1]!Name")),
}
DISGUISED: dict[str, bytes] = {
    "a table like a bitmap": b"BM\t=cmd|'/c calc'!A0\nx\ty\n",
    "a table like a sound": b"RIFF\t=cmd|'/c calc'!A0\nx\ty\n",
    "a table like a film": b"RIFF1234AVI \t=cmd|'/c calc'!A0\nx\ty\n",
    "a table like a picture of an old office": b"VCLMTF\t=cmd|'/c calc'!A0\nx\ty\n",
}
MEMBERS = ("a.js", "a.library-ms", "a.searchConnector-ms", "a.SettingContent-ms", "a.pif", "a.rdp", "a.appref-ms",
           "a.command", "a.msc", "a.py", "a.exe. ", ".bat", "Dockerfile.exe", "a.csproj", "a.hs", ".bashrc",
           "desktop.ini", "a/.git/config")  # fmt: skip
STARTED: dict[str, bytes] = {f"an archive with {name}": packed({name: "text"}) for name in MEMBERS}
BITMAP = b"BM" + struct.pack("<I2H2I2i2H6I", 58, 0, 0, 54, 40, 1, 1, 1, 24, 0, 4, 0, 0, 0, 0) + b"abc\0"
OFFICE_TEXTS: dict[str, File] = {
    "a table called a workbook": ("a.xls", b"a b\nWEBSERVICE(1)\n"),
    "a picture called a workbook": ("a.xls", BITMAP),
}
HANDLES = f"{HIDES}onerror=alert(1) src=x>"
OTHERS: dict[str, tuple[str, File]] = {
    "a drawing that fetches, as a part": (
        "external-references",
        ("a.docx", docx("", parts={"word/media/a.xml": SVG})),
    ),
    "a formula that runs Python elsewhere": ("scripts", ("a.xlsx", xlsx("_xlfn._xlws.PY(0,1)"))),
    "a query by another name": ("queries", ("a.xlsx", xlsx("1", parts={"xl/x.xml": "<queryTable/>"}))),
    "an old document in one text": ("legacy-format", ("a.xml", OLD)),
    "a page's handler behind a mark": ("scripts", ("a.html", page(HANDLES))),
    "rich text with a link to a share": ("external-links", ("a.rtf", RICH_LINK)),
    "an archive with another name": ("ambiguous-archive", ("a.zip", renamed_zip("a.txt", "a.exe"))),
    "an archive with a field": ("ambiguous-archive", ("a.zip", renamed_zip("a.txt", "a.txt", 0x6375))),
}
ACTS: dict[str, tuple[str, File]] = {
    **{what: ("external-links", file) for what, file in FETCHES.items()},
    **{what: ("external-links", ("a.pdf", data)) for what, data in (PDF_LINKS | PDF_FILES).items()},
    **{what: ("ambiguous-archive", ("a.zip", data)) for what, data in (HEADERS | TAILS | ENDS | NAMES).items()},
    **{
        what: ("external-links", file)
        for what, file in (OFFICE_LINKS | FORMULA_LINKS | FIELD_LINKS | NESTED | BOOKS).items()
    },
    **{what: ("dde", ("a.xls", data)) for what, data in DISGUISED.items()},
    **{what: ("programs", ("a.zip", data)) for what, data in STARTED.items()},
    **{what: ("polyglot", file) for what, file in OFFICE_TEXTS.items()},
    **{what: ("actions", file) for what, file in CONTINUES.items()},
    **{what: ("external-references", ("a.html", page(text))) for what, text in (PAGES | STYLES).items()},
    **{what: ("formulas", file) for what, file in CELLS.items()},
    **OTHERS,
}
"""Every file, and the family a scan reports without opening it."""
LINKED = docx('<w:p><w:hyperlink r:id="h1"><w:r><w:t>A page.</w:t></w:r></w:hyperlink></w:p>', PAGE)
CLICKED = "/Annots [<< /Type /Annot /Subtype /Link /Rect [0 0 9 9] /A << /S /URI /URI (https://page.test/) >> >>]"
HONEST: dict[str, File] = {
    "a document with a link": ("a.docx", LINKED),
    "a workbook": ("a.xlsx", xlsx('HYPERLINK("https://page.test/","a")')),
    "slides with a link": ("a.pptx", pptx('r:embed="r9"', PAGE, event="hlinkClick")),
    "a text with a link": ("a.odt", odt('<text:p><text:a xlink:href="https://page.test/">A page.</text:a></text:p>')),
    "a table": ("a.ods", ods(calculated("of:=1+1"))),
    "a deck": ("a.odp", open_document("presentation", '<draw:page draw:name="a"/>')),
    "a PDF with a link": ("a.pdf", pdf(f"{JUMP} [3 0 R /Fit] >>", CLICKED)),
}
