"""What in the parts of an office document acts, or leads out of it. Run inside a clean desk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from hotdesk.checks.inside.active_found import Found

Element = ElementTree.Element
COMPATIBLE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
XLINK = "{http://www.w3.org/1999/xlink}href"
PARTS: tuple[tuple[str, str, str], ...] = (
    ("macros", r"vbaProject|vbaData|customUI/|(^|/)Basic/|(^|/)Scripts/", "macros"),
    ("xlm", r"xl/(intl)?macrosheets/", "a sheet of macros"),
    ("external-links", r"xl/externalLinks/", "a link to another workbook"),
    ("external-links", r"webextension", "an add-in from elsewhere"),
    ("queries", r"xl/(connections|queryTables/|queries/|model/)", "a query"),
    ("activex", r"/activeX/|/ctrlProps/", "a control"),
)
"""What a part's name gives away."""
NAMED = tuple((family, re.compile(shape, re.I), what) for family, shape, what in PARTS)
TYPES: tuple[tuple[str, str, str], ...] = (
    ("macros", "vbaproject", "macros"),
    ("macros", "macroenabled", "a kind of document that has macros"),
    ("xlm", "macrosheet", "a sheet of macros"),
    ("activex", "activex", "a control"),
    ("unknown-format", "sheet.binary", "a workbook that is not looked into"),
)
"""What a part's content type gives away."""
RELATIONS: tuple[tuple[str, str, str], ...] = (
    ("remote-template", "attachedtemplate", "a template from elsewhere"),
    ("embedded", "afchunk", "a document inside"),
    ("activex", "/control", "a control"),
    ("macros", "vbaproject", "macros"),
    ("macros", "/ui/extensibility", "buttons that start macros"),
    ("xlm", "macrosheet", "a sheet of macros"),
    ("external-links", "/externallink", "a link to another workbook"),
)
ELEMENTS = {
    "ddeLink": ("dde", "a DDE link"),
    "dde-source": ("dde", "a DDE link"),
    "dde-connection-decl": ("dde", "a DDE link"),
    "oleLink": ("external-links", "a link to an object elsewhere"),
    "macrosheet": ("xlm", "a sheet of macros"),
    "DataMashup": ("queries", "a query"),
    "connection": ("queries", "a connection to data elsewhere"),
    "event-listener": ("macros", "a macro that starts by itself"),
    "control": ("activex", "a control"),
    "mailMerge": ("queries", "a connection to data elsewhere"),
}
FIELD = re.compile(r"\bDDE(AUTO)?\b|\bQUOTE(\s+\d{2,3}){3}", re.I)
FIELD_OUT = re.compile(r"^\s*(INCLUDETEXT|INCLUDEPICTURE|LINK|IMPORT|DATABASE|RD|MACROBUTTON|AUTOTEXT\s+http)\b", re.I)
QUOTED = re.compile(r'"(?:[^"]|"")*"')
PIPED = re.compile(r"[\w.$]+\s*\|\s*'?[^!|]*!", re.S)
CALL_SHAPES = (
    ("dde", r"\b(RTD|DDE)\s*\(", "a formula that has another program give values"),
    ("external-links", r"\b(WEBSERVICE|IMAGE|IMPORT\w+)\s*\(|\[\d+\]|https?://|\\\\", "a formula that reads elsewhere"),
    ("xlm", r"\b(CALL|EXEC|REGISTER|REGISTER\.ID|RUN|FOPEN|SHELL)\s*\(", "a formula that runs something"),
)
CALLS = tuple((family, re.compile(shape, re.I), what) for family, shape, what in CALL_SHAPES)
ELSEWHERE = r"\s*(?!https?:|mailto:|tel:|#)(?:[a-z][a-z0-9+.-]*:|//|\\\\)"
LINKED = re.compile(r'\bHYPERLINK\s*\(\s*"' + ELSEWHERE, re.I)
FIELD_LINKED = re.compile(r'\bHYPERLINK\s+"?' + ELSEWHERE, re.I)
JOINED = re.compile(r'"\s*&\s*"')
SAFE = re.compile(r"(https?:|mailto:|tel:|#)", re.I)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:|//|\\\\", re.I)
TEXTS = ("t", "delText", "instrText", "f", "v", "p")


def name(part: str, found: Found, where: str) -> None:
    """Find what a part's name gives away."""
    for family, shape, what in NAMED:
        if shape.search(part):
            found.add(family, where, what)


def xml(part: str, data: bytes, found: Found, where: str) -> None:
    """Find what one part holds."""
    try:
        root = ElementTree.fromstring(data)  # noqa: S314 - it parses where it can hurt nobody, declarations refused before
    except (ElementTree.ParseError, ValueError, LookupError):
        found.add("unreadable", where, "a part that is no XML")
        return
    if part.lower().endswith(".rels"):
        relations(root, found, where)
    elif part.lower().endswith("[content_types].xml"):
        content_types(root, found, where)
    else:
        elements(root, found, where)
        fields(root, found, where)
        alternatives(root, found, where)


