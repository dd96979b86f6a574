"""Attacks with signed addresses of files: to exceed a tenant's rate, to use it up, to wake a sandbox. No desk opens."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import anyio
import httpx
import pytest
from starlette.types import Receive, Scope, Send

from hotdesk.api.e2b.defaults import Defaults
from hotdesk.api.e2b.envd import envd, signing
from hotdesk.api.e2b.envd.signed_files import SignedFiles
from hotdesk.api.e2b.ports.traffic import AT_ONCE, Traffic
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes
from hotdesk.api.http.dispatch import Aim
from hotdesk.api.quotas import Quota, QuotaLimits, Quotas
from hotdesk.api.settings import Serving
from hotdesk.brief.data import CLOSED
from hotdesk.desk.seam import DeskId, Spec
from hotdesk.errors import DeskError
from tests.security.guards import Removal, falls_without, no_guard

ID = DeskId("i" + "0" * 20)
TOKEN = "0123456789abcdef" * 4
FILE = "/home/user/a"
RATE = 1
"""Requests a second that the tenant has; twice as many come in a burst."""
WAYS = ("of a sandbox", "of none")
"""Whether an address names its sandbox, or its signature alone does."""


@dataclass
class Computer:
    """A desk that starts no program: what reads a file ends with 502."""

    id: DeskId = ID
    resumed: int = 0

    async def resume(self) -> None:
        self.resumed += 1

    async def start(self, argv: object, **options: object) -> None:
        raise DeskError("no program can be started")


@dataclass
class Front:
    """A sandbox, and both ways to its files."""

    sandbox: Sandbox
    traffic: Traffic
    signed: SignedFiles
    way: str = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.way == "of none":
            await self.signed(scope, receive, send)
            return
        scope["aim"] = Aim(ID, envd.PORT)
        await self.traffic(scope, receive, send)

    async def read(self, way: str, token: str = TOKEN, **headers: str) -> int:
        """Read a file with an address that a token signed; return the status."""
        self.way = way
        signature = signing.Signed(FILE, "read", "", "", "").compute_signature(token)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self), base_url="http://127.0.0.1") as client:
            answer = await client.get("/files", params={"path": FILE, "signature": signature}, headers=headers)
        return answer.status_code


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    now = time.time()
    tenant = cast(Any, SimpleNamespace(name="acme", host=SimpleNamespace(has_ended=lambda desk: False)))
    sandbox = Sandbox(cast(Any, Computer()), tenant, "base", Spec(), CLOSED, TOKEN, now, now + 60)
    async with anyio.create_task_group() as tasks:
        sandboxes = Sandboxes(Serving(), tasks, Defaults(CLOSED, {}))
        sandboxes.add(sandbox)
        traffic = Traffic(sandboxes, Quotas(QuotaLimits(Quota(calls=RATE))))
        yield Front(sandbox, traffic, SignedFiles(traffic))


@falls_without(
    "signed addresses count",
    Removal("ports/traffic.py", "        if envd.is_authorized(Request(scope), sandbox):\n", "        if False:\n"),
    Removal("envd/signed_files.py", '                self.traffic.quotas.ask(sandbox.tenant.name, "calls")\n', ""),
)
@pytest.mark.parametrize("way", WAYS)
async def test_signed_requests_do_not_exceed_the_tenants_rate(front: Front, way: str) -> None:
    assert [await front.read(way) for _ in range(2 * RATE + 1)] == [502] * 2 * RATE + [429]


@falls_without(
    "strangers' addresses do not count",
    Removal("ports/traffic.py", "        if envd.is_authorized(Request(scope), sandbox):\n", "        if True:\n"),
)
async def test_wrong_signatures_use_nothing_of_the_tenants_rate(front: Front) -> None:
    assert [await front.read(WAYS[0], "guessed") for _ in range(2 * RATE + 1)] == [401] * (2 * RATE + 1)
    assert await front.read(WAYS[0]) == 502


@falls_without(
    "signed requests at once",
    Removal(
        "ports/traffic.py", "        if self.under_way[place] >= AT_ONCE:\n", "        if self.under_way[place] < 0:\n"
    ),
)
@pytest.mark.parametrize("way", WAYS)
async def test_signed_requests_at_once_are_limited(front: Front, way: str) -> None:
    front.traffic.under_way[ID, True] = AT_ONCE
    assert await front.read(way) == 429


@falls_without("the token of who wakes a sandbox", cases="of a sandbox")
@falls_without("the signature of an address", cases="of none")
@pytest.mark.parametrize("way", WAYS)
async def test_a_wrong_signature_wakes_no_sandbox(front: Front, way: str) -> None:
    front.sandbox.state, front.sandbox.auto_resume = "paused", True
    assert await front.read(way, "guessed") == 401
    assert (front.sandbox.state, front.sandbox.desk.resumed) == ("paused", 0)  # type: ignore[attr-defined]


@falls_without("the token of who wakes a sandbox")
async def test_a_wrong_token_beside_a_valid_signature_wakes_no_sandbox(front: Front) -> None:
    front.sandbox.state, front.sandbox.auto_resume = "paused", True
    assert await front.read(WAYS[0], **{"X-Access-Token": "guessed"}) == 401
    assert front.sandbox.state == "paused"


@no_guard("no attack: what all the others differ from")
@pytest.mark.parametrize("way", WAYS)
async def test_a_valid_signature_wakes_a_sandbox_with_auto_resume_only(front: Front, way: str) -> None:
    front.sandbox.state = "paused"
    assert await front.read(way) == 502
    assert front.sandbox.state == "paused"
    front.sandbox.auto_resume = True
    assert await front.read(way) == 502
    assert (front.sandbox.state, front.sandbox.desk.resumed) == ("running", 1)  # type: ignore[attr-defined]
