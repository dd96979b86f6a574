"""Tests of waiting for the ready desks of a holder before their image is removed."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.conftest import settings_in

from hotdesk.cli.holder.client import release_ready
from hotdesk.desk.keeper import state

pytestmark = pytest.mark.anyio
DESK = "ia1a1a1a1a1a1a1a1a1a1"


@pytest.mark.parametrize(
    ("facts", "waits"),
    [
        pytest.param({"state": "ready"}, True, id="ready"),
        pytest.param({"state": "starting"}, True, id="starting"),
        pytest.param({"state": "opening"}, True, id="opening"),
        pytest.param({"state": "open"}, False, id="open"),
        pytest.param({"state": "starting", "image": "other"}, False, id="of another image"),
    ],
)
async def test_a_desk_that_is_or_may_become_ready_is_waited_for(
    facts: dict[str, str], waits: bool, tmp_path: Path
) -> None:
    settings = settings_in(tmp_path)
    (settings.run / "desks").mkdir(parents=True)
    entry = state.enter(settings, DESK, {})
    entry.note(**{"image": "figures", **facts})
    with anyio.move_on_after(0.3) as scope:
        await release_ready(settings, "figures")
    assert scope.cancelled_caught is waits
    entry.note(state="open")
    with anyio.fail_after(10):
        await release_ready(settings, "figures")
