"""The users of a sandbox, as its callers name them."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from starlette.requests import Request

from hotdesk.api.e2b.envd.connect import RpcError


@dataclass(frozen=True, slots=True)
class User:
    """Who something is done for."""

    name: str
    number: int
    """Of the user, and of its group."""
    home: str


_USERS = {user.name: user for user in (User("user", 1000, "/home/user"), User("root", 0, "/root"))}
DEFAULT = _USERS["user"]


def find_user(name: str) -> User:
    """Give a user; without a name, the usual one."""
    found = _USERS.get(name) if name else DEFAULT
    if found is None:
        raise RpcError("unauthenticated", f"invalid username: '{name[:100]}'")
    return found


def caller(request: Request) -> User:
    """Say as whom a call shall act."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return DEFAULT
    try:
        name = base64.b64decode(credentials, validate=True).decode().partition(":")[0]
    except ValueError:
        raise RpcError("unauthenticated", "invalid username: ''") from None
    return find_user(name)
