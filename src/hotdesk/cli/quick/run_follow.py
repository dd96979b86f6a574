"""Follows the command of `hotdesk run` on the desk that was opened for it, and then burns the desk."""

from __future__ import annotations

import _socket
import time

from hotdesk.cli.quick.arguments import QuickRun
from hotdesk.cli.quick.follow import Deaf, Follower
from hotdesk.cli.quick.link_socket import CHUNK
from hotdesk.cli.quick.signals import SIGPIPE, EndingSignals, Interrupted
from hotdesk.cli.quick.streams import FAILED, complain
from hotdesk.errors import DeskGone, HotdeskError
from hotdesk.linux.landlock import confine
from hotdesk.linux.pace import scale_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

BURN_SECONDS = 30.0
"""Maximum seconds to wait until a desk is burnt."""


def follow(follower: Follower, order: QuickRun, burn: Callable[[], None]) -> int:
    """Run the command and return its exit code. Its desk is burnt before this returns, whatever happens."""
    ask: dict[str, object] = {"op": "exec", "argv": order.command, "stdin": True, "tell": True}
    if order.timeout is not None:
        ask["timeout"] = int(order.timeout * 1000)
    try:
        confine([])
        return follower.run(ask, order.timeout)
    except Interrupted as e:
        return 128 + e.number
    except Deaf:
        return 128 + SIGPIPE
    except HotdeskError as e:
        complain(str(e))
        return FAILED
    finally:
        burn()


def follow_lease(sock: _socket.socket, rest: bytes, signals: EndingSignals, order: QuickRun) -> int:
    return follow(Follower(sock, rest, signals, _explain_end), order, lambda: wait_burnt(sock))


def _explain_end() -> HotdeskError:
    """Return the error for a holder that closed the connection without a message."""
    return DeskGone("the background process that opened the desk ended, so the desk was burnt; run the command again")


def wait_burnt(sock: _socket.socket) -> None:
    """Shut down the sending side, and wait until the holder has burnt the desk and closed the connection."""
    end = time.monotonic() + scale_seconds(BURN_SECONDS)
    try:
        sock.shutdown(_socket.SHUT_WR)
        while (remaining := end - time.monotonic()) > 0:
            sock.settimeout(remaining)
            if not sock.recv(CHUNK):
                return
    except OSError:
        pass  # the holder is gone: its keeper burns the desk
