"""Tests of saving a desk's writable layer as an image: on the right layers, without the desk's own identity files."""

from __future__ import annotations

import base64
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.desk import door_files
from hotdesk.desk.image import store
from hotdesk.desk.image.image import Image, find
from hotdesk.desk.image.normalise import FILES
from hotdesk.desk.keeper import capture
from hotdesk.desk.room import identity, layout
from hotdesk.door.http import ca
from hotdesk.errors import BriefError, ImageError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")

DESK = "i" + "a" * 20
PYTHON = "/usr/bin/python3"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    settings = Config(tmp_path / "run", tmp_path / "lib", tmp_path / "lib/images", disk_floor=0)
    publish(settings, "base", "1" * 64)
    (tmp_path / "up").mkdir()
    return settings


def publish(settings: Config, name: str, *digests: str) -> Image:
    with store.writing(settings.images, lambda line: None) as (work, _):
        (work / "tree/etc").mkdir(parents=True)
        (work / "tree/etc/greeting").write_text("hello")
        layers = tuple(settings.images / "layers" / digest for digest in digests)
        image = Image(name, digests[0], layers, PYTHON, "aarch64", 1.0, 4096, "a test")
        return store.publish(settings.images, image, layers[0] if layers[0].exists() else work / "tree")


def save(settings: Config, upper: Path, name: str = "mine", source: Image | str = "base") -> Image:
    fd = os.open(upper, os.O_RDONLY | os.O_DIRECTORY)
    try:
        capture.save(settings, fd, source, name, DESK)
    finally:
        os.close(fd)
    return find(settings.images, name)


def write(upper: Path, path: str, data: bytes = b"x") -> None:
    (upper / path).parent.mkdir(parents=True, exist_ok=True)
    (upper / path).write_bytes(data)


def files(tree: Path) -> list[str]:
    return sorted(str(path.relative_to(tree)) for path in tree.rglob("*") if not path.is_dir())


def test_an_image_is_based_on_the_one_its_desk_was_opened_from(config: Config, tmp_path: Path) -> None:
    write(tmp_path / "up", "home/user/note")
    base, image = find(config.images, "base"), save(config, tmp_path / "up")
    assert image.layers[1:] == base.layers
    assert (image.python, image.arch, image.source) == (base.python, base.arch, f"desk {DESK}")
    assert image.size > base.size
    assert files(image.layers[0]) == ["home/user/note"]
    assert os.listdir(config.images / "tmp") == []
    again = save(config, tmp_path / "up", "again", "mine")
    assert again.layers == image.layers  # saving the same files again changes nothing


def test_saving_under_an_existing_name_replaces_it(config: Config, tmp_path: Path) -> None:
    write(tmp_path / "up", "one")
    before = save(config, tmp_path / "up")
    write(tmp_path / "up", "two")
    after = save(config, tmp_path / "up")
    assert files(after.layers[0]) == ["one", "two"]
    assert before.digest != after.digest
    assert [each.name for each in store.sweep(config.images, lambda line: None)] == [before.layers[0].name]


def test_an_image_can_take_the_name_of_its_own_source(config: Config, tmp_path: Path) -> None:
    base = find(config.images, "base")
    assert save(config, tmp_path / "up", "base").layers[1:] == base.layers


def test_a_saved_image_is_removed_and_its_source_stays(config: Config, tmp_path: Path) -> None:
    image = save(config, tmp_path / "up")
    store.rm(config.images, "mine")
    assert not image.layers[0].exists()
    assert find(config.images, "base").layers[0].is_dir()


def test_the_same_files_on_another_image_are_another_image(config: Config, tmp_path: Path) -> None:
    publish(config, "other", "2" * 64)
    first, second = save(config, tmp_path / "up", "a"), save(config, tmp_path / "up", "b", "other")
    assert first.layers[0] == second.layers[0]
    assert first.digest != second.digest
    assert save(config, tmp_path / "up", "c").digest == first.digest


def test_a_source_whose_name_was_reused_is_still_the_base(config: Config, tmp_path: Path) -> None:
    opened_from = find(config.images, "base")
    publish(config, "base", "2" * 64)
    assert save(config, tmp_path / "up", source=opened_from).layers[1:] == opened_from.layers