def content_types(root: Element, found: Found, where: str) -> None:
    """Find kinds of parts that act."""
    for each in root:
        told = each.get("ContentType", "").lower()
        for family, word, what in TYPES:
            if word in told:
                found.add(family, each.get("PartName") or where, what)


def relations(root: Element, found: Found, where: str) -> None:
    """Find what leads out of the document."""
    for each in root:
        kind, target = each.get("Type", "").lower(), each.get("Target", "")
        out = each.get("TargetMode", "").lower() == "external" or bool(SCHEME.match(target))
        for family, word, what in RELATIONS:
            if word in kind and (out or family != "remote-template"):
                found.add(family, where, f"{what}: {target}")
        if out and not (kind.endswith("/hyperlink") and is_plain(target)):
            found.add("external-links", where, f"{kind.rpartition('/')[2]} from {target}")


def is_plain(target: str) -> bool:
    """Say whether a link only leads to a page once somebody clicks it."""
    return bool(SAFE.match(target)) or not SCHEME.match(target)


def elements(root: Element, found: Found, where: str) -> None:
    """Find elements and formulas that act."""
    for each in root.iter():
        tag = local(each)
        if tag in ELEMENTS:
            found.add(ELEMENTS[tag][0], where, ELEMENTS[tag][1])
        if tag in ("f", "definedName", "formula1", "formula2") or tag.lower().endswith("formula"):
            formula(each.text or "", found, where)
        if tag == "definedName" and "auto_" in each.get("name", "").lower():
            found.add("xlm", where, f"a macro that starts by itself: {each.get('name', '')}")
        if (link := each.get(XLINK)) and tag != "a" and SCHEME.match(link):
            found.add("external-links", where, f"{tag} from {link}")
        for key, value in each.attrib.items():
            word = key.rpartition("}")[2]
            if (word == "src" and SCHEME.match(value)) or (word == "href" and key != XLINK and not is_plain(value)):
                found.add("external-links", where, f"{tag} from {value}")
            if key.endswith("}formula"):
                formula(value.partition("=")[2] or value, found, where)


def formula(text: str, found: Found, where: str) -> None:
    """Find formulas that reach out of their workbook."""
    bare = QUOTED.sub('""', text)
    if PIPED.search(bare):
        found.add("dde", where, f"a DDE formula: {text}")
    if LINKED.search(JOINED.sub("", text)):
        found.add("external-links", where, f"a link that is none to a page: {text}")
    for family, shape, what in CALLS:
        if shape.search(bare):
            found.add(family, where, f"{what}: {text}")


def fields(root: Element, found: Found, where: str) -> None:
    """Find fields of a text that fetch or start something; their words may be spread over many elements."""
    for told in (
        *instructions(root),
        *(each.get(key, "") for each in root.iter() for key in each.attrib if key.endswith("}instr")),
    ):
        if FIELD.search(told):
            found.add("dde", where, f"a DDE field: {told.strip()}")
        elif FIELD_OUT.match(told) or FIELD_LINKED.search(told):
            found.add("external-links", where, f"a field that reads elsewhere: {told.strip()}")


def instructions(root: Element) -> Iterator[str]:
    """Give what fields are told to do; one inside another counts for both."""
    open_fields: list[str] = []
    for each in root.iter():
        tag = local(each)
        if tag == "fldChar":
            kind = next((value for key, value in each.attrib.items() if key.endswith("}fldCharType")), "")
            if kind == "begin":
                open_fields.append("")
            elif kind == "end" and open_fields:
                yield open_fields.pop()
        elif tag == "instrText" and each.text:
            open_fields = [told + each.text for told in open_fields] or [each.text]
    yield from open_fields


def alternatives(root: Element, found: Found, where: str) -> None:
    """Find what one program shows and another does not."""
    for each in root.iter(COMPATIBLE + "AlternateContent"):
        choices = [essence(one) for one in each if one.tag == COMPATIBLE + "Choice"]
        other = next((essence(one) for one in each if one.tag == COMPATIBLE + "Fallback"), ("", frozenset()))
        for words, links in choices:
            if words != other[0] or not other[1] <= links:
                found.add(
                    "alternate-content", where, f"{words or 'other parts'} for some, {other[0] or 'others'} for others"
                )


def essence(root: Element) -> tuple[str, frozenset[str]]:
    """Give the words of an alternative, and the parts it points to."""
    words = "".join(each.text or "" for each in root.iter() if local(each) in TEXTS)
    links = {
        value
        for each in root.iter()
        for key, value in each.attrib.items()
        if "/relationships}" in key and local(each) not in ("svgBlip",)
    }
    return " ".join(words.split()), frozenset(links)


def local(each: Element) -> str:
    """Give an element's name without its namespace."""
    return str(each.tag).rpartition("}")[2]
