"""Tests of what desks of a client may reach: the internet, and this machine's own package sources."""

from __future__ import annotations

import pytest

from hotdesk.api.native.desks.egress_limits import require_public
from hotdesk.door.policy.scope import scope_of
from hotdesk.errors import BriefError

MIRROR = "http://10.1.2.3:3141/root/simple"


@pytest.fixture(autouse=True)
def mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", MIRROR)
    monkeypatch.setenv("npm_config_registry", "http://10.1.2.4/npm/")


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["pypi", "read https://example.test", "deny 10.0.0.0/8"])
def test_the_internet_and_the_machines_own_packages_are_reached(rule: str) -> None:
    require_public(scope_of([rule]).rules)


@pytest.mark.sample(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    "rule",
    [
        "10.1.2.3",
        "GET http://10.1.2.3:3141/root/private/*",
        "write http://10.1.2.3:3141/root/**",
        "read http://10.1.2.3:3142/root/**",
        "read *.example.test private",
        "127.0.0.1",
    ],
)
def test_other_local_addresses_are_not_reached(rule: str) -> None:
    with pytest.raises(BriefError, match="is not a public internet host"):
        require_public(scope_of([rule]).rules)
