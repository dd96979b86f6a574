"""Tests of the guide's backup: its commands, as they are written, save and restore a state directory."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tools.docs import ROOT

from hotdesk.api.keys import ApiKeys
from hotdesk.linux import private_files

SAVE, RESTORE = re.findall(r"```bash\n(tar .*?)```", (ROOT / "docs/guide/server.md").read_text(), re.DOTALL)
VOLUME_SIZE = 1 << 30
KEPT = ("volumes/v.ext4", "jobs/j/hotdesk/images/file", "tenants/t/jobs/j/pool.btrfs")
LEFT_OUT = ("images/file", "pool.btrfs", "tenants/t/pool.btrfs")


@pytest.fixture
def lib(tmp_path: Path) -> Path:
    """Return a folder that stands for /var/lib, with a server's state in it."""
    state = tmp_path / "lib/hotdesk"
    private_files.make_folder(state / "serve")
    ApiKeys(state / "serve").make("ci")
    for name in (*KEPT, *LEFT_OUT):
        private_files.make_folder((state / name).parent)
        (state / name).write_bytes(b"data")
    with (state / KEPT[0]).open("r+b") as volume:
        volume.seek(VOLUME_SIZE // 2)
        volume.write(b"middle")
        volume.truncate(VOLUME_SIZE)
    return state.parent


def run(command: str, lib: Path) -> None:
    argv = ["bash", "-euc", command.replace("/var/lib", str(lib))]
    subprocess.run(argv, cwd=lib.parent, check=True, capture_output=True)


def test_a_state_directory_is_saved_and_restored_with_its_volumes(lib: Path) -> None:
    run(SAVE, lib)
    assert (lib.parent / "backup.tar").stat().st_size < 1 << 20
    lib.rename(lib.with_name("before"))
    lib.mkdir()
    run(RESTORE, lib)
    state = lib / "hotdesk"
    assert [name for name in (*KEPT, *LEFT_OUT) if (state / name).exists()] == list(KEPT)
    keys = ApiKeys(state / "serve")
    keys.refresh()
    assert len(keys.by_id) == 1
    with (state / KEPT[0]).open("rb") as volume:
        volume.seek(VOLUME_SIZE // 2)
        assert volume.read(6) == b"middle"
    found = (state / KEPT[0]).stat()
    assert (found.st_size, found.st_blocks < 1 << 12) == (VOLUME_SIZE, True)
