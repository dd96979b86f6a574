"""Settings: variables over the file over defaults, and every mistake named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hotdesk.config import GIB, MIB, Config, load, parse_size
from hotdesk.errors import BriefError


def at(home: Path, toml: str | bytes | None = None, **variables: str) -> Config:
    """Load settings from a home with a file in it."""
    if toml is not None:
        (home / "etc").mkdir(exist_ok=True)
        (home / "etc/config.toml").write_bytes(toml.encode() if isinstance(toml, str) else toml)
    return load({"HOTDESK_HOME": str(home), **variables})


def test_without_anything_there_are_defaults(tmp_path: Path) -> None:
    settings = at(tmp_path)
    assert settings == Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "lib/images")
    assert (settings.runtime, settings.disk, settings.disk_floor) == ("crun", "auto", 2 * GIB)


def test_the_file_is_over_defaults_and_variables_over_the_file(tmp_path: Path) -> None:
    toml = 'runtime = "runsc"\ndisk = "ext4"\ndisk_floor = "1G"\nmemory_floor = 1048576\nimages = "/srv/images"\n'
    settings = at(tmp_path, toml, HOTDESK_RUNTIME="youki", HOTDESK_MEMORY_FLOOR="64M")
    assert (settings.runtime, settings.disk, settings.disk_floor) == ("youki", "ext4", GIB)
    assert (settings.memory_floor, settings.images) == (64 * MIB, Path("/srv/images"))
    assert at(tmp_path, HOTDESK_IMAGES="/other").images == Path("/other")


def test_a_relative_home_becomes_absolute() -> None:
    assert load({"HOTDESK_HOME": "somewhere"}).run == Path.cwd() / "somewhere/run"


def test_without_a_home_root_gets_the_systems_folders_and_others_xdgs() -> None:
    settings = load({"HOME": "/home/x", "XDG_RUNTIME_DIR": "/run/user/5", "XDG_DATA_HOME": "/data"})
    if os.geteuid() == 0:
        assert (settings.run, settings.lib) == (Path("/run/hotdesk"), Path("/var/lib/hotdesk"))
    else:
        assert (settings.run, settings.lib) == (Path("/run/user/5/hotdesk"), Path("/data/hotdesk"))


@pytest.mark.parametrize(
    "toml",
    [
        'colour = "red"',
        "[desk]\nsize = 1",
        "runtime = 5",
        "runtime = true",
        "disk_floor = true",
        "disk_floor = 1.5",
        'disk_floor = "much"',
        "disk_floor = []",
        "images = 5",
        "this is not TOML",
        'runtime = "a"\nruntime = "b"',
        b'runtime = "\xff"',
        "disk_floor = -5",
    ],
    ids=repr,
)
def test_a_mistake_in_the_file_is_the_callers_error(tmp_path: Path, toml: str | bytes) -> None:
    with pytest.raises(BriefError):
        at(tmp_path, toml)


def test_a_mistake_names_the_file_and_the_setting(tmp_path: Path) -> None:
    with pytest.raises(BriefError, match=r"config\.toml.*'colour'"):
        at(tmp_path, "colour = 1")
    with pytest.raises(BriefError, match=r"config\.toml is not TOML"):
        at(tmp_path, "=")


def test_the_door_has_a_table(tmp_path: Path) -> None:
    toml = """
        [door]
        ceiling = ["read *.example.test", "ask write erp.example.test"]
        names = {"erp.internal" = "127.0.0.1:8443"}
        ca = "/etc/ssl/own.pem"
        proxy = "http://proxy.example.test:3128"
        approval_seconds = 30
    """
    settings = at(tmp_path, toml)
    assert settings.ceiling == ("read *.example.test", "ask write erp.example.test")
    assert settings.names == {"erp.internal": "127.0.0.1:8443"}
    assert (settings.ca, settings.proxy) == ("/etc/ssl/own.pem", "http://proxy.example.test:3128")
    assert settings.approval_seconds == 30.0
    assert hash(settings)


@pytest.mark.parametrize(
    "setting",
    [
        "ceiling = []",
        'ceiling = "read a.test"',
        "ceiling = [5]",
        "names = []",
        'names = {"a.internal" = 5}',
        'ca = "own.pem"',
        "ca = 5",
        'proxy = "proxy.example.test:3128"',
        'proxy = "http://user:pass@proxy.example.test:3128"',
        'proxy = "socks5://proxy.example.test:3128"',
        "approval_seconds = 0",
        "approval_seconds = true",
        "approval_seconds = nan",
        'approval_seconds = "2m"',
        "colour = 1",
    ],
)
def test_a_mistake_in_the_doors_table_names_the_setting(tmp_path: Path, setting: str) -> None:
    with pytest.raises(BriefError, match=rf"door.*{setting.split()[0]}"):
        at(tmp_path, f"[door]\n{setting}\n")


def test_the_door_is_a_table_and_the_environment_lifts_no_ceiling(tmp_path: Path) -> None:
    with pytest.raises(BriefError, match="door is no table"):
        at(tmp_path, "door = 5")
    assert at(tmp_path, '[door]\nceiling = ["a.test"]', HOTDESK_CEILING="*").ceiling == ("a.test",)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("512M", 512 * MIB),
        ("512m", 512 * MIB),
        ("2G", 2 * GIB),
        ("2GB", 2 * GIB),
        ("1.5GiB", 3 * GIB // 2),
        (" 1k ", 1024),
        ("1T", 1024 * GIB),
        ("100B", 100),
    ],
)
def test_a_size_is_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", " ", "G", "-1G", "0", "many", "1X", "1 G B", "nan", "inf", "1e999", "0x10", "1,5G"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BriefError):
        parse_size(text)
