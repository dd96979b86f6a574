"""Finds active content and external references in office documents. Runs inside a clean desk."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from urllib.parse import unquote
from xml.etree import ElementTree

from hotdesk.checks.inside import active_text
from hotdesk.checks.inside.active_found import Found
from hotdesk.checks.inside.active_links import find_field_link, leads_elsewhere, leads_to_page

Element = ElementTree.Element
COMPATIBLE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
SHAPES = "{urn:schemas-microsoft-com:vml}"
"""Namespace of shapes that are links if they have an address."""
XLINK = "{http://www.w3.org/1999/xlink}href"
PARTS: tuple[tuple[str, str, str], ...] = (
    ("macros", r"vbaProject|vbaData|customUI/|(^|/)Basic/|(^|/)Scripts/", "macros"),
    ("xlm", r"xl/(intl)?macrosheets/", "a macro sheet"),
    ("external-links", r"xl/externalLinks/", "a link to another workbook"),
    ("external-links", r"webextension", "an external add-in"),
    ("queries", r"xl/(connections|queryTables/|queries/|model/)", "a query"),
    ("activex", r"/activeX/|/ctrlProps/", "a control"),
)
"""Patterns of part names that show active content."""
NAMED = tuple((family, re.compile(shape, re.I), what) for family, shape, what in PARTS)
TYPES: tuple[tuple[str, str, str], ...] = (
    ("macros", "vbaproject", "macros"),
    ("macros", "macroenabled", "a macro-enabled document type"),
    ("xlm", "macrosheet", "a macro sheet"),
    ("activex", "activex", "a control"),
    ("external-links", "externallink", "a link to another workbook"),
    ("external-links", "webextension", "an external add-in"),
    ("queries", "querytable", "a query"),
    ("queries", "spreadsheetml.connections", "a connection to external data"),
    ("unknown-format", "sheet.binary", "a binary workbook, which is not inspected"),
)
"""Words in a part's content type that show active content."""
RELATIONS: tuple[tuple[str, str, str], ...] = (
    ("remote-template", "attachedtemplate", "a linked template"),
    ("embedded", "afchunk", "an embedded document"),
    ("activex", "/control", "a control"),
    ("macros", "vbaproject", "macros"),
    ("macros", "/ui/extensibility", "buttons that start macros"),
    ("xlm", "macrosheet", "a macro sheet"),
    ("external-links", "/externallink", "a link to another workbook"),
    ("external-links", "webextension", "an external add-in"),
    ("queries", "/querytable", "a query"),
    ("queries", "/connections", "a connection to external data"),
)
CLICKED = frozenset({("hyperlink", "id"), ("hlinkClick", "id")})
"""Elements that may refer to a web page because they follow it only on a click. No others may."""
REFERRING = re.compile(r"\{[^}]*(?:relationships|microsoft-com)[^}]*\}")
"""Namespaces of attributes that name a relation."""
JUMPS = re.compile(r"(?:ppaction://(?:hlinksldjump|hlinkshowjump\?.*|noaction|media))?", re.I)
"""Allowed actions of a click on a slide besides following a link to a page."""
ELEMENTS = {
    "ddeLink": ("dde", "a DDE link"),
    "dde-source": ("dde", "a DDE link"),
    "dde-connection-decl": ("dde", "a DDE link"),
    "oleLink": ("external-links", "a link to an external object"),
    "macrosheet": ("xlm", "a macro sheet"),
    "DataMashup": ("queries", "a query"),
    "connection": ("queries", "a connection to external data"),
    "event-listener": ("macros", "a macro that starts by itself"),
    "control": ("activex", "a control"),
    "customUI": ("macros", "buttons that start macros"),
    "script": ("macros", "a script"),
    "auto-reload": ("external-links", "a document that loads another one by itself"),
    "externalBook": ("external-links", "a link to another workbook"),
    "queryTable": ("queries", "a query"),
    "database-source-query": ("queries", "a query"),
    "database-source-sql": ("queries", "a query"),
    "database-source-table": ("queries", "a query"),
    "volType": ("dde", "values supplied by another program"),
    "mailMerge": ("queries", "a connection to external data"),
}
FIELD = re.compile(r"\bDDE(AUTO)?\b|\bQUOTE(\s+\d{2,3}){3}", re.I)
FIELDS = frozenset(
    """
    = ADDIN ADDRESSBLOCK ADVANCE AUTHOR AUTONUM AUTONUMLGL AUTONUMOUT BIBLIOGRAPHY CITATION COMMENTS COMPARE
    CREATEDATE DATE DOCPROPERTY DOCVARIABLE EDITTIME EQ FILENAME FILESIZE FORMCHECKBOX FORMDROPDOWN FORMTEXT
    GREETINGLINE HYPERLINK IF INDEX INFO KEYWORDS LASTSAVEDBY LISTNUM MERGEFIELD MERGEREC MERGESEQ NEXT NEXTIF NOTEREF
    NUMCHARS NUMPAGES NUMWORDS PAGE PAGEREF PRINTDATE QUOTE REF REVNUM SAVEDATE SECTION SECTIONPAGES SEQ SET SKIPIF
    STYLEREF SUBJECT SYMBOL TA TC TIME TITLE TOA TOC USERADDRESS USERINITIALS USERNAME XE
    """.split()
)
"""Fields that only show, count or link; every other field may read a file, ask, print or start something."""
NESTED = "\0"
"""Marks a nested field in an instruction whose name is not complete: its result becomes part of the name."""
COMPLETE_NAME = re.compile(r"\s*(?:=|[A-Za-z]\w*\s)")
FIELD_NAME = re.compile(r"\s*(=|[A-Za-z]\w*)")
QUOTED = re.compile(r'"(?:[^"]|"")*"')
PIPED = re.compile(r"[\w.$]+\s*\|\s*'?[^!|]*!", re.S)
READS = "a formula that reads external data"
NAMED_SHEET = r"(?:[^'\[\]]|'')*"
OTHER_BOOK = (
    rf"(?<![\w\]\[])\[0*[1-9]\d*\][\w.]*!|'{NAMED_SHEET}\[{NAMED_SHEET}\]{NAMED_SHEET}'!"
    r"|(?:^|[\s\[(,;:=+*/&<>^{|~-])'(?:[^']|'')+'\s*#"
)
"""A sheet or name of another workbook, in the notations of Excel and LibreOffice; not a column of a table."""
COLUMN_NAME = r"(?:[^\[\]']|'['#\[\]@])"
COLUMNS = re.compile(rf"(?<=\w)\[(?:{COLUMN_NAME}|\[{COLUMN_NAME}*+\])*+\]")
"""The columns of a table that a formula reads; in their names, a quote marks the next character."""
COLUMN_ESCAPE = re.compile(r"'['#\[\]@]")
CALL_SHAPES = (
    ("dde", r"\b(RTD|DDE)\s*\(", "a formula that gets values from another program"),
    (
        "external-links",
        r"\b(WEBSERVICE|IMAGE|IMPORT\w+|SQL\.REQUEST|STOCKHISTORY|TRANSLATE|DETECTLANGUAGE|COPILOT)\s*\(",
        READS,
    ),
    ("external-links", OTHER_BOOK, READS),
    ("external-links", r"[a-z][a-z0-9+.-]*:[/\\]|\\\\|\[[^\[\]]*\.(?:xl\w+|csv|od\w|txt|html?)\]", READS),
    ("queries", r"\bCUBE[A-Z]+\s*\(", "a formula that reads a connection"),
    ("scripts", r"\bPY\s*\(", "a formula that runs a remote program"),
    ("xlm", r"\b(CALL|EXEC|REGISTER|REGISTER\.ID|RUN|FOPEN|SHELL)\s*\(", "a formula that runs a program"),
)
CALLS = tuple((family, re.compile(shape, re.I), what) for family, shape, what in CALL_SHAPES)
MEANT_ELSEWHERE = re.compile(r"\bINDIRECT\s*\(.*(?::[/\\]|\\\\|'\s*#|\[)", re.I | re.S)
LINKED = re.compile(r'\bHYPERLINK\s*\([\s(+@=-]*"((?:[^"]|"")+)"', re.I)
JOINED = re.compile(r'"\s*&\s*"')
BLANK = "".join(map(chr, range(33)))
OBJECT_PICTURE = re.compile(r"\./ObjectReplacements/[\w ]+")
TEXTS = ("t", "delText", "instrText", "f", "v", "p")


