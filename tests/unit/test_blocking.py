"""Tests that the library without async has the methods of the one with it."""

from __future__ import annotations

from inspect import Parameter, signature

import pytest

from hotdesk import blocking
from hotdesk.client import Client, FarDesk, FarVault

STREAMED = {("events", "follow")}
"""Parameters that only an async caller has: a call that blocks returns what there is."""


def parameters(kind: type, method: str) -> set[str]:
    found = signature(getattr(kind, method)).parameters.values()
    return {each.name for each in found if each.kind is not Parameter.VAR_KEYWORD}


@pytest.mark.parametrize(
    ("plain", "waiting"),
    [
        (Client, blocking.BlockingClient),
        (FarDesk, blocking.ServerDesk),
        (FarVault, blocking.ServerVault),
    ],
)
def test_every_method_of_a_server_can_be_called_without_async(plain: type, waiting: type) -> None:
    methods = {name for name in vars(plain) if not name.startswith("_")}
    assert methods - set(dir(waiting)) == set()
    for name in methods - {"work"}:  # its options are passed on as they are
        missing = parameters(plain, name) - parameters(waiting, name)
        assert {(name, each) for each in missing} <= STREAMED
