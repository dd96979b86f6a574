"""The users of a sandbox: `user`, `root`, and others that its image has."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from starlette.requests import Request

from hotdesk.api.e2b.envd.connect import RpcError
from hotdesk.dataclass import dataclass

if TYPE_CHECKING:
    from hotdesk.api.e2b.envd.envd import EnvdCall


@dataclass(frozen=True, slots=True)
class User:
    """The user for whom something is done."""

    name: str
    number: int
    """The user id, and the id of its group."""
    home: str


_USERS = {user.name: user for user in (User("user", 1000, "/home/user"), User("root", 0, "/root"))}
DEFAULT = _USERS["user"]
_SHAPE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_LOOK_UP = "import pwd, sys; found = pwd.getpwnam(sys.argv[1]); print(found.pw_uid, found.pw_dir)"
_FOUND = re.compile(r"([0-9]{1,5}) (/[^\n\0]{0,1000})\n")
_TIMEOUT_S = 10.0
BECOME = (
    "import os, pwd, sys; user = pwd.getpwnam(sys.argv[1]); os.initgroups(sys.argv[1], user.pw_gid); "
    "os.setgid(user.pw_gid); os.setuid(user.pw_uid); "
    "os.environ.update(HOME=user.pw_dir, USER=sys.argv[1], LOGNAME=sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])"
)
"""Program to be run as root: becomes another user, then runs the given command."""


def find_user(name: str) -> User:
    """Return a user that every sandbox has; without a name, the default one."""
    found = _USERS.get(name) if name else DEFAULT
    if found is None:
        raise RpcError("unauthenticated", f"invalid username: '{name[:100]}'")
    return found


def read_user_name(request: Request) -> str:
    """Return the user name in a request; empty if there is none."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[0]
    except ValueError:
        raise RpcError("unauthenticated", "invalid username: ''") from None


async def find_caller(call: EnvdCall) -> User:
    """Return the user of a call: the one it names, otherwise the sandbox's default user."""
    return await look_up(call, read_user_name(call.request))


async def look_up(call: EnvdCall, name: str) -> User:
    """Return a user of a sandbox; without a name, its default. What the image says of others is only used inside."""
    name = name or call.sandbox.user
    if not name or name in _USERS or not _SHAPE.fullmatch(name):
        return find_user(name)
    argv = ["python3", "-I", "-S", "-c", _LOOK_UP, name]
    done = await call.sandbox.desk.run(argv, timeout=_TIMEOUT_S, output_limit=2000)
    found = _FOUND.fullmatch(done.text)
    if found is None:
        return find_user(name)
    return User(name, int(found[1]), found[2])


def as_user(user: User, argv: list[str]) -> tuple[str, list[str]]:
    """Return the user and arguments for running a program in a desk: users beside `user` and `root` start as root."""
    if user.name in _USERS:
        return user.name, argv
    return "root", ["python3", "-I", "-S", "-c", BECOME, user.name, *argv]
