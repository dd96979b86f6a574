"""Tests of the journal's record of keys that are created and revoked."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ordinary_user import UID, OrdinaryUser

NODES = '[serve]\nnodes = ["127.0.0.1:3710"]\nidentity = "/etc/hotdesk/home"\n'


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder that other users can reach, unlike pytest's."""
    found = Path(tempfile.mkdtemp(prefix="hotdesk-test-", dir="/tmp"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found)


@pytest.mark.parametrize(("settings", "expected"), [(NODES, ["made", "revoked"]), ("", [])])
def test_keys_of_a_server_without_root_are_recorded_if_its_desks_are_on_nodes(
    folder: Path, settings: str, expected: list[str]
) -> None:
    home = folder / "home"
    (home / "etc").mkdir(parents=True)
    (home / "etc/config.toml").write_text(settings)
    for path in (home, home / "etc", home / "etc/config.toml"):
        os.chown(path, UID, UID)
    user = OrdinaryUser(folder / "user", variables={"HOTDESK_HOME": str(home)})
    user.folder.mkdir()
    user.prepare()
    made = user.run("key", "new", "--name", "ci", "--json")
    assert made.returncode == 0, made.stderr
    assert user.run("key", "revoke", json.loads(made.stdout)["id"]).returncode == 0
    outbox = home / "lib/keys/outbox.jsonl"
    lines = [json.loads(line) for line in outbox.read_text().splitlines()] if outbox.exists() else []
    assert [each["data"]["what"] for each in lines if each["event"] == "KeyChanged"] == expected
    assert all(each["data"]["by"].startswith(f"uid {UID} ") for each in lines)
