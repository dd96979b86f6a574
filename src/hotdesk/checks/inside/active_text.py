"""Finds active content in text files: formulas, scripts, bidirectional characters. Runs inside a clean desk."""

from __future__ import annotations

import codecs
import csv
import html
import re
import unicodedata

from hotdesk.checks.inside import active_links, active_markup, active_prose
from hotdesk.checks.inside.active_found import Found

MARKUP = ("html", "htm", "xhtml", "svg", "xml", "xsl", "xslt", "mht", "mhtml", "vml")
TABLES = ("csv", "tsv", "tab")
OPENED_AS_TEXT = (*MARKUP, *TABLES, *active_prose.PROSE)
"""Suffixes of files that programs open as text, whatever their first bytes are."""
CODE = ("py", "sh", "js", "c", "rs", "go", "java", "patch", "diff", "sql", "toml", "yaml", "yml", "json", "ini")
SNIFFED = 1500
"""Number of characters in which a browser looks for markup."""
MOST_CELLS = 5_000_000
BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"), (b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"),
)  # fmt: skip
SYLK = re.compile(r"\ufeff?ID;")
CONTROL = re.compile(r"[\0-\x06\x0e-\x1a\x1c-\x1f]")
BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
STARTS = re.compile(r"\s*(?:<!--.*?-->\s*)*<[!?a-zA-Z]", re.S)
INSIDE = re.compile(r"<(?:!doctype|html|svg|script|iframe|body|head|img)\b", re.I)
NUMBER = re.compile(r"[+-]?\s?[$€£¥]?\s?[\d.,][\d.,'\u2019\s\u00a0\u202f()/-]*(?:[eE][+-]?\d+)?\s?[%$€£¥]?")
SUM = re.compile(r"\d\s*[-/]\s*\d")
DDE = re.compile(r"[=+\-@]\s*[\w.()*/]*\|\s*'?[^|!]{0,200}!", re.S)
EQUALS = ("=", "@")
SIGNS = ("+", "-", "\u2212")
"""Characters that start a formula. Other widths of them count too, because some programs treat them alike."""
INVISIBLE = frozenset({"Cc", "Cf", "Cn", "Co", "Zs", "Zl", "Zp", "Mn", "Me"})
"""Categories of invisible characters, which programs drop before the start of a formula."""
SEPARATOR = re.compile(r"[\s\ufeff\"']*sep=(.)", re.I)
"""A first line in which a table declares its delimiter."""
BY_ITSELF = ("\t", "\r", "\n")
AWAY = r"\s*=\s*[\"']?\s*(?:https?:|ftp:|file:|//|\\\\)"
FETCHING = r"(?:src|srcset|poster|background|action|formaction|data|(?:xlink:)?href)"
HANDLER = "an event handler"
SHAPES = (
    ("scripts", r"<\s*(?:[\w-]+:)?script\b", "a script"),
    ("scripts", r"<[^<>]*?[\s/\"']on[a-z]{3,}\s*=", HANDLER),
    ("scripts", r"(?:java|vb)\s*script\s*:", "a script link"),
    ("scripts", r"<\s*(?:[\w-]+:)?(?:foreignObject|handler|i?frame|object|embed|applet)\b", "an embedded document"),
    ("scripts", r"data:\s*(?:text/html|image/svg|application/x?html|text/xml)", "a document inside a data link"),
    (
        "scripts",
        r"<\s*meta(?:[^<>]|<(?!\s*meta))*?http-equiv\s*=\s*[\"']?\s*refresh",
        "a page that redirects by itself",
    ),
    ("external-references", r"<(?!\s*a\b)(?:[^<>]|<(?=\s*a\b))*?\b" + FETCHING + AWAY, "an external resource"),
    (
        "external-references",
        r"(?:url\(|@import)\s*[\"'(]*\s*(?:https?:|ftp:|file:|//|\\\\)",
        "an external resource",
    ),
    ("external-references", r"<\?xml-stylesheet\b", "a style sheet"),
    ("entities", r"<!ENTITY|<!DOCTYPE(?:[^<>\[]|<(?!!DOCTYPE))*+\[", "an entity"),
    (
        "entities",
        r"<!DOCTYPE(?:[^<>]|<(?!!DOCTYPE))*?\b(?:SYSTEM|PUBLIC)\s+(?!\"-//W3C//DTD)",
        "an external definition",
    ),
)
"""Each ends where the next of its kind begins, which is found by itself: a text of many takes linear time."""
TAGS = tuple((family, re.compile(shape, re.I), what) for family, shape, what in SHAPES)
ROOT = re.compile(r"\ufeff?\s*(?:<\?(?:[^?]|\?(?!>))*+\?>\s*|<!--(?:[^-]|-(?!->))*+-->\s*)*+<(?:[\w.-]+:)?([\w.-]+)")
"""The name of an XML document's first element."""
SPACES = re.compile(r"1999/xhtml|2000/svg|xsl/transform", re.I)
"""Namespaces whose elements a browser acts on, whatever the first element is."""
ENCODED = re.compile(r"&#(x?)([0-9a-fA-F]{1,7});?|&(Tab|NewLine|colon);")
SPELT = {"Tab": "\t", "NewLine": "\n", "colon": ":"}
RICH_SHAPES = (
    ("embedded", r"\\obj(data|ect|emb|ocx|html|update|class)", "an object"),
    ("remote-template", r"\\\*\s*\\template\s+[^}]*(://|\\\\)", "a linked template"),
    ("dde", r"\bDDE(AUTO)?\b", "a DDE field"),
    ("external-links", r"\b(INCLUDEPICTURE|INCLUDETEXT|LINK)\s+\"?\S*(://|\\\\)", "a field that reads external data"),
    ("embedded", r"\\(bin|blob)\d", "raw bytes"),
)
RICH_FIELD = re.compile(r"\\fldinst\b((?:[^\\]|\\(?!fldinst|fldrslt))*+)")
"""An instruction, up to its result or a nested one."""
RICH_FORMAT = (
    "f fs cf cb b i ul ulnone strike caps scaps v plain cs lang langnp langfe langfenp alang noproof rtlch ltrch fcs af"
    " afs ab ai hich loch dbch insrsid charrsid kerning expnd expndtw sub super nosupersub up dn highlight par"
)
RICH_PLAIN = re.compile(rf"(?:[^\\]|\\(?:{'|'.join(RICH_FORMAT.split())})(?:-?\d++)?+(?![a-zA-Z]))*+")
"""Text in which only known formatting stands between the words, so that its first word is the field's name."""
RICH_WORD = re.compile(r"\\[a-z]+-?\d*\s?|\\\*|[{}]")
"""Formatting between the words of a field."""
RICH = tuple((family, re.compile(shape, re.I), what) for family, shape, what in RICH_SHAPES)


