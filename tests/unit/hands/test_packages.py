"""Tests of the package tools: accepted names, and how package managers' output is summarised."""

from __future__ import annotations

import pytest

from hotdesk.desk.login_shell import NO_EGRESS
from hotdesk.desk.seam import Done
from hotdesk.hands.packages import SHAPES, check, describe_changes, explain_failure
from hotdesk.tool import ToolArgumentError


@pytest.mark.parametrize(
    ("manager", "names"),
    [
        ("pip", ["six", "six==1.17.0", "pandas>=2,<3", "uvicorn[standard]~=0.30", "a", "zope.interface!=5.*"]),
        ("npm", ["left-pad", "@types/node", "@types/node@20", "left-pad@^1.3.0", "npm@latest", "x@1.x"]),
        ("apt", ["figlet", "libstdc++6", "libc6:arm64", "curl=8.5.0-2+deb13u1", "g++"]),
    ],
)
def test_names_with_versions_are_accepted(manager: str, names: list[str]) -> None:
    check(manager, "install", names)


BAD = ["", "-r", "--index-url=http://evil.test", "a b", "../x", "./x", "/x", "http://evil.test/x.whl", "git+ssh://x"]
BAD += ["a;b", "a\nb", "x @ http://evil.test/x.whl", "file:/x", "-e.", "a$(b)", "evil/repo", "é", "a ", "a-/"]
BAD += ["x@http://evil.test", "x@file:y", "a\n"]


@pytest.mark.parametrize("manager", SHAPES)
@pytest.mark.parametrize("name", BAD)
def test_options_addresses_and_paths_are_refused_as_names(manager: str, name: str) -> None:
    with pytest.raises(ToolArgumentError, match=r"`names` contains .*which is not a package name for"):
        check(manager, "install", ["six", name])


@pytest.mark.parametrize(
    ("manager", "action", "names", "why"),
    [
        ("apt", "remove", ["figlet"], "apt can only install or list"),
        ("pip", "list", ["six"], "the action `list` takes no names"),
        ("pip", "install", [], "`names` is missing"),
        ("npm", "remove", [], "`names` is missing"),
    ],
)
def test_what_a_manager_cannot_do_is_refused(manager: str, action: str, names: list[str], why: str) -> None:
    with pytest.raises(ToolArgumentError, match=why):
        check(manager, action, names)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Collecting a\n  Downloading a\nSuccessfully installed a-1.0 b-2\n", "a-1.0 b-2"),
        ("Get:1 x\nSetting up figlet (2.2.5-3+b1) ...\nProcessing triggers\n", "Setting up figlet (2.2.5-3+b1)"),
        ("\nadded 3 packages in 2s\n", "added 3 packages in 2s"),
        ("Requirement already satisfied: six in x\n", "Requirement already satisfied: six in x"),
        ("", "Done."),
    ],
)
def test_a_long_output_becomes_what_was_installed(said: str, told: str) -> None:
    assert describe_changes(said) == told


@pytest.mark.parametrize(
    ("manager", "said", "told"),
    [
        (
            "pip",
            "OSError('Tunnel connection failed: 403 hotdesk refuses mirror.test:443, see http://door.local/')",
            "No network rule admits mirror.test:443. The preset `pypi` (`--allow pypi`) admits",
        ),
        (
            "apt",
            "Err:1 http://deb.test/debian x InRelease\n  403  Forbidden\nE: http://deb.test/debian/x  403  F",
            "debian",
        ),
        ("npm", "npm error code ENOTFOUND", "opened without `--allow npm`"),
        (
            "pip",
            f"Looking in indexes: https://{NO_EGRESS}/simple\nERROR: No matching distribution found for six",
            "opened without `--allow pypi`",
        ),
        (
            "pip",
            "ERROR: No matching distribution found for nonesuch",
            "pip ended with exit code 1:\nERROR: No matching",
        ),
    ],
)
def test_a_failure_names_the_host_that_would_have_to_be_allowed(manager: str, said: str, told: str) -> None:
    text = explain_failure(manager, Done(1, b"", said.encode()))
    assert told in text
    assert said.splitlines()[-1] in text
