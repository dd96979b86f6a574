"""This process's own streams."""

from __future__ import annotations

import os
import sys

from hotdesk.errors import make_printable

FAILED = 125
"""Exit code for hotdesk's own failure, as `docker run` has it; a command's own codes pass through."""


def has_standard_streams() -> bool:
    try:
        for fd in (0, 1, 2):
            os.fstat(fd)
    except OSError:
        return False
    return True


def complain(text: str) -> None:
    print(f"hotdesk: {make_printable(text)}", file=sys.stderr)
