"""The standard streams of this process."""

from __future__ import annotations

import os
import sys

from hotdesk.errors import make_printable

FAILED = 125
"""Exit code of hotdesk's own failures, as for `docker run`; a command's exit codes are passed through."""


def has_standard_streams() -> bool:
    try:
        for fd in (0, 1, 2):
            os.fstat(fd)
    except OSError:
        return False
    return True


def complain(text: str) -> None:
    print(f"hotdesk: {make_printable(text)}", file=sys.stderr)