def inspect_name(part: str, found: Found, where: str) -> None:
    for family, shape, what in NAMED:
        if shape.search(part):
            found.add(family, where, what)


class OfficeParts:
    """Facts that need all parts of a document: the use of each link, and embedded content."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        self.links: dict[tuple[str, str], str] = {}
        """Targets of hyperlink relations, by part and id."""
        self.uses: dict[tuple[str, str], set[str]] = {}
        """Elements, other than clickable ones, that use a relation, by part and id."""
        self.places: list[tuple[str, str, str]] = []
        """Part, element and address of content that an OpenDocument file loads."""

    def judge(self, found: Found, where: str) -> None:
        """Report web pages that something loads without a click, and OpenDocument content outside the file."""
        for key in self.links.keys() & self.uses.keys():
            found.add("external-links", where + key[0], f"{', '.join(sorted(self.uses[key]))} from {self.links[key]}")
        for part, tag, target in self.places:
            if not self.has(part, target):
                family = "remote-template" if tag == "template" else "external-links"
                found.add(family, where + part, f"{tag} from {target}")

    def has(self, part: str, target: str) -> bool:
        """Return whether an address names a part of the file, relative to the referring part's folder or to the top.

        LibreOffice also names pictures of objects that it did not write.
        """
        if OBJECT_PICTURE.fullmatch(target):
            return True
        for folder in (posixpath.dirname(part), ""):
            name = posixpath.normpath(posixpath.join(folder, unquote(target))).lower()
            if name in self.names or any(each.startswith(f"{name}/") for each in self.names):
                return True
        return False


def inspect_xml(part: str, data: bytes, found: Found, where: str, package: OfficeParts) -> None:
    try:
        root = ElementTree.fromstring(data)  # noqa: S314 - it parses where it can hurt nobody, declarations refused before
    except (ElementTree.ParseError, ValueError, LookupError):
        found.add("unreadable", where, "a part that is not XML")
        return
    if part.lower().endswith(".rels"):
        _inspect_relations(root, found, where, _get_source_part(part), package)
    elif part.lower().endswith("[content_types].xml"):
        _inspect_content_types(root, found, where)
    else:
        _inspect_elements(root, found, where, part, package)
        _inspect_fields(root, found, where)
        _inspect_alternatives(root, found, where)
        if get_local_name(root) == "svg":
            active_text.inspect_markup(active_text.decode_text(data) or "", found, where)


def _get_source_part(part: str) -> str:
    folder, name = posixpath.split(part)
    return posixpath.join(posixpath.dirname(folder), name[: -len(".rels")]).lower()


def _inspect_content_types(root: Element, found: Found, where: str) -> None:
    for each in root:
        content_type = each.get("ContentType", "").lower()
        for family, word, what in TYPES:
            if word in content_type:
                found.add(family, each.get("PartName") or where, what)


def _inspect_relations(root: Element, found: Found, where: str, source: str, package: OfficeParts) -> None:
    for each in root:
        kind, target = each.get("Type", "").lower(), each.get("Target", "").strip(BLANK)
        link = kind.endswith("/hyperlink")
        out = link or each.get("TargetMode", "").lower() == "external" or leads_elsewhere(target)
        for family, word, what in RELATIONS:
            if word in kind and (out or family != "remote-template"):
                found.add(family, where, f"{what}: {target}")
        if out and not (link and leads_to_page(target)):
            found.add("external-links", where, f"{kind.rpartition('/')[2]} from {target}")
        elif out:
            package.links[source, each.get("Id", "")] = target


def _inspect_elements(root: Element, found: Found, where: str, part: str, package: OfficeParts) -> None:
    for each in root.iter():
        tag = get_local_name(each)
        if tag in ELEMENTS:
            found.add(ELEMENTS[tag][0], where, ELEMENTS[tag][1])
        if tag in ("f", "definedName", "formula1", "formula2") or tag.lower().endswith("formula"):
            _inspect_formula(each.text or "", found, where)
        if tag == "definedName" and "auto_" in each.get("name", "").lower():
            found.add("xlm", where, f"a macro that starts by itself: {each.get('name', '')}")
        if tag.startswith("hlink") and not JUMPS.fullmatch(each.get("action", "")):
            found.add("external-links", where, f"a click action: {each.get('action')}")
        for key, value in each.attrib.items():
            _inspect_attribute(each.tag, key, value, found, where)
            if key == XLINK and tag != "a" and value.strip(BLANK) and not value.startswith("#"):
                package.places.append((part, tag, value.strip(BLANK)))
            if key[0] == "{" and REFERRING.match(key) and (tag, key.rpartition("}")[2]) not in CLICKED:
                package.uses.setdefault((part.lower(), value), set()).add(tag)


def _inspect_attribute(tag: str, key: str, value: str, found: Found, where: str) -> None:
    word = key.rpartition("}")[2]
    clicked = word == "href" and (tag.startswith(SHAPES) or tag.rpartition("}")[2] == "a")
    if (word == "src" and leads_elsewhere(value)) or (word == "href" and not _is_plain(value, clicked=clicked)):
        found.add("external-links", where, f"{tag.rpartition('}')[2]} from {value}")
    if word in ("formula", "expression", "condition") or word.endswith("range-address"):
        _inspect_formula(value, found, where)


def _is_plain(target: str, *, clicked: bool) -> bool:
    """Return whether an address is empty or that of a web page, or of a part of the file if it is not clicked."""
    return not target or leads_to_page(target) or not (clicked or leads_elsewhere(target))


def _inspect_formula(text: str, found: Found, where: str) -> None:
    bare = COLUMNS.sub(lambda match: COLUMN_ESCAPE.sub("", match[0]), QUOTED.sub('""', text))
    if PIPED.search(bare):
        found.add("dde", where, f"a DDE formula: {text}")
    if any(not leads_to_page(target) for target in LINKED.findall(JOINED.sub("", text))):
        found.add("external-links", where, f"a link that does not lead to a web page: {text}")
    if MEANT_ELSEWHERE.search(JOINED.sub("", text)):
        found.add("external-links", where, f"{READS}: {text}")
    for family, shape, what in CALLS:
        if shape.search(bare):
            found.add(family, where, f"{what}: {text}")


def _inspect_fields(root: Element, found: Found, where: str) -> None:
    """Find fields in text that load or start something; their instructions may be spread over several elements."""
    simple = (each.get(key, "") for each in root.iter() for key in each.attrib if key.endswith("}instr"))
    for instruction, is_loose in (*_iterate_instructions(root), *((each, False) for each in simple)):
        if FIELD.search(instruction if is_loose else QUOTED.sub('""', instruction)):
            found.add("dde", where, f"a DDE field: {instruction.strip()}")
        elif not is_shown(instruction) or find_field_link(instruction, anywhere=is_loose):
            found.add("external-links", where, f"a field that reads external data: {instruction.strip()}")


def is_shown(instruction: str) -> bool:
    named = FIELD_NAME.match(instruction) if NESTED not in instruction else None
    return named[1].upper() in FIELDS if named else not instruction.strip()


class OpenField:
    """A field whose end was not reached: its instruction, which a separator ends; then its result follows."""

    def __init__(self, *, ended: bool = False) -> None:
        self.instruction = ""
        self.loose = ""
        """Instructions that belong to no field, in the result or outside of fields; only odd files have them."""
        self.ended = ended

    def add(self, text: str, *, innermost: bool) -> None:
        if not self.ended:
            self.instruction += text
        elif innermost:
            self.loose += text

    def nest(self) -> None:
        if not self.ended and not COMPLETE_NAME.match(self.instruction):
            self.instruction += NESTED

    def list_instructions(self) -> set[tuple[str, bool]]:
        """Return the possible instructions, and whether each holds loose ones."""
        return {(self.instruction, False), (self.instruction + self.loose, self.loose != "")}


def _iterate_instructions(root: Element) -> Iterator[tuple[str, bool]]:
    """Yield the instructions of fields, and whether they hold loose ones; a nested one is part of both."""
    open_fields = [OpenField(ended=True)]
    for each in root.iter():
        tag = get_local_name(each)
        if tag == "fldChar":
            kind = next((value for key, value in each.attrib.items() if key.endswith("}fldCharType")), "")
            if kind == "begin":
                _nest(open_fields)
                open_fields.append(OpenField())
            elif kind == "separate":
                open_fields[-1].ended = True
            elif kind == "end" and len(open_fields) > 1:
                yield from open_fields.pop().list_instructions()
        elif tag == "fldSimple":
            _nest(open_fields)
        elif tag == "instrText" and each.text:
            for field in open_fields:
                field.add(each.text, innermost=field is open_fields[-1])
    for field in open_fields:
        yield from field.list_instructions()


def _nest(open_fields: list[OpenField]) -> None:
    for field in open_fields:
        field.nest()


def _inspect_alternatives(root: Element, found: Found, where: str) -> None:
    """Find content that some programs show and others do not."""
    for each in root.iter(COMPATIBLE + "AlternateContent"):
        choices = [_collect_words_and_links(one) for one in each if one.tag == COMPATIBLE + "Choice"]
        other = next(
            (_collect_words_and_links(one) for one in each if one.tag == COMPATIBLE + "Fallback"), ("", frozenset())
        )
        for words, links in choices:
            if words != other[0] or not other[1] <= links:
                found.add(
                    "alternate-content",
                    where,
                    f"{words or 'parts'} in some programs, {other[0] or 'other parts'} in others",
                )


def _collect_words_and_links(root: Element) -> tuple[str, frozenset[str]]:
    words = "".join(each.text or "" for each in root.iter() if get_local_name(each) in TEXTS)
    links = {
        value
        for each in root.iter()
        for key, value in each.attrib.items()
        if "/relationships}" in key and get_local_name(each) not in ("svgBlip",)
    }
    return " ".join(words.split()), frozenset(links)


def get_local_name(each: Element) -> str:
    return str(each.tag).rpartition("}")[2]
