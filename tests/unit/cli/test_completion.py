"""Tests that completions and the manual page have every command and option."""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from hotdesk.cli import COMMANDS, get_module_name
from hotdesk.cli.command_tree import CommandNode, read_commands
from hotdesk.cli.machine.completion import WRITERS
from hotdesk.cli.parser import make_parser

Spelled = dict[str, list[str]]
ASK = """
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_hotdesk
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def commands() -> list[CommandNode]:
    return read_commands()


@pytest.fixture(scope="module")
def spelled() -> Spelled:
    """Return the options of every command and subcommand, except those not meant for people."""
    found: Spelled = {}
    for name in COMMANDS:
        for words, parser in parsers(name, make_parser(name, import_module(get_module_name(name)))):
            shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
            found[words] = [option for action in shown for option in action.option_strings]
    return found


def parsers(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for act, inner in action.choices.items():
                yield from parsers(f"{name} {act}", inner)


def section(text: str, begin: str, end: str) -> str:
    rest = re.split(begin, text, maxsplit=1, flags=re.MULTILINE)[1]
    return re.split(end, rest, maxsplit=1, flags=re.MULTILINE)[0]


def test_bash_has_every_command_and_option(commands: list[CommandNode], spelled: Spelled) -> None:
    text = WRITERS["bash"](commands)
    assert set(COMMANDS) <= set(section(text, r"^ +''\) words='", "'").split())
    for words, names in spelled.items():
        assert set(names) <= set(section(text, rf"^ +'{words}'\) words='", "'").split()), words


def test_zsh_has_every_command_and_option(commands: list[CommandNode], spelled: Spelled) -> None:
    text = WRITERS["zsh"](commands)
    for words, names in spelled.items():
        command, _, act = words.partition(" ")
        part = section(text, rf"^    {command}\)$", r"^      ;;$")
        part = section(part, rf"^        {act}\)$", "^          ;;$") if act else part
        assert all(f"'{name}[" in part or f"'*{name}[" in part for name in names), words


def test_fish_has_every_command_and_option(commands: list[CommandNode], spelled: Spelled) -> None:
    lines = WRITERS["fish"](commands).splitlines()
    for words, names in spelled.items():
        command, _, act = words.partition(" ")
        seen = f"-n '__fish_seen_subcommand_from {command}{f'; and __fish_seen_subcommand_from {act}' if act else ''}'"
        part = " ".join(line for line in lines if seen in line)
        for name in names:
            assert f" -{'l' if name.startswith('--') else 's'} {name.lstrip('-')} " in part, (words, name)


def test_the_manual_page_has_every_command_and_option(commands: list[CommandNode], spelled: Spelled) -> None:
    text = WRITERS["man"](commands)
    for words, names in spelled.items():
        part = section(text, rf"^\.SS hotdesk {words}(?= |$)", r"^\.S[SH] ").replace(r"\-", "-")
        assert all(rf"\fB{name}\fR" in part for name in names), words
    macros = {line.split()[0] for line in text.splitlines() if line.startswith(".")}
    assert macros == {r".\"", ".TH", ".SH", ".SS", ".B", ".I", ".TP", ".PP", ".EX", ".EE"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gc", "--j"], ["--json"]),
        (["image", "ex"], ["export"]),
        (["image", "import", "--s"], ["--signer"]),
        (["run", "--disk-in", ""], ["disk", "memory"]),
        (["completion", ""], ["bash", "zsh", "fish", "man", "-h", "--help", "--debug"]),
        (["setu"], ["setup"]),
        (["run", "--", "--im"], []),
        (["run", "--image", "--"], []),
    ],
)
def test_bash_completes_words(
    commands: list[CommandNode], tmp_path: Path, words: list[str], expected: list[str]
) -> None:
    script = tmp_path / "hotdesk"
    script.write_text(WRITERS["bash"](commands))
    argv = ["bash", "-uc", ASK, "bash", str(script), "hotdesk", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (expected, "")


def test_help_describes_commands_and_not_functions(
    commands: list[CommandNode],
) -> None:
    nodes = [node for command in commands for node in (command, *command.acts)]
    verbs = {node.name: node.description.split()[0] for node in nodes}
    assert {name: verb for name, verb in verbs.items() if verb in ("Return", "Yield", "Describe", "Explain")} == {}
