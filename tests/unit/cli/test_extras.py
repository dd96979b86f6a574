"""Tests of an installation without extras: every command has help, and names the extra it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk.cli import COMMANDS, EXTRAS, find_extra
from hotdesk.cli.shipped import find_shipped_file
from hotdesk.errors import explain_extra

BLOCKED = sorted(set().union(*EXTRAS.values()))
BLOCK = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
"""
EVERY_HELP = f"""{BLOCK}
from contextlib import redirect_stdout
from io import StringIO
from hotdesk.cli import COMMANDS, carry_out
for name in COMMANDS:
    said = StringIO()
    try:
        with redirect_stdout(said):
            carry_out([name, "--help"])
    except SystemExit as e:
        assert e.code == 0, name
    assert said.getvalue().startswith(f"usage: hotdesk {{name}}"), name
    print(name)
"""


def run(script: str, *argv: str, home: Path) -> subprocess.CompletedProcess[str]:
    env = {"HOTDESK_HOME": str(home), "PATH": "/usr/bin:/usr/sbin", "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run([sys.executable, "-c", script, *argv], env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_every_command_says_its_help(tmp_path: Path) -> None:
    done = run(EVERY_HELP, home=tmp_path)
    assert (done.stderr, done.stdout.split()) == ("", list(COMMANDS))


@pytest.mark.slow
@pytest.mark.parametrize("argv", [["serve", "--port", "0"], ["mcp"], ["key", "ls"], ["key", "new", "--name", "x"]])
def test_a_command_that_needs_an_extra_names_it_in_one_line(argv: list[str], home: Path) -> None:
    done = run(f"{BLOCK}\nfrom hotdesk.cli import main; main()", *argv, home=home / "without-extras")
    assert (done.returncode, done.stdout) == (125, "")
    assert (
        done.stderr
        == f"hotdesk: `hotdesk {argv[0]}` needs Python packages that are missing; run pip install 'hotdesk[serve]', "
        "or, if pipx installed hotdesk: sudo pipx install --global --force 'hotdesk[serve,models]'\n"
    )


def test_only_a_missing_module_of_an_extra_is_reported_as_one() -> None:
    assert find_extra("pydantic.dataclasses") == "serve"
    assert find_extra("openai") == "models"
    assert find_extra("kubernetes.aio") == "kube"
    assert find_extra("hotdesk.nowhere") is None


def test_the_command_of_pipx_keeps_the_usual_extras() -> None:
    assert explain_extra("models").endswith("'hotdesk[serve,models]'")
    assert explain_extra("kube").endswith("--force 'hotdesk[serve,models,kube]'")


def test_files_that_messages_mention_exist() -> None:
    assert find_shipped_file("brief.md").is_file()
    assert find_shipped_file("hotdesk.service").is_file()
