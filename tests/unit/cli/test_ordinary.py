"""Tests of the note that tells an ordinary user whose state directory a command reads."""

from __future__ import annotations

import pytest

from hotdesk.cli import COMMANDS
from hotdesk.cli.ordinary import OF_THE_MACHINE, describe_own_state


@pytest.mark.parametrize("command", sorted(OF_THE_MACHINE))
def test_an_ordinary_user_is_told_whose_state_this_is(command: str) -> None:
    assert f"`sudo hotdesk {command}`" in describe_own_state(command, 1000, {}, is_set_up=True)


@pytest.mark.parametrize(
    ("command", "uid", "environ", "is_set_up"),
    [
        ("jobs", 0, {}, True),
        ("jobs", 1000, {"HOTDESK_HOME": "/srv/desks"}, True),
        ("jobs", 1000, {}, False),
        ("run", 1000, {}, True),
    ],
)
def test_no_other_user_is_told(command: str, uid: int, environ: dict[str, str], is_set_up: bool) -> None:
    assert describe_own_state(command, uid, environ, is_set_up) == ""


def test_the_commands_exist() -> None:
    assert set(COMMANDS) >= OF_THE_MACHINE
