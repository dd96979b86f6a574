"""Files of real formats that each attack in one way when they are opened, and harmless counterparts."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping

RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006"
OPEN = "urn:oasis:names:tc:opendocument:xmlns"
WORD_SPACES = (
    f'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="{RELATION}" '
    f'xmlns:wp="{DRAWING}/wordprocessingDrawing" xmlns:a="{DRAWING}/main" xmlns:pic="{DRAWING}/picture" '
    'xmlns:v="urn:schemas-microsoft-com:vml" xmlns:o="urn:schemas-microsoft-com:office:office"'
)
SHEET_SPACES = f'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="{RELATION}"'
SLIDE_SPACES = (
    f'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:a="{DRAWING}/main" '
    f'xmlns:r="{RELATION}"'
)
OPEN_SPACES = " ".join(
    f'xmlns:{short}="{OPEN}:{name}:1.0"'
    for short, name in {
        "office": "office", "text": "text", "table": "table", "draw": "drawing", "style": "style",
        "svg": "svg-compatible", "script": "script", "form": "form", "presentation": "presentation",
    }.items()
) + ' xmlns:xlink="http://www.w3.org/1999/xlink"'  # fmt: skip
TYPES = {
    "word/document.xml": "wordprocessingml.document.main",
    "xl/workbook.xml": "spreadsheetml.sheet.main",
    "xl/worksheets/sheet1.xml": "spreadsheetml.worksheet",
    "ppt/presentation.xml": "presentationml.presentation.main",
    "ppt/slides/slide1.xml": "presentationml.slide",
}
Relation = tuple[str, str, str, bool]
"""Id, type, target, and whether the target is external."""


def packed(parts: Mapping[str, str | bytes]) -> bytes:
    """Make a zip archive; the member `mimetype` is stored uncompressed."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in parts.items():
            file.writestr(name, data, zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED)
    return made.getvalue()


