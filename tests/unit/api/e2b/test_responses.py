"""Tests of error responses: E2B clients get what they can act on, and nothing that only the operator needs."""

from __future__ import annotations

import json

import pytest

from hotdesk.api.e2b.responses import make_refusal
from hotdesk.api.walls import TenantWalls
from hotdesk.errors import BriefError, DeskGone, HostError, WallError
from hotdesk.walls import TRAITS, WallCatalog, WallStatus

REQUEST = {"type": "http", "method": "POST", "path": "/sandboxes"}
PLAIN = WallCatalog({"container": WallStatus("container", TRAITS["container"])})


def test_an_unavailable_wall_is_reported_with_reason_and_remedy() -> None:
    with pytest.raises(WallError) as raised:
        TenantWalls(PLAIN, usual="gvisor").of("acme")
    refusal = make_refusal(raised.value, REQUEST)
    message = json.loads(bytes(refusal.make_response().body))["message"]
    assert refusal.status == 503
    assert refusal.make_response().headers["should-retry"] == "false"
    assert "the wall gvisor is not available here: it is not set up" in message
    assert "`hotdesk setup --wall gvisor` sets it up" in message


def test_the_refusal_to_share_a_kernel_between_tenants_has_a_remedy() -> None:
    with pytest.raises(WallError) as raised:
        TenantWalls(PLAIN, count=lambda: 2).of("acme")
    assert 'write wall = "container" below [serve]' in str(make_refusal(raised.value, REQUEST))


@pytest.mark.parametrize(
    ("error", "status"),
    [(HostError("/var/lib/secret is full"), 503), (BriefError("no such size"), 400), (DeskGone("it is gone"), 404)],
)
def test_errors_only_the_operator_can_fix_are_not_detailed(error: Exception, status: int) -> None:
    refusal = make_refusal(error, REQUEST)
    assert refusal.status == status
    assert "/var/lib" not in str(refusal)


def test_control_characters_are_escaped() -> None:
    assert "\x1b" not in str(make_refusal(WallError("the wall \x1b[31m is not there"), REQUEST))
