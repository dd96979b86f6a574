"""Tests of the quick command line parser: it agrees with the real parser or leaves the line to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotdesk.cli.desks import exec as exec_command
from hotdesk.cli.desks import run
from hotdesk.cli.parser import parse
from hotdesk.cli.quick.arguments import FLAGS, SIZES, parse_exec, parse_ps, parse_run, parse_ssh
from hotdesk.errors import BriefError

WORDS = st.sampled_from(
    [
        *sorted(SIZES), *sorted(FLAGS), "--", "-", "--help", "-h", "--allow", "--in", "--no-holder", "--debug",
        "--json", "--timeout=1.5", "--timeout=0", "--env=A=b", "--image=x", "--root=1", "true", "ls", "5", "1e400",
        "nan", "A=b", "",
    ]
)  # fmt: skip


@pytest.mark.slow
@given(st.lists(WORDS, max_size=7))
def test_the_quick_parser_agrees_with_the_real_one(argv: list[str]) -> None:
    order = parse_run(argv)
    if order is None:
        return
    try:
        arguments = parse("run", run, argv)
    except BriefError:
        with pytest.raises(BriefError):  # what the holder refuses, the command itself then refuses
            parse("run", run, [*order.own, "--", *order.command])
        return
    assert (order.command, order.timeout) == (arguments.command, arguments.timeout)
    again = parse("run", run, [*order.own, "--", *order.command])
    assert vars(again) | {"no_holder": order.is_alone} == vars(arguments)


@given(
    st.lists(
        st.sampled_from(["i" * 21, "--env", "A=b", "--cwd", "/tmp", "--user", "root", "--", "-x", "ls"]), max_size=7
    )
)
def test_exec_is_parsed_alike(argv: list[str]) -> None:
    order = parse_exec(argv)
    if order is None:
        return
    arguments = parse("exec", exec_command, argv)
    assert (order.desk, order.command, order.cwd, order.user, order.timeout) == (
        arguments.desk,
        arguments.command,
        arguments.cwd,
        arguments.user,
        arguments.timeout,
    )
    assert [f"{name}={value}" for name, value in order.env.items()] == sorted(set(arguments.env or []))


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--"],
        ["--help"],
        ["--allow", "pypi", "--", "true"],
        ["--in", "a:a", "true"],
        ["--memory"],
        ["--memory", "--root", "true"],
        ["--timeout", "soon", "true"],
        ["--timeout", "-1", "true"],
        ["--root=yes", "true"],
    ],
)
def test_unusual_lines_are_left_to_the_real_parser(argv: list[str]) -> None:
    assert parse_run(argv) is None


@pytest.mark.parametrize(
    "argv",
    [
        ["x", "--user", "marie", "--", "ls"],
        ["x", "--user=marie", "--user=root", "ls"],
        ["x", "--env", "A", "ls"],
        ["x"],
        ["--", "ls"],
    ],
)
def test_a_wrong_exec_is_left_to_the_real_parser(argv: list[str]) -> None:
    assert parse_exec(argv) is None


@pytest.mark.parametrize(
    ("argv", "asked"),
    [
        ([], (None, False)),
        (["--json"], (None, True)),
        (["--tenant", "acme"], ("acme", False)),
        (["acme"], None),
        (["--help"], None),
    ],
)
def test_ps_is_parsed(argv: list[str], asked: object) -> None:
    assert parse_ps(argv) == asked


@pytest.mark.parametrize(
    ("argv", "desk"),
    [
        (["--stdio", "iabc.desk"], "iabc"),
        (["iabc", "--stdio"], "iabc"),
        (["--stdio", "iabc.team-desk"], "iabc"),
        (["iabc"], None),
        (["--stdio"], None),
        (["--stdio", "--server", "https://x", "iabc"], None),
        (["--stdio", "iabc", "--", "true"], None),
        (["--stdio=1", "iabc"], None),
    ],
)
def test_an_ssh_client_names_its_desk(argv: list[str], desk: str | None) -> None:
    assert parse_ssh(argv) == desk
