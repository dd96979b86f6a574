"""Tests of the import contracts: each can be broken, since a rule no import can violate protects nothing."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tools.conventions import parse

ROOT = Path(__file__).parents[2]
CONTRACTS: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
NEVER = {
    "hotdesk.door": {"hotdesk.vault", "hotdesk.keys", "hotdesk.desk.keeper"},
    "hotdesk.desk.keeper": {"anyio", "h11", "hotdesk_guest"},
    "hotdesk.hands.reader": {"hotdesk.desk.seam", "hotdesk.host", "hotdesk.keys", "hotdesk.vault"},
    "hotdesk_guest": {"hotdesk"},
}
"""What the parts that read hostile bytes must never import, whatever else is refactored."""


def violations(contract: dict[str, Any]) -> list[tuple[str, str]]:
    """Give imports that break a contract: every one that it forbids by name."""
    match contract["type"]:
        case "forbidden":
            return [(source, one) for source in contract["source_modules"] for one in contract["forbidden_modules"]]
        case "independence":
            first, second = contract["modules"]
            return [(first, second), (second, first)]
        case "layers":
            top, bottom = (contract["layers"][at].strip("()") for at in (0, -1))
            within = f"{contract['containers'][0]}." if "containers" in contract else ""
            return [(f"{within}{bottom}", f"{within}{top}")]
    raise AssertionError(f"no violation is known for a contract of type {contract['type']}")


def add_import(source: Path, module: str, imported: str) -> None:
    path = source / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    file.write_text(f"{file.read_text()}\nimport {imported}\n")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("contracts")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for contract in CONTRACTS:
        for module, imported in violations(contract):
            add_import(folder / "src", module, imported)
    code = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "500"}
    done = subprocess.run(
        [sys.executable, "-c", code, "--no-cache"],
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return " ".join(done.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract["name"])
def test_every_contract_can_be_broken(report: str, contract: dict[str, Any]) -> None:
    assert f"{contract['name']} BROKEN" in report
    if contract["type"] == "forbidden":
        for module, imported in violations(contract):
            assert f"{module} is not allowed to import {imported}" in report


@pytest.mark.parametrize("module", NEVER)
def test_parsers_of_hostile_bytes_do_not_import_valuable_parts(module: str) -> None:
    forbidden = [contract for contract in CONTRACTS if module in contract.get("source_modules", ())]
    assert {one for contract in forbidden for one in contract["forbidden_modules"]} >= NEVER[module]


NOT_MODULES = {"hotdesk.reset", "hotdesk.take", "hotdesk.part", "hotdesk.service", "hotdesk.wall"}
"""ASGI extensions, a telemetry attribute, the systemd unit, a key of E2B's metadata."""


def named_in_text() -> set[tuple[str, str]]:
    """Collect modules, and things in them, that the source names as text: no type checker follows those."""
    found = set()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(parse(file)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                match = re.fullmatch(r"(hotdesk(?:\.[a-z0-9_]+)+)(?::(\w+))?", node.value)
                if match and match[1] not in NOT_MODULES:
                    found.add((match[1], match[2] or ""))
    return found


@pytest.mark.slow
def test_modules_that_are_named_as_text_exist() -> None:
    named = named_in_text()
    assert ("hotdesk.hands.reader.view", "ScreenRelay") in named
    missing = []
    for module, name in sorted(named):
        try:
            found = import_module(module)
        except ModuleNotFoundError:
            missing.append(module)
            continue
        if name and not hasattr(found, name):
            missing.append(f"{module}:{name}")
    assert missing == []
