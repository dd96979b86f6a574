"""Tests of repaired modes: what Kubernetes' kubelet does to a volume's files with `fsGroup`, and a server's start."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hotdesk.api.keys import ApiKeys
from hotdesk.errors import HostError
from hotdesk.linux import private_files


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return a server's state directory, with a key and a public file."""
    folder = tmp_path / "lib"
    private_files.make_folder(folder / "serve")
    ApiKeys(folder / "serve").make("ci")
    private_files.write(folder / "serve", "public.pem", b"x", 0o644)
    return folder


def mount(folder: Path) -> None:
    """Change modes as the kubelet does at a mount (`SetVolumeOwnership`)."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(stat.S_IMODE(path.stat().st_mode) | (0o2770 if path.is_dir() else 0o660))


def read_modes(folder: Path) -> dict[str, int]:
    return {str(each): each.lstat().st_mode & 0o777 for each in (folder, *folder.rglob("*"))}


def test_a_server_reads_its_keys_after_kubernetes_mounted_its_volume_again(state: Path) -> None:
    before = read_modes(state)
    mount(state)
    with pytest.raises(HostError, match="other users can enter"):
        ApiKeys(state / "serve").refresh()
    assert private_files.narrow(state) == len(before)
    assert read_modes(state) == before
    keys = ApiKeys(state / "serve")
    keys.refresh()
    assert len(keys.by_id) == 1
    assert private_files.narrow(state) == 0


def test_files_are_repaired_in_a_folder_that_was_repaired_by_hand(state: Path) -> None:
    mount(state)
    (state / "serve").chmod(0o700)
    private_files.narrow(state)
    assert stat.S_IMODE((state / "serve/api-keys.json").stat().st_mode) == 0o600


def test_what_a_person_opened_to_everyone_is_still_refused(state: Path) -> None:
    (state / "serve").chmod(0o755)
    private_files.narrow(state)
    with pytest.raises(HostError, match="other users can enter"):
        ApiKeys(state / "serve").refresh()


def test_no_link_is_followed_and_no_pipe_is_waited_for(state: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    mount(outside)
    before = read_modes(outside)
    (state / "folder").symlink_to(outside)
    (state / "file").symlink_to(outside / "file")
    os.mkfifo(state / "pipe", 0o660)
    private_files.narrow(state)
    assert read_modes(outside) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
def test_files_of_another_user_keep_their_modes(state: Path) -> None:
    mount(state)
    file = state / "serve/public.pem"
    os.chown(file, 1000, 1000)
    private_files.narrow(state)
    assert stat.S_IMODE(file.stat().st_mode) == 0o664
