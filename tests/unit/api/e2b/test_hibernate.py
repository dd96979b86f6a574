"""Tests of hibernating a server's sandboxes when some of them cannot be saved."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from hotdesk.api.e2b.defaults import Defaults
from hotdesk.api.e2b.hibernate import SavedSandboxes, get_folder, make_record, read
from hotdesk.api.e2b.identity import build_tokens
from hotdesk.api.e2b.network import resolve_scope
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes
from hotdesk.api.settings import Serving
from hotdesk.brief import parse_scope, scope_json
from hotdesk.brief.data import CLOSED
from hotdesk.desk.seam import DeskId, Spec
from hotdesk.errors import HostError

pytestmark = pytest.mark.anyio
IDS = ["i" + letter * 20 for letter in "abc"]


@dataclass
class Computer:
    """A desk that can be saved, or not."""

    id: DeskId
    fails: str = ""

    async def pause(self, *, memory: bool) -> None:
        assert not memory

    async def resume(self) -> None:
        pass

    async def save(self, name: str) -> None:
        if self.fails == "hangs":
            await anyio.sleep_forever()
        if self.fails:
            raise HostError("the disk is full")


@dataclass
class Noted:
    """Snapshots that only record what is about to be made."""

    images: list[str] = field(default_factory=list)

    async def expect(self, tenant: object, *images: str) -> None:
        self.images += images


def tenant_in(lib: Path) -> Any:
    return SimpleNamespace(
        name="default", settings=SimpleNamespace(lib=lib), host=SimpleNamespace(has_ended=lambda desk: False)
    )


def sandbox_of(tenant: Any, desk: Computer, **more: Any) -> Sandbox:
    now = time.time()
    return Sandbox(cast(Any, desk), tenant, "base", Spec(), CLOSED, "token", now, now + 60, **more)


@pytest.mark.slow
async def test_sandboxes_that_cannot_be_saved_in_time_are_burnt_and_the_others_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant, noted = tenant_in(tmp_path), Noted()
    desks = [Computer(DeskId(name), fails) for name, fails in zip(IDS, ("", "full", "hangs"), strict=True)]
    async with anyio.create_task_group() as tasks:
        sandboxes = Sandboxes(Serving(), tasks, Defaults(CLOSED, {}))
        for desk in desks:
            sandboxes.add(sandbox_of(tenant, desk))
        left = SavedSandboxes(sandboxes, cast(Any, noted), cast(Any, None), seconds=1.0)
        with anyio.fail_after(30):
            await left.leave()
    assert [each.id for each in read(get_folder(tenant))] == IDS[:1]
    assert sorted(noted.images) == sorted(each.saved_image for each in sandboxes.by_id.values())
    said = capsys.readouterr().err
    assert "sandboxes being hibernated: 3;" in said
    assert "the disk is full" in said
    assert "sandboxes that could not be hibernated and were burnt: 2" in said


async def test_a_record_has_everything_the_client_requested(tmp_path: Path) -> None:
    tenant = tenant_in(tmp_path)
    headers = {
        "X-Pass": "k\xe9y", "x-other": "2", "X-Secret": "token ${e2b.secrets.a} v1",
        "Authorization": "Bearer ${e2b.secrets.b}",
        "X-Token": "svid=${e2b.identity.tokens.An ERP}",
    }  # fmt: skip
    proxy = {"address": "p.example.com:1080", "username": "a", "password": "b", "tls": {"enabled": True}}
    rules = {"api.example.test": [{"transform": {"headers": headers}}]}
    told = {"denyOut": ["0.0.0.0/0"], "allowOut": ["api.example.test"], "rules": rules, "egressProxy": proxy}
    iam = {"An ERP": "erp.example"}
    sandbox = sandbox_of(tenant, Computer(DeskId(IDS[0])), network=told, saved_image="snapshot-" + "x" * 20, iam=iam)
    sandbox.scope = resolve_scope(Serving(), told, tokens=build_tokens(Serving(), "default", iam))
    assert parse_scope(json.loads(scope_json(sandbox.scope))) == sandbox.scope
    async with anyio.create_task_group() as tasks:
        left = SavedSandboxes(Sandboxes(Serving(), tasks, Defaults(CLOSED, {})), cast(Any, None), cast(Any, None))
        left.stop(sandbox)
        again = await left.find_scope(make_record(sandbox), "default")
    assert (again, again.values) == (sandbox.scope, sandbox.scope.values)
    assert sandbox.state == "paused"


@pytest.mark.parametrize(
    ("state", "auto_pause", "whole"), [("running", False, False), ("running", True, True), ("paused", False, True)]
)
async def test_records_expire_with_their_timeout_or_the_maximum_age(
    tmp_path: Path, state: Any, auto_pause: bool, whole: bool
) -> None:
    sandbox = sandbox_of(tenant_in(tmp_path), Computer(DeskId(IDS[0])), state=state, auto_pause=auto_pause)
    ends = sandbox.ends
    async with anyio.create_task_group() as tasks:
        serving = Serving(longest=1000.0)
        SavedSandboxes(Sandboxes(serving, tasks, Defaults(CLOSED, {})), cast(Any, None), cast(Any, None)).stop(sandbox)
    assert sandbox.until == (sandbox.started + 1000.0 if whole else ends)


async def test_a_sandbox_whose_record_cannot_be_removed_runs_on_once_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant = tenant_in(tmp_path)
    sandbox = sandbox_of(tenant, Computer(DeskId(IDS[0])), state="paused", saved_image="snapshot-" + "x" * 20)
    get_folder(tenant).mkdir(parents=True)
    get_folder(tenant).chmod(0o755)  # the server refuses to write there
    async with anyio.create_task_group() as tasks:
        sandboxes = Sandboxes(Serving(), tasks, Defaults(CLOSED, {}))
        sandboxes.saved = SavedSandboxes(sandboxes, cast(Any, None), cast(Any, None))
        sandboxes.add(sandbox)
        assert await sandboxes.resume(sandbox, 60.0)
    assert sandbox.state == "running"
    assert "other users can enter" in capsys.readouterr().err
