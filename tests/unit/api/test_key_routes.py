"""Tests of the routes of keys while the journal cannot be written."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from hotdesk.api.keys import ApiKeys
from hotdesk.api.native.access.auth import RequestContext
from hotdesk.api.native.access.keys import KeyOrder, make, revoke
from hotdesk.api.native.context import Native
from hotdesk.api.settings import Serving
from hotdesk.api.tenants import Tenant
from hotdesk.config import Config
from hotdesk.errors import HostError
from hotdesk.event import Event


class FullDisk:
    """The part of a tenant's host that records events, on a full disk."""

    def note(self, *events: Event) -> None:
        raise HostError("the journal cannot be written: No space left on device")


@pytest.fixture
def context(tmp_path: Path) -> RequestContext:
    keys = ApiKeys(tmp_path)
    caller = keys.find(keys.make("me", "acme"))
    assert caller is not None
    native = Native(Serving(), keys, cast(Any, None), cast(Any, None), cast(Any, None))
    tenant = Tenant("acme", Config(tmp_path, tmp_path, tmp_path), cast(Any, FullDisk()))
    return RequestContext(native, caller, tenant)


async def test_a_key_is_revoked_although_the_journal_cannot_be_written(context: RequestContext) -> None:
    leaked = context.native.keys.make("ci", "acme")
    with pytest.raises(HostError, match="journal"):
        await revoke(context, leaked[4:12])
    assert context.native.keys.find(leaked) is None


async def test_a_key_that_could_not_be_recorded_is_not_valid(context: RequestContext) -> None:
    before = set(context.native.keys.by_id)
    with pytest.raises(HostError, match="journal"):
        await make(context, KeyOrder(name="ci", powers=["jobs"]))
    context.native.keys.refresh()
    [made] = set(context.native.keys.by_id) - before
    assert context.native.keys.by_id[made].revoked is not None
