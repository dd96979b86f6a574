"""Tests of reading, checking and digesting recipes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.desk import door_files
from hotdesk.desk.image import recipe as recipes
from hotdesk.desk.image.recipe import Recipe, compute_digest, load, parse
from hotdesk.errors import BriefError


def test_a_users_recipe_is_read() -> None:
    text = 'from = "base"\napt = ["figlet"]\npip = ["six"]\nrun = ["echo hi > /etc/hi"]\n'
    assert parse(text, "mine") == Recipe(
        name="mine", parent="base", apt=("figlet",), pip=("six",), run=("echo hi > /etc/hi",)
    )


def test_the_base_comes_with_hotdesk() -> None:
    base = load("base")
    assert base.suite == "trixie"
    assert base.parent is None
    assert {"bash", "python3", "python3-pip", "git", "curl"} <= set(base.include)
    assert recipes.list_builtin() == [
        "base", "code-interpreter-full", "code-interpreter-v1", "desktop", "e2b-desktop", "office", "vmm",
    ]  # fmt: skip


def test_office_is_built_on_base_and_desktop_on_office() -> None:
    assert load("office").parent == "base"
    assert load("desktop").parent == "office"
    for program in ("session", "browser"):
        assert load("desktop").files[f"/usr/local/lib/hotdesk/{program}"].startswith("#!/bin/bash\n")


def test_the_code_interpreter_brings_its_server_along() -> None:
    made = load("code-interpreter-v1")
    assert made.parent == "office"
    assert made.files["/usr/local/lib/hotdesk/ready"].startswith("#!/bin/bash\n")
    assert {"__main__.py", "python.py", "node.js", "loop.sh"} <= {path.rpartition("/")[2] for path in made.files}


@pytest.mark.parametrize("name", ["hotdesk", "os", "hotdesk_nothing", "../hotdesk_guest"])
def test_only_our_own_packages_are_copied_into_an_image(name: str) -> None:
    with pytest.raises(BriefError):
        parse(f'from = "base"\nours = "{name}"\n', "mine")


def test_the_desktop_of_e2b_has_no_screen_of_ours() -> None:
    made = load("e2b-desktop")
    assert made.parent == "desktop"
    assert any("rm -f /usr/local/lib/hotdesk/session" in line for line in made.run)


def test_no_image_replaces_the_browser_policy_of_a_door() -> None:
    assert f"/etc/chromium/{door_files.BROWSER_POLICY}" not in load("desktop").files
    ours = json.loads(load("desktop").files["/etc/chromium/policies/managed/desktop.json"])
    assert not {"CACertificates", "ProxyMode", "ProxyServer", "ProxySettings"} & set(ours)


def test_a_recipe_is_found_by_path_and_named_after_it(tmp_path: Path) -> None:
    path = tmp_path / "figures.toml"
    path.write_text('from = "base"')
    assert load(str(path)).name == "figures"
    assert load(str(path), "other").name == "other"
    assert load("base", "other") == replace(load("base"), name="other")


@pytest.mark.parametrize("wanted", ["nope", "./nope.toml", "../base", "", "a/b"])
def test_an_unknown_recipe_is_the_callers_error(wanted: str) -> None:
    with pytest.raises(BriefError):
        load(wanted)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "needs either `from`"),
        ("from = ", "not TOML"),
        ('from = "base"\nsuite = "trixie"', "needs either `from`"),
        ('from = "base"\napd = ["x"]', "unknown key 'apd'"),
        ('from = "base"\n"\\u001b[2J" = 1', r"unknown key '\\\\x1b\[2J'"),
        ('from = "base"\napt = "figlet"', "`apt` must be a list"),
        ('from = "base"\napt = [1]', "must be a string"),
        ("from = 1", "must be a string"),
        ('from = "../base"', "is not a valid value of `from`"),
        ('from = "mine"', "based on itself"),
        ('from = "base"\ninclude = ["x1"]', "list the packages in `apt`"),
        ('suite = "trixie main; rm"', "is not a valid value of `suite`"),
        ('from = "base"\nfiles = ["/etc/x"]', "`files` must be a table"),
        ('from = "base"\n[files]\n"/etc/x" = 1', "must be a string"),
        ('from = "base"\n[files]\n"/etc/x" = "a\\u0000b"', "is not a valid value of `files`"),
    ],
)
def test_an_invalid_recipe_is_refused(text: str, said: str) -> None:
    with pytest.raises(BriefError, match=said):
        parse(text, "mine")


@pytest.mark.parametrize("name", ["figlet", "g++", "libstdc++6", "python3.13", "x11-apps", "git=1:2.47.2-0.2", "0ad"])
def test_package_names_are_accepted(name: str) -> None:
    assert parse(f'from = "base"\napt = ["{name}"]', "mine").apt == (name,)


@pytest.mark.parametrize(
    "name",
    ["-y", "--allow-unauthenticated", "figlet-", "./x.deb", "/x.deb", "a b", "a;b", "a,b", "", "Fig", "a\\u0000b", "*"],
)
def test_invalid_package_names_are_refused(name: str) -> None:
    with pytest.raises(BriefError, match="is not a valid value of `apt`"):
        parse(f'from = "base"\napt = ["{name}"]', "mine")


@pytest.mark.parametrize("name", ["six", "six==1.17.0", "pandas[excel]>=2,<3", "ruamel.yaml ~= 0.18", "a===1.0+local"])
def test_requirements_are_accepted(name: str) -> None:
    assert parse(f'from = "base"\npip = ["{name}"]', "mine").pip == (name,)


@pytest.mark.parametrize(
    "name",
    [
        "-r",
        "--index-url=http://example.test",
        "six @ http://example.test/x.whl",
        "./six",
        "git+https://example.test",
        "",
    ],
)
def test_invalid_requirements_are_refused(name: str) -> None:
    with pytest.raises(BriefError, match="is not a valid value of `pip`"):
        parse(f'from = "base"\npip = ["{name}"]', "mine")


def test_files_are_texts_by_path() -> None:
    text = 'from = "base"\n[files]\n"/etc/x.d/y z" = "one\\n"\n"/.hidden" = ""\n"/runs/x" = "two"\n'
    assert parse(text, "mine").files == {"/etc/x.d/y z": "one\n", "/.hidden": "", "/runs/x": "two"}


@pytest.mark.parametrize(
    "path", ["etc/x", "/", "//x", "/x/", "/a//b", "/a/./b", "/a/../b", "/..", "/a\\nb", "/tmp/x", "/run", "/proc/x", ""]
)
def test_invalid_paths_are_refused(path: str) -> None:
    with pytest.raises(BriefError, match="is not a valid value of `files`"):
        parse(f'from = "base"\n[files]\n"{path}" = ""', "mine")


def test_a_digest_is_stable() -> None:
    made = compute_digest(Recipe("base", suite="trixie", include=("bash",)), "", "aarch64", "trixie")
    assert made == "3b3a9b80a9ef203240c23bc10ad7e552b80fa814a21d3eaf4ffa6e8be9eacaa6"


def test_a_digest_follows_files_in_any_order() -> None:
    one = Recipe("one", parent="base", files={"/a": "1", "/b": "2"})
    again = replace(one, files={"/b": "2", "/a": "1"})
    others = [replace(one, files={}), replace(one, files={"/a": "1"}), replace(one, files={"/a": "1", "/b": "3"})]
    assert compute_digest(again, "p", "aarch64", "") == compute_digest(one, "p", "aarch64", "")
    assert len({compute_digest(each, "p", "aarch64", "") for each in (one, *others)}) == 4


def test_a_digest_follows_everything_but_the_name() -> None:
    one = Recipe("one", parent="base", apt=("a1",), pip=("b",), run=("c",))
    others = [replace(one, apt=()), replace(one, pip=("a1",)), replace(one, run=("c", "c")), replace(one, run=())]
    digests = {compute_digest(each, "p", "aarch64", "") for each in (one, *others)}
    digests |= {
        compute_digest(one, "q", "aarch64", ""),
        compute_digest(one, "p", "x86_64", ""),
        compute_digest(one, "p", "aarch64", "noble"),
    }
    assert len(digests) == 8
    assert compute_digest(replace(one, name="two"), "p", "aarch64", "") == compute_digest(one, "p", "aarch64", "")
