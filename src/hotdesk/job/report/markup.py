"""HTML built from elements. Every text is escaped, and raw text cannot be inserted."""

from __future__ import annotations

import html
import re
import unicodedata
from typing import TypeAlias
from urllib.parse import unquote

from hotdesk.errors import escape_character, make_printable

TAGS = frozenset(
    "a bdi body br caption code dd details div dl dt figcaption figure footer h1 h2 h3 h4 head header html img li main "
    "meta nav ol p rect section span strong style summary svg table tbody td th thead time title tr ul".split()
)
"""The only elements a report may contain. None of them runs, loads or sends anything."""
ATTRIBUTES = frozenset(
    "alt aria-hidden aria-label aria-labelledby charset class colspan content datetime height href http-equiv id lang "
    "loading name preserveAspectRatio role scope src viewBox width x y".split()
)
EMPTY = frozenset("br img meta rect".split())
MARKS = 4
"""Maximum combining marks on one letter; no script in use has more."""
BESIDE = re.compile(r"\./[A-Za-z0-9._~%-]+(?:/[A-Za-z0-9._~%-]+)*")
"""Form of a link to a file beside the report."""
PICTURE = "data:image/jpeg;base64,"
"""Start of every picture's URL, so that nothing is fetched."""


class Markup:
    """HTML that this module made."""

    __slots__ = ("html",)

    def __init__(self, html: str) -> None:
        self.html = html


Child: TypeAlias = "Markup | str | int | None"
"""Content of an element. Text is escaped, `None` is omitted."""


def tag(name: str, /, *children: Child, **attributes: str | int | None) -> Markup:
    """Make an element. In attribute names, a trailing `_` is dropped and other underscores become hyphens."""
    if name not in TAGS or (name == "style" and not all(isinstance(child, Markup) for child in children)):
        raise ValueError(f"a report must not contain the element {name}")
    pairs = "".join(_format_attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    if name in EMPTY:
        return Markup(f"<{name}{pairs}>" if name != "rect" else f"<rect{pairs}/>")
    return Markup(f"<{name}{pairs}>{''.join(map(_render_child, children))}</{name}>")


def _format_attribute(name: str, value: str | int | None) -> str:
    """Format an attribute. Links must point into the page or to a file beside it, and pictures must be data URLs."""
    if value is None:
        return ""
    text = str(value)
    wrong = (name == "href" and not is_near(text)) or (name == "src" and not text.startswith(PICTURE))
    if name not in ATTRIBUTES or wrong:
        raise ValueError(f"a report must not contain this attribute: {name}")
    return f' {name}="{escape(text)}"'


def is_near(link: str) -> bool:
    return link.startswith("#") or (BESIDE.fullmatch(link) is not None and ".." not in unquote(link).split("/"))


def _render_child(child: Child) -> str:
    if isinstance(child, Markup):
        return child.html
    return "" if child is None else escape(str(child))


def escape(text: str) -> str:
    return html.escape(escape_stacked_marks(make_printable(text)), quote=True)


def escape_stacked_marks(text: str) -> str:
    """Escape excess combining marks on a letter: they would be drawn over neighbouring lines."""
    if text.isascii():
        return text
    shown, run = [], 0
    for character in text:
        run = run + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        shown.append(character if run <= MARKS else escape_character(character))
    return "".join(shown)


def join_markup(*parts: Markup | None) -> Markup:
    return Markup("".join(part.html for part in parts if part is not None))


def isolate(text: str, longest: int = 300) -> Markup:
    """Mark up untrusted text so that it cannot change the direction of the text beside it."""
    return tag("bdi", cut(text, longest))


def render_block(text: str, longest: int = 1200) -> Markup:
    lines = cut(text.strip("\n"), longest).split("\n")
    parts = [part for line in lines for part in (tag("br"), tag("bdi", line))]
    return tag("div", join_markup(*parts[1:]), class_="words")


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text) - longest:,} more characters)"
