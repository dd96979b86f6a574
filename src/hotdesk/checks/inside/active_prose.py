"""Finds active content in Markdown, reStructuredText, notebooks and messages. Runs inside a clean desk.

Their viewers show HTML of the text, fetch its pictures, and follow its links. Code in a text of Markdown is shown and
does nothing. It is left out only where every common viewer agrees that it is code; otherwise the whole text is
inspected.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator

from hotdesk.checks.inside import active_kinds
from hotdesk.checks.inside.active_found import Found
from hotdesk.checks.inside.active_links import leads_elsewhere, leads_to_page, strip_controls
from hotdesk.checks.inside.active_markup import ANY_BYTES, CARRIED

MARKDOWN = ("md", "markdown", "mdown", "mkd", "mkdn", "mdwn", "mdx", "qmd", "rmd")
MESSAGES = ("eml", "mbox", "mht", "mhtml")
PROSE = (*MARKDOWN, "rst", "ipynb", "eml", "mbox")
"""Suffixes of texts that viewers turn into a page."""
MAX_TEXTS = 100_000
"""Maximum texts of one notebook."""
FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*([\w+#.-]*)[ \t]*")
"""The line before a block of code. Braces after it can mean that the block is HTML."""
DRAWN = frozenset(("dot", "flowchart", "graphviz", "math", "mermaid", "plantuml", "raw", "svg", "vega"))
"""Languages whose blocks some viewers draw."""
SPAN = re.compile(r"(`{1,2})(?!`)[^`|]+\1(?![`{])")
"""Code in a line. With a bar in it, a table may end it."""
HTML = re.compile(r"<[a-z/!?_:\u0080-\U0010ffff]", re.I)
HARMLESS = re.compile(r"<(?:https?://|mailto:)[\w./?=&%#:@+~,;-]*>|(?<=[\w.,;:)%])</?(?:br|sub|sup) ?/?>", re.I)
"""A link, and a tag that does nothing and begins no block."""
UNCLEAR = re.compile(r"`|~~~|\r(?!\n)|%%|\$\$|\\[(\[]|\\begin\b")
"""Formulas, remarks and unmatched marks of code, which may contain marks of code or end inside it."""
TARGET = r"[\s>]*+(?:<([^\n]{0,300})|(\S{1,300}))"
LINK = re.compile(r"\]\(" + TARGET)
PICTURE = re.compile(r"!\[[^\[\]]*\]\(" + TARGET)
DEFINITION = re.compile(r"\]:[\s>]*+(?:<([^\n]{0,300})|(\S{1,300}+)(?=[ \t]*+(?:[\r\n\"'(]|\Z)|\S))")
"""The target of a name, which ends its line or is followed by a title."""
BRACKETED = re.compile(r"<([a-z][a-z0-9+.-]{1,31}:[^<>\s]{0,300})>", re.I)
DIRECTIVE = re.compile(
    r"\.\.[ \t]+(?:\|[^|\n]{1,80}\|[ \t]+)?(?:image|figure|include|literalinclude)::[ \t]*(\S{1,300})"
    r"|:(?:url|file):[ \t]*(\S{1,300})",
    re.I,
)
"""What a text in reStructuredText shows from elsewhere."""
RST_LINK = re.compile(r"^[ \t]*(?:\.\.[ \t]+_[^:\n]{1,200}:|__|:target:)[ \t]+(\S{1,300})", re.M)
ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
ENCODING = re.compile(
    r"content-transfer-encoding[ \t]*+:\s*+(?!(?:7bit|8bit|binary)[ \t]*(?:[\r\n;]|\Z))([^\r\n]{0,40})", re.I
)
LETTERS = re.compile(
    r"\bcharset[ \t]*+\*?\d?\*?[ \t]*+=\s*+[\"']?+(?!(?:utf-8|us-ascii|iso-8859-\d+|windows-125\d)\b)"
    r"([^\r\n\"';]{0,40})",
    re.I,
)
ATTACHED = re.compile(
    r"^(?:content-[a-z]+[ \t]*:|[ \t])[^\r\n]*?\b(?:file)?name[^=\r\n]{0,9}=\s*\"?([^\r\n\";]{1,200})",
    re.I | re.M,
)
TYPE = re.compile(r"[a-z]+/[\w.+-]+")
SHOWN = frozenset(("text/html", "text/markdown", "text/latex", "image/svg+xml"))
PLAIN = frozenset(("text/plain", "image/png", "image/jpeg", "image/gif", "image/webp", "application/json"))
"""Types of a notebook's output that are shown as they are."""
SAID = frozenset(("traceback", "evalue", "ename"))


def inspect_prose(text: str, suffix: str, found: Found, where: str) -> Iterator[str]:
    """Find links and pictures that lead elsewhere; yield the texts whose markup a viewer shows."""
    if suffix == "ipynb":
        for each, is_markdown in _list_notebook_texts(text, found, where):
            yield from _inspect_markdown(_strip_code(each) if is_markdown else each, found, where)
        return
    if suffix in MESSAGES:
        _inspect_message(text, found, where)
        yield text
        return
    if suffix == "rst":
        _inspect_directives(text, found, where)
        yield text
        return
    yield from _inspect_markdown(_strip_code(text), found, where)