def relations(*listed: Relation) -> str:
    told = "".join(
        f'<Relationship Id="{id}" Type="{RELATION}/{kind}" Target="{target}"'
        + (' TargetMode="External"/>' if out else "/>")
        for id, kind, target, out in listed
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{told}</Relationships>'


def package(parts: Mapping[str, str | bytes]) -> bytes:
    default = "".join(
        f'<Default Extension="{each}" ContentType="{kind}"/>'
        for each, kind in {
            "rels": "application/vnd.openxmlformats-package.relationships+xml", "xml": "application/xml",
            "svg": "image/svg+xml", "png": "image/png",
        }.items()
    )  # fmt: skip
    own = "".join(
        f'<Override PartName="/{name}" ContentType="application/vnd.openxmlformats-officedocument.{kind}+xml"/>'
        for name, kind in TYPES.items()
        if name in parts
    )
    types = f'<Types xmlns="{PACKAGE}/content-types">{default}{own}</Types>'
    main = next(name for name in TYPES if name in parts)
    return packed(
        {"[Content_Types].xml": types, "_rels/.rels": relations(("r1", "officeDocument", main, False)), **parts}
    )


def docx(body: str, *listed: Relation, parts: Mapping[str, str | bytes] | None = None) -> bytes:
    size = '<w:sectPr><w:pgSz w:w="11906" w:h="16838"/></w:sectPr>'
    text = f"<w:document {WORD_SPACES}><w:body>{body}{size}</w:body></w:document>"
    return package({"word/document.xml": text, "word/_rels/document.xml.rels": relations(*listed), **(parts or {})})


def picture(attribute: str) -> str:
    shape = '<pic:spPr><a:xfrm><a:ext cx="914400" cy="914400"/></a:xfrm><a:prstGeom prst="rect"/></pic:spPr>'
    filled = f"<pic:blipFill><a:blip {attribute}/><a:stretch><a:fillRect/></a:stretch></pic:blipFill>"
    named = '<pic:nvPicPr><pic:cNvPr id="1" name="p"/><pic:cNvPicPr/></pic:nvPicPr>'
    data = f'<a:graphicData uri="{DRAWING}/picture"><pic:pic>{named}{filled}{shape}</pic:pic></a:graphicData>'
    inline = f'<wp:inline><wp:extent cx="914400" cy="914400"/><wp:docPr id="1" name="p"/><a:graphic>{data}</a:graphic>'
    return f"<w:p><w:r><w:t>Text.</w:t><w:drawing>{inline}</wp:inline></w:drawing></w:r></w:p>"


def xlsx(formula: str, more: str = "", *listed: Relation, parts: Mapping[str, str | bytes] | None = None) -> bytes:
    """Make a workbook with one formula; `more` is XML that follows its cells."""
    cells = f'<row r="1"><c r="A1"><f>{formula}</f><v>0</v></c></row>'
    sheet = f"<worksheet {SHEET_SPACES}><sheetData>{cells}</sheetData>{more}</worksheet>"
    book = f'<workbook {SHEET_SPACES}><sheets><sheet name="A" sheetId="1" r:id="r1"/></sheets></workbook>'
    made: dict[str, str | bytes] = {
        "xl/workbook.xml": book,
        "xl/_rels/workbook.xml.rels": relations(("r1", "worksheet", "worksheets/sheet1.xml", False)),
        "xl/worksheets/sheet1.xml": sheet,
    }
    if listed:
        made["xl/worksheets/_rels/sheet1.xml.rels"] = relations(*listed)
    return package({**made, **(parts or {})})


def pptx(blip: str, *listed: Relation, event: str = "hlinkClick", click: str = "") -> bytes:
    """Make a presentation of one slide: a picture with the attribute `blip`, and an action on `event`."""
    size = '<a:off x="0" y="0"/><a:ext cx="914400" cy="914400"/>'
    shape = f'<p:spPr><a:xfrm>{size}</a:xfrm><a:prstGeom prst="rect"/></p:spPr>'
    link = f'<a:{event} r:id="{listed[0][0] if listed else ""}" action="{click}"/>'
    named = f'<p:nvPicPr><p:cNvPr id="2" name="p">{link}</p:cNvPr><p:cNvPicPr/><p:nvPr/></p:nvPicPr>'
    filled = f"<p:blipFill><a:blip {blip}/><a:stretch><a:fillRect/></a:stretch></p:blipFill>"
    group = '<p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>'
    tree = f"<p:spTree>{group}<p:pic>{named}{filled}{shape}</p:pic></p:spTree>"
    slides = '<p:sldIdLst><p:sldId id="256" r:id="r1"/></p:sldIdLst><p:sldSz cx="9144000" cy="6858000"/>'
    return package(
        {
            "ppt/presentation.xml": f"<p:presentation {SLIDE_SPACES}>{slides}</p:presentation>",
            "ppt/_rels/presentation.xml.rels": relations(("r1", "slide", "slides/slide1.xml", False)),
            "ppt/slides/slide1.xml": f"<p:sld {SLIDE_SPACES}><p:cSld>{tree}</p:cSld></p:sld>",
            "ppt/slides/_rels/slide1.xml.rels": relations(*listed),
        }
    )


def open_document(kind: str, body: str, before: str = "", parts: Mapping[str, str | bytes] | None = None) -> bytes:
    """Make an OpenDocument file: `text`, `spreadsheet` or `presentation`."""
    kind_name = f"application/vnd.oasis.opendocument.{kind}"
    listed = "".join(
        f'<manifest:file-entry manifest:full-path="{name}" manifest:media-type="{type_}"/>'
        for name, type_ in {
            "/": kind_name, "content.xml": "text/xml", **dict.fromkeys(parts or {}, ""),
        }.items()
    )  # fmt: skip
    manifest = (
        f'<manifest:manifest xmlns:manifest="{OPEN}:manifest:1.0" manifest:version="1.2">{listed}</manifest:manifest>'
    )
    inside = f"{before}<office:body><office:{kind}>{body}</office:{kind}></office:body>"
    content = f'<office:document-content {OPEN_SPACES} office:version="1.2">{inside}</office:document-content>'
    return packed({"mimetype": kind_name, "META-INF/manifest.xml": manifest, "content.xml": content, **(parts or {})})


def odt(body: str, before: str = "", parts: Mapping[str, str | bytes] | None = None) -> bytes:
    return open_document("text", body, before, parts)


def framed(inside: str) -> str:
    frame = '<draw:frame text:anchor-type="as-char" svg:width="5cm" svg:height="5cm">'
    return f"<text:p>Text.{frame}{inside}</draw:frame></text:p>"


def ods(cell: str, above: str = "") -> bytes:
    """Make an OpenDocument spreadsheet of one cell; `above` is XML before its row."""
    row = f"<table:table-row>{cell}</table:table-row>"
    return open_document("spreadsheet", f'<table:table table:name="A">{above}{row}</table:table>')


def calculated(formula: str) -> str:
    shape = 'office:value-type="float" office:value="0"'
    return f'<table:table-cell table:formula="{formula}" {shape}><text:p>0</text:p></table:table-cell>'


def pdf(catalog: str = "", page: str = "", *objects: str) -> bytes:
    """Make a PDF of one page; objects are numbered from 4."""
    pages = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
    shown = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] {page} >>"
    made, places = b"%PDF-1.7\n", []
    for number, each in enumerate((f"<< /Type /Catalog /Pages 2 0 R {catalog} >>", pages, shown, *objects), 1):
        places.append(len(made))
        made += f"{number} 0 obj\n{each}\nendobj\n".encode("latin-1")
    at, count = len(made), len(places) + 1
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{at}\n%%EOF\n"
    return made + f"xref\n0 {count}\n0000000000 65535 f \n{table}{end}".encode()


def single_zip(name: bytes = b"a.txt", data: bytes = b"text", **other: bytes | int) -> bytes:
    """Make an archive of one member whose local header, directory or end record has `other` values.

    `stored` stands for the bytes of the member, and `size`, `crc`, `method`, `local_size`, `local_method`,
    `local_name`, `comment` and `offset` for what the records state.
    """
    stored = bytes(other.get("stored", data))
    method, size, crc = other.get("method", 0), other.get("size", len(data)), other.get("crc", zlib.crc32(data))
    seen = other.get("local_size", len(stored)), other.get("local_size", size)
    local = bytes(other.get("local_name", name))
    head = struct.pack(
        "<4s5H3I2H", b"PK\3\4", 20, 0, other.get("local_method", method), 0, 33, crc, *seen, len(local), 0
    )
    comment = bytes(other.get("comment", b""))
    place = struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, method, 0, 33, crc, len(stored), size, len(name), 0,
                        len(comment), 0, 0, 0, 0) + name + comment  # fmt: skip
    body = head + local + stored
    return body + place + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, len(place), other.get("offset", len(body)), 0)


def deflate(data: bytes) -> bytes:
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packing.compress(data) + packing.flush()


def renamed_zip(name: str, meant: str, kind: int = 0x7075) -> bytes:
    field = struct.pack("<BI", 1, zlib.crc32(name.encode())) + meant.encode()
    info = zipfile.ZipInfo(name)
    info.extra = struct.pack("<HH", kind, len(field)) + field
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr(info, b"text")
    return made.getvalue()
