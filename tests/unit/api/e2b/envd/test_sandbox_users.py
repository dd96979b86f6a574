"""Tests of a sandbox's extra users: the image's user entries are untrusted, and only used inside."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hotdesk.api.e2b.envd.connect import RpcError
from hotdesk.api.e2b.envd.users import User, as_user, look_up
from hotdesk.desk.seam import Done


class Inside:
    """A desk that answers whatever a test wants."""

    def __init__(self, reply: bytes) -> None:
        self.reply = reply
        self.requests: list[list[str]] = []

    async def run(self, argv: list[str], **more: object) -> Done:
        self.requests.append(argv)
        return Done(0, self.reply)


def call(desk: Inside, default: str = "") -> Any:
    return SimpleNamespace(sandbox=SimpleNamespace(desk=desk, user=default))


async def test_a_user_of_the_image_is_found_inside() -> None:
    desk = Inside(b"999 /home/guest\n")
    assert await look_up(call(desk), "guest") == User("guest", 999, "/home/guest")
    assert await look_up(call(desk, "guest"), "") == User("guest", 999, "/home/guest")
    assert desk.requests[0][-1] == "guest"


@pytest.mark.parametrize(("name", "default"), [("", ""), ("user", "guest"), ("root", ""), ("", "root")])
async def test_the_standard_users_need_no_lookup(name: str, default: str) -> None:
    desk = Inside(b"")
    assert (await look_up(call(desk, default), name)).name == (name or default or "user")
    assert desk.requests == []


@pytest.mark.parametrize(
    "reply",
    [b"", b"x /home\n", b"-1 /home\n", b"999999 /home\n", b"1 home\n", b"1 /a\n2 /b\n", b"1 /" + b"a" * 2000 + b"\n",
     b"1 /a\0b\n", b"\xff\xfe\n"],
)  # fmt: skip
async def test_a_malformed_reply_is_not_a_user(reply: bytes) -> None:
    with pytest.raises(RpcError, match="invalid username: 'guest'"):
        await look_up(call(Inside(reply)), "guest")


@pytest.mark.parametrize("name", ["-x", "a b", "a;b", "0", "x" * 33, "a\nb", "../x"])
async def test_an_invalid_name_is_not_looked_up(name: str) -> None:
    desk = Inside(b"1 /home\n")
    with pytest.raises(RpcError, match="invalid username"):
        await look_up(call(desk), name)
    assert desk.requests == []


def test_only_extra_users_are_started_as_root() -> None:
    assert as_user(User("user", 1000, "/home/user"), ["id"]) == ("user", ["id"])
    runs_as, argv = as_user(User("guest", 999, "/home/guest"), ["id", "-u"])
    assert runs_as == "root"
    assert argv[-3:] == ["guest", "id", "-u"]
