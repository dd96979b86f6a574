"""Start the keeper as a program. Imports almost nothing."""

from __future__ import annotations

import os
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))
"""The folder of hotdesk's packages."""
START = "import gc,sys;gc.disable();sys.path.insert(0,sys.argv[2]);from hotdesk.desk.keeper import keeper;keeper.main()"
"""The keeper's program. Garbage is collected once after all imports, instead of a dozen times during them."""


def launch(settings: str, line: int) -> int:
    """Start a keeper for the owner at the other end of the socket `line`; return its pid.

    It gets a session of its own, so that Ctrl-C reaches only the owner, and inherits no environment variables.
    """
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    stderr = 2 if os.environ.get("HOTDESK_DEBUG") else null
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-B", "-c", START, settings, SOURCE],
            {"PATH": os.defpath},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, line, 3),
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, null, 1),
                (os.POSIX_SPAWN_DUP2, stderr, 2),
            ],
            setsid=True,
            setsigmask=(),
        )
    finally:
        os.close(null)