def decode_text(data: bytes) -> str | None:
    for mark, encoding in BOMS:
        if data.startswith(mark):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError:
                return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return None if CONTROL.search(text) else text


def look(text: str, suffix: str, code: bool, found: Found, where: str) -> None:
    if match := BIDI.search(text):
        found.add(
            "bidi", f"{where}line {text.count(chr(10), 0, match.start()) + 1}", "bidirectional control characters"
        )
    if text.lstrip("\ufeff \t\r\n").startswith("{\\rt"):
        _inspect_rich_text(text, found, where)
    elif SYLK.match(text) and not code:
        found.add("legacy-format", where, "a legacy table format that can run programs")
    elif text.startswith("#!") and not code:
        found.add("programs", where, "an executable script")
    elif text.lstrip("\ufeff \r\n").startswith(("[Desktop Entry]", "[InternetShortcut]")):
        found.add("programs", where, "a shortcut that starts a program")
    if suffix in active_prose.PROSE or suffix in active_prose.MESSAGES:
        for each in active_prose.inspect_prose(text, suffix, found, where):
            inspect_markup(each, found, where)
    elif _is_markup(text, suffix, code):
        inspect_markup(text, found, where, is_data=suffix == "xml" and _is_data(text))
    elif suffix in TABLES or (not code and suffix not in CODE):
        _inspect_table(text, suffix in TABLES, found, where)


def _is_markup(text: str, suffix: str, code: bool) -> bool:
    if suffix in MARKUP or STARTS.match(text.lstrip("\ufeff")):
        return True
    return not code and suffix not in (*CODE, *TABLES) and INSIDE.search(text[:SNIFFED]) is not None


def _is_data(text: str) -> bool:
    """Return whether the text is XML in which no element is one of a page or drawing."""
    root = ROOT.match(text)
    if root is None or "\x1b" in text:  # which some encodings drop
        return False
    return root[1].lower() not in ("html", "svg") and not SPACES.search(html.unescape(text))


