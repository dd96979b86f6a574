"""E2B's npm packages, installed once a session, and their type declarations."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.server.conftest import Served

PROGRAMS = Path(__file__).with_name("js")
VERSIONS = {"e2b": "2.51.0", "@e2b/code-interpreter": "2.8.0", "@e2b/desktop": "2.4.0"}
_CLASS = re.compile(r"^declare (?:abstract )?class (\w+)")
_METHOD = re.compile(r"^  (static )?([A-Za-z]\w*)(?:<.*>)?\(")


@dataclass(frozen=True)
class JsRun:
    """The methods a program called, and those whose call failed."""

    called: frozenset[str]
    failed: frozenset[str]


def install(folder: Path, *more: str) -> Path:
    """Install the packages into a folder; return it."""
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    named = [f"{name}@{version}" for name, version in VERSIONS.items()]
    argv = ["npm", "install", "--silent", "--no-audit", "--no-fund", *named, *more]
    subprocess.run(argv, cwd=folder, check=True, timeout=300)
    for program in PROGRAMS.glob("*"):
        shutil.copy(program, folder)
    return folder


def run(folder: Path, program: str, server: Served, timeout: float = 300) -> JsRun:
    argv = ["node", program, server.key, server.url]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    return JsRun(frozenset(found["called"]), frozenset(found["failed"]))


def list_declared(folder: Path, package: str) -> dict[str, set[str]]:
    """List the public methods of each class of an installed package, as `Class.static` and `Class#method`."""
    found: dict[str, set[str]] = {}
    current = ""
    for line in (folder / "node_modules" / package / "dist/index.d.ts").read_text().splitlines():
        if match := _CLASS.match(line):
            current = match[1]
            found.setdefault(current, set())
        elif line.startswith("}"):
            current = ""
        elif current and (match := _METHOD.match(line)) and match[2] not in ("constructor", "get"):
            found[current].add(f"{current}{'.' if match[1] else '#'}{match[2]}")
    return found
