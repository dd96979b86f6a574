"""Finds desks by id or by a unique prefix of it."""

from __future__ import annotations

import re

from hotdesk.config import Config
from hotdesk.desk.seam import ID_SHAPE, DeskId
from hotdesk.errors import BriefError, make_printable

MIN_PREFIX = 4
_PREFIX_SHAPE = re.compile(r"i[a-z0-9]{0,20}")


def find_desk(settings: Config, text: str) -> DeskId:
    """Return the desk with this id or unique prefix. Open desks are listed only for a prefix."""
    if ID_SHAPE.fullmatch(text):
        return DeskId(text)
    found = begin_with(settings, text)
    if len(found) > 1:
        raise BriefError(f"several open desks start with {text!r}: {', '.join(found)}; pass more characters of the id")
    if not found:
        raise BriefError(
            f"{make_printable(text[:40])!r} is not the id of an open desk{_describe_prefix_rule(text)}; `hotdesk "
            "ps` lists open desks"
        )
    return found[0]


def begin_with(settings: Config, text: str) -> list[DeskId]:
    if len(text) < MIN_PREFIX or not _PREFIX_SHAPE.fullmatch(text):
        return []
    from hotdesk.cli.desks.ps import find_desks

    return sorted(DeskId(str(desk["id"])) for desk in find_desks(settings) if str(desk["id"]).startswith(text))


def _describe_prefix_rule(text: str) -> str:
    if _PREFIX_SHAPE.fullmatch(text):
        return (
            f" (a prefix needs at least {MIN_PREFIX} characters)" if len(text) < MIN_PREFIX else " or a prefix of one"
        )
    return ""
