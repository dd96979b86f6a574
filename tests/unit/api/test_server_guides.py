"""Tests of the server's guides: every command and setting they show exists, and every setting is documented."""

from __future__ import annotations

import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from tests.guides import OF_THE_SERVER, ROOT, blocks, typed

from hotdesk.api import settings
from hotdesk.api.native.jobs.templates import read_templates
from hotdesk.cli import COMMANDS, get_module_name
from hotdesk.cli.parser import parse

OTHERS = {
    "agent/bin/python",
    "claude",
    "curl",
    "docker",
    "export",
    "helm",
    "inspect",
    "kubectl",
    "pip",
    "python",
    "python3",
    "tar",
}
"""Third-party programs that the guides use."""
NOT_RUN_HERE = re.compile(r"sudo|-n|[A-Z0-9_]+=\S*")
"""What may precede a program's name."""
LINES = [line for name in OF_THE_SERVER for line in typed(name)]
TABLES = [tomllib.loads(code) for name in OF_THE_SERVER for form, code in blocks(name) if form == "toml"]


def commands(line: str) -> list[list[str]]:
    within = re.findall(r"\$\((?:sudo )?(hotdesk [^)]*)\)", line)
    words = shlex.split(line, comments=True)
    if words[0] != "export":
        while NOT_RUN_HERE.fullmatch(words[0]):
            words = words[1:]
    if words[0] in ("claude", "kubectl") and "--" in words:
        words = [each for each in words[words.index("--") + 1 :] if not NOT_RUN_HERE.fullmatch(each)]
    found = [shlex.split(each) for each in within]
    if words[0] == "hotdesk":
        return [*found, words]
    assert words[0] in OTHERS, f"nobody knows {words[0]!r}; is it run by a test?"
    return found


@pytest.mark.parametrize("line", LINES)
def test_every_command_in_the_servers_guides_exists(line: str) -> None:
    for _, name, *rest in commands(line):
        assert name in COMMANDS
        parse(name, import_module(get_module_name(name)), rest)


def test_the_guides_have_commands() -> None:
    assert {words[1] for line in LINES for words in commands(line)} == {"image", "key", "mcp", "node", "serve", "setup"}


def test_every_setting_in_the_guides_exists_and_every_setting_is_documented() -> None:
    shown = [table["serve"] for table in TABLES if "serve" in table]
    assert len(shown) == 7
    assert all(isinstance(settings.read(table), settings.Serving) for table in shown)
    text = "".join((ROOT / f"docs/guide/{name}.md").read_text() for name in OF_THE_SERVER)
    assert [
        name for name in settings.SETTINGS if not re.search(rf"`(\[serve\] )?{name}`|\n{name} =|serve\.{name}\]", text)
    ] == []


def test_the_template_in_the_guide_is_valid_and_its_text_a_paragraph(tmp_path: Path) -> None:
    [table] = [code for form, code in blocks("api") if form == "toml" and "[[values]]" in code]
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit/brief.toml").write_text('goal = "{month}"\n')
    (tmp_path / "audit/template.toml").write_text(
        table.replace('"Lists what', '"""\nLists\nwhat').replace('ERP."', 'ERP.\n"""')
    )
    [found] = read_templates(tmp_path)
    assert found.shown.text == "Lists what differs from the ERP."
    assert ([each.name for each in found.shown.values], [each.name for each in found.shown.files]) == (
        ["month"],
        ["invoices.zip"],
    )