def inspect_markup(text: str, found: Found, where: str, *, is_data: bool = False) -> None:
    meant = ENCODED.sub(_decode_character, text)
    for one in {text, meant, re.sub(r"[\t\r\n\0]", "", meant)}:
        for family, shape, what in TAGS:
            if (what != HANDLER or not is_data) and (match := shape.search(one)):
                found.add(family, where, f"{what}: {match.group()[-80:]}")
    active_markup.inspect_tags(text, found, where, is_data=is_data)
    for one in {text, html.unescape(text)}:
        active_markup.inspect_styles(one, found, where)


def _decode_character(match: re.Match[str]) -> str:
    if match[3]:
        return SPELT[match[3]]
    try:
        number = int(match[2], 16 if match[1] else 10)
        return chr(number) if number < 128 else match[0]
    except ValueError:
        return match[0]


def _inspect_rich_text(text: str, found: Found, where: str) -> None:
    meant = re.sub(r"\\'([0-9a-fA-F]{2})", lambda match: chr(int(match[1], 16)), text)
    for family, shape, what in RICH:
        if shape.search(text) or shape.search(meant):
            found.add(family, where, what)
    marked = meant.replace("\\\\", "\0")  # backslashes of the text, which begin no formatting
    for field in RICH_FIELD.finditer(marked):
        nested = ' "a nested field"' if marked.startswith("\\fldinst", field.end()) else ""
        bare = RICH_WORD.sub("", field[1]).replace("\0", "\\") + nested
        if target := active_links.find_field_link(bare, anywhere=not RICH_PLAIN.fullmatch(field[1])):
            found.add("external-links", where, f"a link that does not lead to a web page: {target[:80]}")


def _inspect_table(text: str, named: bool, found: Found, where: str) -> None:
    if match := DDE.search(text):
        found.add("dde", where, f"a DDE formula: {match.group()}")
    first, *others = _list_delimiters(text, named) or [""]
    for number, row in enumerate(_split_rows(text, first) if first else (), 1):
        for cell in row:
            if _is_formula(cell, named):
                found.add("formulas", f"{where}line {number}", f"a cell that a spreadsheet would calculate: {cell}")
    for mark in others:
        for number, row in enumerate(_split_rows(text, mark), 1):
            for cell in row:
                if len(cell) > 1 and normalize_first_char(strip_invisible(cell)) == "=":
                    found.add(
                        "formulas", f"{where}line {number}", f"a cell that some spreadsheets would calculate: {cell}"
                    )


def _list_delimiters(text: str, named: bool) -> list[str]:
    """List the possible delimiters, the likeliest first, because programs differ.

    Text without a table's suffix counts as a table if all of its lines have the same number of delimiters.
    """
    lines = [line for line in text[: 1 << 20].splitlines() if line.strip()]
    declared = SEPARATOR.match(text)
    if declared:
        return [declared[1], *(mark for mark in ",;\t|" if mark != declared[1])]
    if named:
        return sorted(",;\t|", key=lambda mark: -lines[0].count(mark)) if lines else []
    widths = {mark: {line.count(mark) for line in lines} for mark in ",;\t"}
    return [mark for mark, found in widths.items() if len(lines) > 1 and len(found) == 1 and found != {0}]


def _split_rows(text: str, mark: str) -> list[list[str]]:
    """Split a table into cells; split it naively if the parser refuses it."""
    csv.field_size_limit(1 << 24)
    lines = text.lstrip("\ufeff").splitlines(keepends=True)
    try:
        return list(csv.reader(lines, delimiter=mark))
    except (csv.Error, TypeError, ValueError):
        return [line.split(mark) for line in lines]


def _is_formula(cell: str, named: bool) -> bool:
    bare = strip_invisible(cell)
    sign = normalize_first_char(bare)
    if sign in (*EQUALS, *SIGNS) and strip_invisible(cell, but=BY_ITSELF)[:1] in BY_ITSELF:
        return True
    if sign in EQUALS:
        return len(bare) > 1
    if sign not in SIGNS:
        return False
    return len(bare.strip()) > 1 and (named or bare[1:2] != " ") and not _is_number(sign + bare[1:].strip())


def strip_invisible(cell: str, but: tuple[str, ...] = ()) -> str:
    """Return a cell from its first visible character, or one of `but`; quotes are skipped."""
    for place, each in enumerate(cell):
        if each in but or not (each in "'\"" or unicodedata.category(each) in INVISIBLE):
            return cell[place:]
    return ""


def normalize_first_char(text: str) -> str:
    return text[:1] if text[:1].isascii() else unicodedata.normalize("NFKC", text[:1])


def _is_number(text: str) -> bool:
    """Return whether a cell that starts with a sign is a number or a telephone number, and not a calculation."""
    return NUMBER.fullmatch(text) is not None and not SUM.search(text[1:])
