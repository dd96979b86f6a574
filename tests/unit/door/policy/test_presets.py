"""Tests of presets: from a machine's own configuration to rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pip._internal.models.index import PyPI

from hotdesk.brief import Rule, parse_rule, rule_text
from hotdesk.door.policy.policy import Policy
from hotdesk.door.policy.presets import (
    PRESETS,
    PackageSources,
    as_reached,
    build_preset_environment,
    get_preset_rules,
    list_password_hosts,
    parse_rules,
    read_machine,
)
from hotdesk.door.policy.target import Authority, read
from hotdesk.errors import BriefError

PUBLIC = (f"read {PyPI.netloc}", f"read {PyPI.file_storage_domain}")


def texts(rules: tuple[Rule, ...]) -> list[str]:
    return [rule_text(rule) for rule in rules]


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("name", "machine", "expected"),
    [
        ("pypi", PackageSources(), [*PUBLIC]),
        ("npm", PackageSources(public_npm="https://all.example.test/"), ["read all.example.test"]),
        (
            "pypi",
            PackageSources(pip=("https://user:pass@mirror.example.test:8443/root/pypi/+simple/",), default_pip=False),
            ["read https://mirror.example.test:8443/root/pypi/** private"],
        ),
        (
            "pypi",
            PackageSources(pip=("http://10.0.0.7:3141/simple", "http://10.0.0.7:3141/simple"), default_pip=False),
            ["read http://10.0.0.7:3141 private"],
        ),
        (
            "pypi",
            PackageSources(pip=("https://extra.example.test/simple",)),
            ["read https://extra.example.test private", *PUBLIC],
        ),
        ("pypi", PackageSources(pip=("file:///srv/simple",)), [*PUBLIC]),
        (
            "npm",
            PackageSources(npm=("http://mirror.example.test/npm/",), default_npm=False),
            ["read http://mirror.example.test/npm/** private"],
        ),
        (
            "debian",
            PackageSources(apt=("http://mirror.example.test/debian/", "file:/srv/debian", "cdrom:[x]/")),
            ["read http://mirror.example.test/debian/** private"],
        ),
        ("debian", PackageSources(apt=("http://[fd00::7]/debian",)), ["read http://[fd00::7]/debian/** private"]),
    ],
)
def test_hosts_come_from_the_machine_where_it_has_some(name: str, machine: PackageSources, expected: list[str]) -> None:
    assert texts(get_preset_rules(name, machine)) == expected


PIP = "[global]\nindex-url = https://one.example.test/simple\nextra-index-url =\n    https://two.example.test/simple\n"


@pytest.mark.parametrize(
    ("files", "env", "expected"),
    [
        ({}, {}, [*PUBLIC]),
        (
            {"etc/pip.conf": PIP},
            {},
            ["read https://one.example.test private", "read https://two.example.test private"],
        ),
        (
            {
                "etc/pip.conf": PIP,
                "home/x/.config/pip/pip.conf": "[install]\nindex_url = http://own.example.test/a/simple",
            },
            {"HOME": "/home/x"},
            ["read http://own.example.test/a/** private", "read https://two.example.test private"],
        ),
        (
            {"etc/pip.conf": PIP},
            {"PIP_INDEX_URL": "https://env.example.test/simple", "PIP_EXTRA_INDEX_URL": ""},
            ["read https://env.example.test private", "read https://two.example.test private"],
        ),
        ({"etc/pip.conf": PIP}, {"PIP_CONFIG_FILE": "/dev/null"}, [*PUBLIC]),
        ({"etc/pip.conf": "not a file of pip's"}, {}, [*PUBLIC]),
        (
            {"prefix/pip.conf": PIP},
            {},
            ["read https://one.example.test private", "read https://two.example.test private"],
        ),
        (
            {"etc/pip.conf": "[global]\nextra-index-url = file:///srv/simple\nfind-links = /srv/wheels\n"},
            {},
            [*PUBLIC],
        ),
    ],
)
def test_pips_own_configuration_is_read(
    tmp_path: Path, files: dict[str, str], env: dict[str, str], expected: list[str]
) -> None:
    root = written(tmp_path, files)
    assert texts(get_preset_rules("pypi", read_machine("pypi", env, root, root / "prefix"))) == expected


@pytest.mark.parametrize(
    ("files", "env", "expected"),
    [
        ({}, {}, ["read all.example.test"]),
        (
            {"etc/npmrc": "fund=false\nregistry = https://one.example.test/npm\n"},
            {},
            ["read https://one.example.test/npm/** private"],
        ),
        (
            {"etc/npmrc": "registry=https://one.example.test", "root/.npmrc": 'registry="https://two.example.test"'},
            {},
            ["read https://two.example.test private"],
        ),
        (
            {"root/.npmrc": "@own:registry=https://own.example.test\n; registry=https://no.example.test\n"},
            {},
            ["read https://own.example.test private", "read all.example.test"],
        ),
        ({"root/.npmrc": "//one.example.test/:_authToken=x\n"}, {}, ["read all.example.test"]),
        (
            {"etc/npmrc": "registry=https://one.example.test"},
            {"npm_config_registry": "http://env.example.test:4873/"},
            ["read http://env.example.test:4873 private"],
        ),
        ({"etc/npmrc": "registry=https://${HOST}/npm"}, {}, ["read all.example.test"]),
    ],
)
def test_npms_own_configuration_is_read(
    tmp_path: Path, files: dict[str, str], env: dict[str, str], expected: list[str]
) -> None:
    machine = replace(read_machine("npm", env, written(tmp_path, files)), public_npm="https://all.example.test/")
    assert texts(get_preset_rules("npm", machine)) == expected


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        ("npm", PackageSources()),
        ("debian", PackageSources()),
        ("debian", PackageSources(apt=("http://mirror:x/debian", "http://", "http://[/"))),
    ],
)
def test_a_machine_that_names_no_source_is_told_what_to_do(name: str, machine: PackageSources) -> None:
    with pytest.raises(BriefError, match="--allow HOST"):
        get_preset_rules(name, machine)


@pytest.mark.parametrize(
    ("method", "host", "path", "expected"),
    [
        ("GET", "github.com", "/o/r", "allow"),
        ("GET", "api.github.com", "/repos/o/r", "allow"),
        ("POST", "github.com", "/o/r.git/git-upload-pack", "allow"),
        ("POST", "github.com", "/o/r/git-upload-pack", "allow"),
        ("POST", "github.com", "/o/r.git/git-receive-pack", "deny"),
        ("POST", "github.com", "/o/r/issues", "deny"),
        ("POST", "api.github.com", "/o/r/git-upload-pack", "deny"),
        ("POST", "github.com", "/o%2fr/x/git-upload-pack", "deny"),
        ("GET", "gist.github.com", "/", "deny"),
    ],
)
def test_github_is_for_reading(method: str, host: str, path: str, expected: str) -> None:
    policy = Policy(get_preset_rules("github-read", PackageSources()))
    assert policy.judge(read(method, path, [host], Authority(host, 443))).verdict == expected


def test_a_scoped_package_of_npm_can_be_asked_for() -> None:
    machine = PackageSources(public_npm="https://all.example.test/")
    target = read("GET", "/@types%2fnode", ["all.example.test"], Authority("all.example.test", 443))
    assert Policy(get_preset_rules("npm", machine)).judge(target).verdict == "allow"
    assert target.encode_target() == b"/@types%2Fnode"


def test_a_whole_host_can_be_taken_out_of_a_preset() -> None:
    policy = Policy((*get_preset_rules("github-read", PackageSources()), parse_rule("deny github.com")))
    target = read("POST", "/o/r/git-upload-pack", ["github.com"], Authority("github.com", 443))
    assert policy.judge(target).verdict == "deny"


def test_a_line_is_a_rule_a_table_or_a_preset() -> None:
    assert parse_rules("GET example.test/data/*") == (parse_rule("GET example.test/data/*"),)
    assert parse_rules({"host": "example.test", "methods": ["GET"]}) == (parse_rule("GET example.test"),)
    assert parse_rules(" pypi ", PackageSources()) == get_preset_rules("pypi", PackageSources())
    assert parse_rules("read pypi", PackageSources()) == (Rule("pypi"),)
    assert parse_rules("github-read", PackageSources()) == get_preset_rules("github-read", PackageSources())


def test_an_unknown_preset_names_the_known() -> None:
    with pytest.raises(BriefError, match="pypi, npm, debian, github-read"):
        get_preset_rules("conda", PackageSources())


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_this_machines_own_configuration_can_be_read(name: str) -> None:
    rules = get_preset_rules(name, read_machine(name))
    assert rules
    assert all(rule.verdict == "allow" and not rule.tunnel for rule in rules)


PASSWORD = "https://user:pass@one.example.test:8443/simple"
PLAIN = "http://10.0.0.7:3141/simple"


@pytest.mark.parametrize(
    ("name", "machine", "expected"),
    [
        ("pypi", PackageSources(), {}),
        ("npm", PackageSources(), {}),
        ("debian", PackageSources(apt=("http://mirror.example.test/debian/",)), {}),
        ("github-read", PackageSources(), {}),
        (
            "pypi",
            PackageSources(pip=(PASSWORD,), default_pip=False),
            dict.fromkeys(("PIP_INDEX_URL", "UV_DEFAULT_INDEX"), "https://one.example.test:8443/simple"),
        ),
        (
            "pypi",
            PackageSources(pip=("file:///srv/simple", PLAIN)),
            {"PIP_EXTRA_INDEX_URL": PLAIN, "UV_INDEX": PLAIN, "PIP_TRUSTED_HOST": "10.0.0.7:3141"},
        ),
        (
            "npm",
            PackageSources(npm=("http://u@mirror.example.test/npm/", "https://own.example.test"), default_npm=False),
            {"npm_config_registry": "http://mirror.example.test/npm/"},
        ),
        ("npm", PackageSources(npm=("https://own.example.test",)), {}),
    ],
)
def test_a_desk_gets_the_package_sources_of_this_machine(
    name: str, machine: PackageSources, expected: dict[str, str]
) -> None:
    assert build_preset_environment([name], machine) == expected


def test_a_password_in_an_index_stays_outside_and_its_host_is_named() -> None:
    machine = PackageSources(pip=(PASSWORD, PLAIN), npm=("https://token@npm.example.test",), default_pip=False)
    assert list_password_hosts(["pypi"], machine) == ("one.example.test", "npm.example.test")
    assert "pass" not in str(build_preset_environment(["pypi", "npm"], machine))


@pytest.mark.parametrize(("host", "private"), [("10.0.0.7", True), ("127.0.0.1", False), ("none.invalid", False)])
def test_a_host_reached_on_a_private_network_may_be_there(host: str, private: bool) -> None:
    assert as_reached([Rule(host)]) == (Rule(host, private=private),)


@pytest.mark.slow
def test_this_machine_says_how_its_own_sources_are_reached() -> None:
    for name in PRESETS:
        without = [rule_text(rule).removesuffix(" private") for rule in get_preset_rules(name, read_machine(name))]
        assert [rule_text(rule).removesuffix(" private") for rule in parse_rules(name)] == without