def test_identity_files_of_a_desk_are_omitted(config: Config, tmp_path: Path) -> None:
    upper = tmp_path / "up"
    authority = ca.new_authority(DESK, ca.get_utc_now()).certificate_pem
    for path, data in identity.build_trust_files(authority.decode()).items():
        write(upper, path, data)
    for name in FILES:
        write(upper, name.decode())
    write(upper, layout.SUDO, layout.format_sudo_program(PYTHON).encode())
    assert len(files(upper)) == 14
    assert files(save(config, upper).layers[0]) == []


def test_a_users_files_are_saved_where_desks_get_none_of_their_own(config: Config, tmp_path: Path) -> None:
    upper = tmp_path / "up"
    der = door_files.as_der(ca.new_authority(DESK, ca.get_utc_now()).certificate_pem)
    body = base64.encodebytes(der.replace(b"hotdesk door of", b"a person's own "))
    mine = b"-----BEGIN CERTIFICATE-----\n" + body + b"-----END CERTIFICATE-----\n"
    kept = {
        layout.SUDO: b"#!/bin/sh\n",
        door_files.BUNDLE.lstrip("/"): mine,
        "etc/ssl/certs/0123abcd.0": mine,
        "etc/ssl/certs/mine.pem": mine,
        "etc/hostname.d": b"",
        "home/user/etc/hostname": b"",
    }
    for path, data in kept.items():
        write(upper, path, data)
    assert files(save(config, upper).layers[0]) == sorted(kept)


def test_a_layer_that_replaced_such_paths_is_saved(config: Config, tmp_path: Path) -> None:
    upper = tmp_path / "up"
    (upper / "etc/ssl/certs").mkdir(parents=True)
    (upper / "etc/hostname").mkdir()
    (upper / "etc/hostname/inside").touch()
    (upper / "etc/hosts").symlink_to("/etc/passwd")
    os.mkfifo(upper / door_files.BUNDLE.lstrip("/"))
    (upper / "etc/ssl/certs/0123abcd.0").symlink_to("/etc/passwd")
    os.mknod(upper / "etc/machine-id", stat.S_IFCHR, 0)
    assert files(save(config, upper).layers[0]) == ["etc/ssl/certs/0123abcd.0"]


def test_a_pipe_in_place_of_an_images_file_does_not_restore_it(config: Config, tmp_path: Path) -> None:
    upper = tmp_path / "up"
    (upper / "etc").mkdir()
    os.mkfifo(upper / "etc/greeting")
    os.mkfifo(upper / "etc/other")
    image = save(config, upper)
    assert files(image.layers[0]) == ["etc/greeting"]
    assert stat.S_ISCHR((image.layers[0] / "etc/greeting").lstat().st_mode)
    again = save(config, upper, "again", "mine")
    assert files(again.layers[0]) == []


def test_saving_is_refused_without_room_on_the_disk(config: Config, tmp_path: Path) -> None:
    write(tmp_path / "up", "home/user/note")
    with pytest.raises(
        ImageError, match="/home/user/note does not fit: the image would need more than the available 0 bytes"
    ):
        save(replace(config, disk_floor=1 << 60), tmp_path / "up")
    assert os.listdir(config.images / "tmp") == []
    assert len(os.listdir(config.images / "layers")) == 1
    with pytest.raises(ImageError, match="'mine' is not on this machine"):
        find(config.images, "mine")


def test_the_number_of_layers_is_limited(config: Config, tmp_path: Path) -> None:
    base = find(config.images, "base")
    with pytest.raises(ImageError, match="has 64 layers, and the limit is 64"):
        save(config, tmp_path / "up", source=replace(base, layers=base.layers * 64))


def test_names_are_checked_and_sources_must_be_there(config: Config, tmp_path: Path) -> None:
    with pytest.raises(BriefError):
        save(config, tmp_path / "up", "../mine")
    with pytest.raises(ImageError, match="image 'none' is not on this machine"):
        save(config, tmp_path / "up", source="none")
    base = find(config.images, "base")
    with pytest.raises(ImageError, match="lacks its layer"):
        save(config, tmp_path / "up", source=replace(base, layers=(config.images / "layers" / ("9" * 64),)))
