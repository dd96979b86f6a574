"""`hotdesk ssh --stdio ID`: connects to the desk's owner or its server before slow imports."""

from __future__ import annotations

import _socket
import os

from hotdesk.cli.quick.call import OPEN_SECONDS, ask, dial
from hotdesk.cli.quick.exec import ID_LENGTH, find_owner
from hotdesk.cli.quick.place import MAX_PATH_BYTES, Place
from hotdesk.cli.quick.streams import has_standard_streams
from hotdesk.errors import HostError
from hotdesk.linux.ownership import is_private
from hotdesk.linux.pace import scale_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SERVER = "serve.sock"


def run(desk: str) -> int | None:
    """Serve an SSH client; return `None` if the desk cannot be found this way, before anything was done."""
    path = find_path(desk) if has_standard_streams() else None
    if path is None:
        return None
    try:
        first = dial_owner(path)()
    except HostError:
        return None
    if not ask(first, f"/desks/{desk}/link"):
        return None
    from hotdesk.cli.ssh.stdio import serve

    return serve(desk, dial_owner(path), first)


def find_path(desk: str) -> str | None:
    """Return the socket of a desk's owner, or that of the server for an ordinary user; `None` if there is none."""
    if len(desk) != ID_LENGTH or not (desk.isascii() and desk.isalnum()):
        return None
    if os.geteuid() == 0:
        place = Place()
        owner = find_owner(place, desk) if place.is_known else None
        return None if owner is None else f"{place.control}/{owner}.sock"
    if "HOTDESK_TENANT" in os.environ:
        return None
    server, home, runtime = (os.environ.get(name) for name in ("HOTDESK_SERVER", "HOTDESK_HOME", "XDG_RUNTIME_DIR"))
    if server or home:
        return server or f"{os.path.abspath(home or '')}/run/{SERVER}"
    own = f"{runtime}/hotdesk/{SERVER}"
    return own if runtime and is_private(os.path.dirname(own)) and os.path.exists(own) else f"/run/hotdesk/{SERVER}"


def dial_owner(path: str) -> Callable[[], _socket.socket]:
    def call() -> _socket.socket:
        sock = dial(path) if os.geteuid() == 0 else connect(path)
        if sock is None:
            raise HostError(f"no process answers at {path}, so the desk is not open; `hotdesk ps` lists open desks")
        return sock

    return call


def connect(path: str) -> _socket.socket | None:
    """Connect to a server, whose socket's mode is the access control; return `None` if there is none."""
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        return None
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        sock.settimeout(scale_seconds(OPEN_SECONDS))
        sock.connect(path)
    except PermissionError as e:
        sock.close()
        raise HostError(
            f"this user may not use {path}; ask the administrator to add you to the group hotdesk "
            "(`usermod -aG hotdesk USER`), and sign in again"
        ) from e
    except OSError:
        sock.close()
        return None
    return sock
