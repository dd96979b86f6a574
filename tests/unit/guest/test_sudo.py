"""Tests of the `sudo` command line, and of what root's guest accepts from a caller."""

from __future__ import annotations

import os

import pytest

from hotdesk_guest.acts import is_request
from hotdesk_guest.sudo import PASSED_VARIABLES, UsageError, parse


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["id"], ["id"]),
        (["-n", "id", "-u"], ["id", "-u"]),
        (["-nE", "-H", "id"], ["id"]),
        (["-u", "root", "id"], ["id"]),
        (["-u", "#0", "-g", "root", "id"], ["id"]),
        (["--user=root", "--group=0", "id"], ["id"]),
        (["--non-interactive", "--preserve-env", "id"], ["id"]),
        (["--", "-n"], ["-n"]),
        (["A=1", "B=", "id"], ["id"]),
        (["./a=b"], ["./a=b"]),
        (["=x"], ["=x"]),
        (["-s"], ["/bin/bash"]),
        (["-i"], ["/bin/bash", "-l"]),
        (["-s", "echo", "a b"], ["/bin/bash", "-c", "echo a b"]),
        (["-i", "echo"], ["/bin/bash", "-l", "-c", "echo"]),
        (["-v"], ["true"]),
        (["-k"], ["true"]),
        (["-k", "id"], ["id"]),
    ],
)
def test_a_command_line_is_understood(words: list[str], command: list[str]) -> None:
    assert parse(list(words))[0] == command


@pytest.mark.parametrize(
    "words",
    [[], ["-n"], ["A=1"], ["-u"], ["-u", "bob", "id"], ["-u", ""], ["--user=", "id"], ["-g", "1000", "id"],
     ["-l"], ["-uroot", "id"], ["--list"], ["-C", "3", "id"], ["-R", "/", "id"], ["-T", "5", "id"], ["--"]],
)  # fmt: skip
def test_an_unsupported_option_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError):
        parse(list(words))


def test_only_named_variables_are_passed_on() -> None:
    given = parse(["A=1", "B=x=y", "id"])[1]
    assert (given["A"], given["B"], given["SUDO_USER"], given["SUDO_UID"]) == ("1", "x=y", "user", str(os.getuid()))
    assert not set(given) - {"A", "B", "SUDO_USER", "SUDO_UID", "SUDO_GID", *PASSED_VARIABLES}
    assert set(os.environ) <= set(parse(["-E", "id"])[1])


@pytest.mark.parametrize(
    "ask",
    [
        None,
        [],
        {},
        {"argv": ["x"], "cwd": "/"},
        {"argv": [], "cwd": "/", "env": {}},
        {"argv": "x", "cwd": "/", "env": {}},
        {"argv": [b"x"], "cwd": "/", "env": {}},
        {"argv": ["x\0y"], "cwd": "/", "env": {}},
        {"argv": ["x"], "cwd": None, "env": {}},
        {"argv": ["x"], "cwd": "/", "env": []},
        {"argv": ["x"], "cwd": "/", "env": {"A": 1}},
        {"argv": ["x"], "cwd": "/", "env": {"A": "\0"}},
        {"argv": ["x"], "cwd": "/", "env": {}, "user": "root"},
    ],
)
def test_an_invalid_request_is_refused(ask: object) -> None:
    assert not is_request(ask)


def test_a_valid_request_is_accepted() -> None:
    assert is_request({"argv": ["x", ""], "cwd": "", "env": {"A": ""}})
