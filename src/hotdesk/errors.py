"""The error tree, split by who must act.

    HotdeskError
    ├── BriefError        the caller: a wrong value, name or path
    ├── HostError         the operator: this machine lacks something; the message says what, and the remedy
    │   └── WallError     the wall that a desk needs is not available here
    ├── ImageError        the operator: an image is missing, broken or cannot be built
    ├── DeskError         no one: this desk is gone or broke; open another
    │   ├── DeskGone      it was burnt, or its keeper or guest died
    │   │   └── NodeLost  its node was lost, through no fault of the desk
    │   └── LinkError     its guest broke the protocol or stopped answering
    ├── KeeperError       the operator: the privileged child refused or failed
    ├── DoorError         the operator: a desk's door failed its self-test; the message says which canary
    └── ModelError        the operator: no model answers; the message says which, and why

A result is not an error: exit code 1, a missing program or a missing file in a desk's listing are values. A failed file
operation inside a desk is a `FileError`, a `DeskError` that the caller can act on.
"""

from __future__ import annotations

UNSEEN = frozenset(
    chr(code)
    for codes in ((0x34F,), range(0x115F, 0x1161), (0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0), range(0x180B, 0x1810),
                  range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
    for code in codes
)  # fmt: skip
"""Letters and marks that are invisible: fillers and variation selectors."""


def make_printable(text: str) -> str:
    """Escape characters that could control a terminal or be invisible: control, bidirectional and zero-width ones.

    Every text that a desk may have influenced must pass through this before a person sees it.
    """
    if text.isascii() and text.isprintable():
        return text
    shown = (c if c.isprintable() and c not in UNSEEN else escape_character(c) for c in text)
    return "".join(shown)


def escape_character(character: str) -> str:
    """Escape a character like Python's `repr`."""
    return character.encode("unicode_escape", "surrogatepass").decode()


class HotdeskError(Exception):
    """A failed operation. The message says what failed, why, and what to do."""

    code = "hotdesk"


class BriefError(HotdeskError):
    """The caller's request is invalid."""

    code = "brief"

    def __init__(self, message: str = "", faults: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.faults = faults
        """The faults of a brief that has several: each with its line, the reason and a correction."""


class HostError(HotdeskError):
    """This machine lacks something hotdesk needs."""

    code = "host"


class WallError(HostError):
    """This machine cannot provide the wall that a desk needs. The message names the remedy and may be shown."""

    code = "host.wall"


class ImageError(HotdeskError):
    """An image is missing, broken or cannot be built."""

    code = "image"


class KeeperError(HotdeskError):
    """The privileged child refused a request or failed at it."""

    code = "keeper"


class DoorError(HotdeskError):
    """A desk's door failed its self-test."""

    code = "door"


class ModelError(HotdeskError):
    """A model could not be reached, or its answer is unusable."""

    code = "model"


class DeskError(HotdeskError):
    """This desk could not carry out the request."""

    code = "desk"


class DeskGone(DeskError):  # noqa: N818 - a state, and read as one: `except DeskGone`
    """The desk no longer exists."""

    code = "desk.gone"


class NodeLost(DeskGone):
    """The desk no longer exists because its node was lost."""


class LinkError(DeskError):
    """The desk's guest broke the protocol or stopped answering."""

    code = "desk.link"


class FileError(DeskError):
    """A file operation inside a desk failed; `reason` is one of `FILE_REASONS`."""

    code = "desk.file"

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def unwrap_group(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error inside nested exception groups: in a task group, one failure cancels the other tasks."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def explain_extra(extra: str) -> str:
    """Return how to install an extra. pipx replaces what it installed, so its command names the usual extras, too."""
    usual = ",".join(dict.fromkeys(("serve", "models", extra)))
    return (
        f"run pip install 'hotdesk[{extra}]', or, if pipx installed hotdesk: sudo pipx install --global --force "
        f"'hotdesk[{usual}]'"
    )


FILE_REASONS = frozenset(
    {"missing", "exists", "denied", "directory", "not-directory", "full", "not-empty", "invalid", "other"}
)
"""Reasons of a failed file operation: the fixed table that a guest's reply is checked against."""
