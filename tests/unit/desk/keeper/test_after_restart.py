"""Tests of hibernated desks after a restart of the machine, which empties `run`."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import pytest

from hotdesk.cli.jobs.resume import list_unowned
from hotdesk.cli.machine.undo import confirm, list_desks
from hotdesk.cli.quick import ps
from hotdesk.config import Config, get_tenant_settings, list_tenants
from hotdesk.desk.keeper import state
from hotdesk.desk.seam import DeskId
from hotdesk.errors import BriefError, DeskGone
from hotdesk.host import find_owner_path

DESK, OTHER = (DeskId("i" + letter * 20) for letter in "ab")


@pytest.fixture
def settings(tmp_path: Path) -> Config:
    return Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "lib/images")


def leave(settings: Config, desk: str, **changes: object) -> None:
    """Leave a desk's record as its keeper wrote it before the restart."""
    record = {
        "desk": desk, "spec": {"image": "base", "memory": 1 << 30}, "image": "a" * 64, "token": "secret", "size": 1,
        "until": 4e9, "since": 1.0, **changes,
    }  # fmt: skip
    (settings.lib / "hibernated").mkdir(parents=True, exist_ok=True)
    (settings.lib / f"hibernated/{desk}.json").write_text(json.dumps(record))


def test_a_hibernated_desk_is_listed_without_its_token(settings: Config) -> None:
    leave(settings, DESK)
    [listed] = state.list_own_desks(settings)
    assert (listed["id"], listed["state"], listed["image"], listed["kept"]) == (DESK, "hibernated", "base", True)
    assert "secret" not in json.dumps(listed)


def test_a_damaged_record_is_listed_so_that_it_can_be_burnt(settings: Config) -> None:
    leave(settings, DESK, unknown=1)
    assert [each["id"] for each in state.list_own_desks(settings)] == [DESK]


def test_a_hibernated_desk_can_be_resumed(settings: Config) -> None:
    leave(settings, DESK)
    assert [each["id"] for each in list_unowned(settings)] == [DESK]
    with pytest.raises(DeskGone, match="is hibernated; resume it"):
        find_owner_path(settings, DESK)


def test_it_is_listed_once_when_a_keeper_has_listed_it(settings: Config) -> None:
    leave(settings, DESK)
    (settings.run / "hibernated").mkdir(parents=True)
    (settings.run / f"hibernated/{DESK}.json").write_text(json.dumps({"id": DESK, "state": "hibernated"}))
    assert [each["id"] for each in state.list_own_desks(settings)] == [DESK]
    assert [each["id"] for each in list_unowned(settings)] == [DESK]


@pytest.mark.skipif(os.geteuid() != 0, reason="the quick command is root's")
def test_the_quick_list_leaves_the_answer_to_the_complete_one(
    settings: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOTDESK_HOME", str(tmp_path))
    monkeypatch.delenv("HOTDESK_TENANT", raising=False)
    assert ps.run(None, True) == 0
    leave(get_tenant_settings(settings, "acme"), DESK)
    assert ps.run("other", True) == 0
    assert ps.run("acme", True) is None
    assert ps.run(None, True) is None


def test_undoing_a_set_up_counts_the_hibernated_desks_of_every_tenant(settings: Config) -> None:
    leave(settings, DESK)
    leave(get_tenant_settings(settings, "acme"), OTHER)
    assert list_tenants(settings) == ["default", "acme"]
    assert {str(each["id"]) for each in list_desks(settings)} == {DESK, OTHER}
    with pytest.raises(BriefError, match=f"burns 2 hibernated desks: {DESK}, {OTHER}"):
        confirm(settings, argparse.Namespace(yes=False, all=False, packages=False))
