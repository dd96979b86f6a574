"""Tests of settings: variables override the file, the file overrides defaults, and every mistake is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hotdesk.config import GIB, MIB, Ceiling, Config, Price, load, parse_seconds, parse_size
from hotdesk.errors import BriefError


def at(home: Path, toml: str | bytes | None = None, **variables: str) -> Config:
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


def test_a_floor_of_zero_is_valid_in_the_file_and_in_a_variable(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/config.toml").write_text("memory_floor = 0\n")
    settings = load({"HOTDESK_HOME": str(tmp_path), "HOTDESK_DISK_FLOOR": "0"})
    assert (settings.disk_floor, settings.memory_floor) == (0, 0)


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
    with pytest.raises(BriefError, match=r"config\.toml: not a TOML file"):
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
    with pytest.raises(BriefError, match="door is not a table"):
        at(tmp_path, "door = 5")
    assert at(tmp_path, '[door]\nceiling = ["a.test"]', HOTDESK_CEILING="*").ceiling == ("a.test",)


CEILING = """
[ceiling]
hosts = ["read *.example.test"]
wall = "container"
grants = ["erp-*"]
models = ["anthropic:*", "chat:local"]
tokens = 1000000
dollars = 5
acts = 500
seconds = 3600
approve = "plan"
"""


def test_the_ceiling_has_a_table(tmp_path: Path) -> None:
    settings = at(tmp_path, CEILING)
    assert settings.ceiling == ("read *.example.test",)
    assert settings.limits == Ceiling(
        "container", ("erp-*",), ("anthropic:*", "chat:local"), 1000000, 5.0, 500, 3600.0, "plan"
    )
    assert at(tmp_path, "").limits == Ceiling()
    assert at(tmp_path, "[ceiling]\ngrants = []").limits.grants == ()
    assert hash(settings)


def test_verification_can_require_its_own_wall(tmp_path: Path) -> None:
    assert at(tmp_path, '[verify]\nwall = "gvisor"').verify_wall == "gvisor"
    assert at(tmp_path, "").verify_wall == ""


def test_no_variable_lifts_the_ceiling(tmp_path: Path) -> None:
    names = [
        "CEILING",
        "LIMITS",
        "HOSTS",
        "WALL",
        "GRANTS",
        "MODELS",
        "TOKENS",
        "DOLLARS",
        "ACTS",
        "SECONDS",
        "APPROVE",
    ]
    lifted = {f"HOTDESK_{prefix}{name}": "1" for name in names for prefix in ("", "CEILING_", "LIMITS_")}
    assert at(tmp_path, CEILING, **lifted) == at(tmp_path, CEILING)


def test_hosts_are_bounded_in_one_place(tmp_path: Path) -> None:
    with pytest.raises(BriefError, match=r"\[ceiling\] hosts and \[door\] ceiling mean the same; remove one"):
        at(tmp_path, '[door]\nceiling = ["a.test"]\n[ceiling]\nhosts = ["a.test"]')
    assert at(tmp_path, '[door]\nceiling = ["a.test"]\n[ceiling]\nacts = 5').ceiling == ("a.test",)


def test_jobs_the_drive_and_prices_have_tables(tmp_path: Path) -> None:
    toml = """
        [jobs]
        retention_days = 7
        patience = 5
        [drive]
        quota = "1G"
        [prices]
        "anthropic:large" = {input = 5, output = 25, cached = 0.5, stored = 6.25}
        [prices."chat:small"]
        input = 0.25
        output = 0
    """
    settings = at(tmp_path, toml)
    assert (settings.retention_days, settings.patience, settings.drive_quota) == (7.0, 5.0, GIB)
    assert settings.prices == {"anthropic:large": Price(5.0, 25.0, 0.5, 6.25), "chat:small": Price(0.25, 0.0, 0.25)}
    usual = at(tmp_path, "")
    assert (usual.retention_days, usual.patience, usual.drive_quota, usual.prices) == (30.0, 60.0, 10 * GIB, {})
    assert hash(settings)


@pytest.mark.parametrize(
    ("table", "setting"),
    [
        ("ceiling", "hosts = []"),
        ("ceiling", "hosts = 'a.test'"),
        ("ceiling", "wall = 'paper'"),
        ("ceiling", "wall = 'local'"),
        ("ceiling", "wall = 5"),
        ("verify", "wall = 'local'"),
        ("verify", "wall = 'paper'"),
        ("verify", "wall = 5"),
        ("ceiling", "grants = 'erp'"),
        ("ceiling", "grants = [5]"),
        ("ceiling", "grants = ['a b']"),
        ("ceiling", "models = ['[a-z]:x']"),
        ("ceiling", "models = ['']"),
        ("ceiling", "tokens = 0"),
        ("ceiling", "tokens = 1.5"),
        ("ceiling", "tokens = true"),
        ("ceiling", "dollars = 0"),
        ("ceiling", "dollars = '5'"),
        ("ceiling", "dollars = nan"),
        ("ceiling", "acts = -1"),
        ("ceiling", "seconds = 0"),
        ("ceiling", "seconds = inf"),
        ("ceiling", "approve = 'never'"),
        ("ceiling", "approve = []"),
        ("ceiling", "names = {}"),
        ("jobs", "retention_days = -1"),
        ("jobs", "retention_days = '30'"),
        ("jobs", "patience = false"),
        ("jobs", "colour = 1"),
        ("drive", "quota = 0"),
        ("drive", "quota = []"),
        ("drive", "quota = true"),
        ("drive", "size = 1"),
        ("prices", "model = 5"),
        ("prices", "model = {input = 5}"),
        ("prices", "model = {input = -5, output = 1}"),
        ("prices", "model = {input = 5, output = 1, colour = 1}"),
    ],
)
def test_a_mistake_in_any_table_names_the_setting(tmp_path: Path, table: str, setting: str) -> None:
    with pytest.raises(
        BriefError, match=rf"{table}.*{setting.split()[0]}.*;|{table}.*{setting.split()[0]} must be a size"
    ):
        at(tmp_path, f"[{table}]\n{setting}\n")


@pytest.mark.parametrize("name", ["ceiling", "jobs", "drive", "prices"])
def test_what_should_be_a_table_is_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(BriefError, match=rf"setting {name} is not a table; write \[{name}\]"):
        at(tmp_path, f"{name} = 5")


@pytest.mark.parametrize(
    ("told", "seconds"),
    [(5, 5.0), (1.5, 1.5), ("90s", 90.0), ("15m", 900.0), ("2h", 7200.0), ("1d", 86400.0), ("5", None), ("", None),
     ("h", None), ("-1h", None), ("1.5h", None), ("٣h", None), ("1H", None), ("1h ", None), (True, None), (None, None),
     ([], None), (10**400, None)],
)  # fmt: skip
def test_a_time_is_read(told: object, seconds: float | None) -> None:
    assert parse_seconds(told) == seconds


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
def test_an_invalid_size_is_refused(text: str) -> None:
    with pytest.raises(BriefError):
        parse_size(text)


def test_signers_are_those_of_the_file_and_of_the_environment(tmp_path: Path) -> None:
    one, two = "0a" * 16, "1b" * 16
    settings = at(tmp_path, f'[verify]\nsigners = ["{one}", "/etc/signer.pub"]\n', HOTDESK_SIGNERS=f"{two}, /b.pub")
    assert settings.signers == (one, "/etc/signer.pub", two, "/b.pub")
    assert at(tmp_path / "none").signers == ()


@pytest.mark.parametrize("told", ["5", '"0a"', '["0a"]', '["signer.pub"]', "[5]"])
def test_a_signer_is_a_fingerprint_or_an_absolute_path(tmp_path: Path, told: str) -> None:
    with pytest.raises(BriefError, match="signers must be a list of fingerprints"):
        at(tmp_path, f"[verify]\nsigners = {told}\n")
    with pytest.raises(BriefError, match="HOTDESK_SIGNERS must be a list of fingerprints"):
        at(tmp_path, "", HOTDESK_SIGNERS="signer.pub")


def test_the_program_and_platform_of_gvisor_are_settings(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    file = tmp_path / "etc/config.toml"
    file.write_text('[wall.gvisor]\nprogram = "/opt/runsc"\nplatform = "systrap"\n')
    settings = load({"HOTDESK_HOME": str(tmp_path)})
    assert (settings.gvisor_program, settings.gvisor_platform) == ("/opt/runsc", "systrap")
    assert load({"HOTDESK_HOME": str(tmp_path), "HOTDESK_GVISOR_PROGRAM": "other"}).gvisor_program == "other"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[wall.gvisor]\nplatform = "hardware"\n', "must be one of auto, systrap, ptrace, kvm"),
        ('[wall.gvisor]\nprogram = "./runsc"\n', "must be the name or the path of a program"),
        ("[wall.gvisor]\nnetwork = true\n", "unknown setting 'network'"),
        ("[wall.paper]\nx = 1\n", "unknown setting 'paper'"),
        ("wall = 1\n", "is not a table"),
    ],
)
def test_an_incomplete_wall_setting_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/config.toml").write_text(text)
    with pytest.raises(BriefError, match=why):
        load({"HOTDESK_HOME": str(tmp_path)})


def test_emulated_machines_are_a_setting(tmp_path: Path) -> None:
    assert not load({"HOTDESK_HOME": str(tmp_path)}).microvm_emulate
    assert load({"HOTDESK_HOME": str(tmp_path), "HOTDESK_MICROVM_EMULATE": "1"}).microvm_emulate
    file = tmp_path / "etc/config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text("[wall.microvm]\nemulate = true\n")
    assert load({"HOTDESK_HOME": str(tmp_path)}).microvm_emulate
    file.write_text('[wall.microvm]\nemulate = "yes"\n')
    with pytest.raises(BriefError, match=r"wall.microvm.emulate"):
        load({"HOTDESK_HOME": str(tmp_path)})