def _inspect_markdown(text: str, found: Found, where: str) -> Iterator[str]:
    _inspect_targets(text, found, where)
    if _has_html(text):
        yield text


def _has_html(text: str) -> bool:
    return HTML.search(HARMLESS.sub("", text)) is not None


def _strip_code(text: str) -> str:
    """Return a text of Markdown without its code, or the whole text if viewers could differ about what is code."""
    rest, fence = [], ""
    for line in text.split("\n"):
        bare = line.rstrip("\r \t")
        if fence:
            if bare.lstrip().startswith(("```", "~~~")):
                if bare != fence:
                    return text
                fence = ""
        elif (start := FENCE.fullmatch(bare)) and start[2].lower() not in DRAWN:
            fence = start[1]
        else:
            rest.append(line)
    shown = "\n".join(line if "$" in line else SPAN.sub("", line) for line in rest)
    has_header = text.lstrip("\ufeff").startswith(("---", "+++", ";;;"))  # which some viewers end inside a block
    unclear = fence or has_header or _has_html(shown) or UNCLEAR.search(shown) or "\\`" in text
    return text if unclear else shown


def _inspect_targets(text: str, found: Found, where: str) -> None:
    # A picture can name its target elsewhere, or have brackets in its description: then any target may be a picture's.
    unclear = text.count("![") > len(PICTURE.findall(text))
    for match in PICTURE.finditer(text):
        _inspect_picture(match[1] or match[2] or "", found, where)
    for shape in (LINK, DEFINITION):
        for match in shape.finditer(text):
            target = match[1] or match[2] or ""
            _inspect_link(target, found, where)
            if unclear:
                _inspect_picture(target, found, where)
    for match in BRACKETED.finditer(text):
        _inspect_link(match[1], found, where)


def _inspect_directives(text: str, found: Found, where: str) -> None:
    for match in BRACKETED.finditer(text):
        _inspect_link(match[1], found, where)
    for match in DIRECTIVE.finditer(text):
        _inspect_picture(match[1] or match[2], found, where)
    for match in RST_LINK.finditer(text):
        _inspect_link(match[1], found, where)


def _inspect_link(target: str, found: Found, where: str) -> None:
    """Judge a link as one in a web page: relative, or to a page."""
    for each in _list_readings(target):
        bare = strip_controls(each)
        carried = CARRIED.match(bare) and not ANY_BYTES.match(bare)
        if leads_elsewhere(each) and not leads_to_page(each) and not carried:
            what = f"a link that does not lead to a web page: {target[:80]}"
            found.add("external-references", where, what)
            return


def _inspect_picture(target: str, found: Found, where: str) -> None:
    """Find a picture that is neither relative nor inside its own address."""
    for each in _list_readings(target):
        if leads_elsewhere(each) and not CARRIED.match(strip_controls(each)):
            found.add("external-references", where, f"a picture from elsewhere: {target[:80]}")
            return


def _list_readings(target: str) -> set[str]:
    """List what an address means with its entities and backslashes read or not."""
    plain = html.unescape(target)
    return {target, plain, ESCAPE.sub(r"\1", target), ESCAPE.sub(r"\1", plain)}


def _inspect_message(text: str, found: Found, where: str) -> None:
    """Find parts of a message that are not written as they are read, and attached programs."""
    for match in ENCODING.finditer(text):
        what = f"a part of a message with the transfer encoding {match[1].strip()!r}; write it as 8bit, or save a page"
        found.add("unreadable", where, what)
    for match in LETTERS.finditer(text):
        found.add("unreadable", where, f"a part of a message in the letters {match[1].strip()!r}; write it in utf-8")
    for match in ATTACHED.finditer(text):
        if not active_kinds.is_inert_name(match[1].strip()):
            found.add("programs", where, f"an attached program: {match[1].strip()[:80]}")


def _list_notebook_texts(text: str, found: Found, where: str) -> Iterator[tuple[str, bool]]:
    """Yield every text of a notebook except code and plain output, and whether it is Markdown."""
    try:
        stack: list[tuple[object, bool]] = [(json.loads(text), False)]
    except (ValueError, RecursionError):
        found.add("unreadable", where, "a notebook that is not JSON")
        return
    number = 0
    while stack:
        value, is_markdown = stack.pop()
        if isinstance(value, dict):
            stack.extend(_list_shown(value, found, where))
        elif isinstance(value, list) and not all(isinstance(each, str) for each in value):
            stack.extend((each, False) for each in value)
        elif isinstance(value, str | list):
            number += 1
            if number > MAX_TEXTS:
                found.add("unreadable", where, f"a notebook of more than {MAX_TEXTS:,} texts")
                return
            yield value if isinstance(value, str) else "".join(map(str, value)), is_markdown


def _list_shown(value: dict[str, object], found: Found, where: str) -> Iterator[tuple[object, bool]]:
    for key, inside in value.items():
        if TYPE.fullmatch(key) and key not in SHOWN | PLAIN:
            found.add("scripts", where, f"an output of a type that a viewer may run: {key}")
        cell = value.get("cell_type") if key == "source" else None
        is_stream = key == "text" and value.get("output_type") == "stream"
        if cell != "code" and not is_stream and key not in PLAIN | SAID:
            yield inside, cell == "markdown"
