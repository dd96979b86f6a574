"""Tests that every attack can succeed: each guard is taken out of a copy of the source, and its attacks must fail."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hotdesk.linux import uids
from hotdesk.linux.cgroup import Cgroup, find_hierarchies
from tests.security.guards import Guard, collect

GUARDS, NO_GUARD = collect()
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SECONDS = 200.0
BROKEN = ("AttributeError", "ImportError", "IndentationError", "ModuleNotFoundError", "NameError", "SyntaxError",
          "UnboundLocalError")  # fmt: skip
"""Errors by which an attack ends if the removal broke the program instead of opening it."""


@pytest.mark.long
@pytest.mark.container
@pytest.mark.timeout(300)
@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_without_its_guard_an_attack_succeeds(guard: Guard, tmp_path: Path) -> None:
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source)
    for file, text in take_out(guard, source).items():
        file.write_text(text)
    try:
        found, said = outcomes(source, guard.attacks, tmp_path / "report.xml")
    finally:
        bury()
    reached = {attack: [how for name, how in found.items() if is_case(name, attack)] for attack in guard.attacks}
    unmoved = {attack: hows for attack, hows in reached.items() if set(hows) != {"failed"}}
    assert unmoved == {}, said[-6000:]


def take_out(guard: Guard, source: Path) -> dict[Path, str]:
    """Return the changed files without a guard; its text must occur exactly once, so that no removal becomes stale."""
    texts: dict[Path, str] = {}
    for removal in guard.removals:
        file = removal.find(source)
        text = texts.get(file) or file.read_text()
        assert text.count(removal.old) == 1, f"{guard.name}: {removal.file} must hold once: {removal.old}"
        texts[file] = text.replace(removal.old, removal.new)
    return texts


def outcomes(source: Path, attacks: tuple[str, ...], report: Path) -> tuple[dict[str, str], str]:
    """Run attacks on a copy of the source; return how each ended, and the output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", f"--junitxml={report}"]
    argv += ["--origins=opened", *(f"{HERE.relative_to(ROOT)}/{attack}" for attack in attacks)]
    with subprocess.Popen(
        argv,
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        try:
            said = running.communicate(timeout=SECONDS)[0]
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)
            said = running.communicate(timeout=30)[0]
    return read_report(report), said


def read_report(report: Path) -> dict[str, str]:
    """Read how each attack ended; one that failed, and whose clean-up then failed too, counts as failed.

    An attack that an error of a broken program ended did not succeed; it counts as `broken`.
    """
    found: dict[str, str] = {}
    if not report.exists():
        return found
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - our own
        name = f"{case.get('classname', '').rpartition('.')[2]}.py::{case.get('name')}"
        if found.get(name) != "failed":
            found[name] = read_case(case)
    return found


def read_case(case: ElementTree.Element) -> str:
    if (failure := case.find("failure")) is not None:
        return "broken" if is_broken(failure.get("message", ""), failure.text or "") else "failed"
    return "passed" if case.find("error") is None else "error"


def is_broken(message: str, text: str) -> bool:
    """Return whether a test failed by an error that shows a broken program, alone or as all of a group."""
    name = message.partition(":")[0].strip().rpartition(".")[2]
    if not name.endswith("ExceptionGroup"):
        return name in BROKEN
    leaves = re.findall(r"^[\s|+-]*\b([\w.]*(?:Error|Exception|Failed))\b", f"{message}\n{text}", re.MULTILINE)
    return bool(leaves) and all(leaf.rpartition(".")[2] in BROKEN for leaf in leaves)


def is_case(name: str, attack: str) -> bool:
    """Return whether a test is an attack that a guard names: itself or a case of it."""
    return name == attack or name.startswith(f"{attack}[")


def bury() -> None:
    """Remove the desk an unguarded attack left: its session's state directory is gone, its claim of user ids is not."""
    for file in uids.CLAIMS.iterdir():
        with suppress(OSError):
            if not file.name.isdigit() or (desk := Path(os.readlink(file))).parents[2].exists():
                continue
            cgroup = Cgroup(find_hierarchies(), desk.name)
            if cgroup.kill():
                cgroup.remove()
                uids.release(uids.FIRST + int(file.name) * uids.WIDTH, desk)


def collected() -> set[str]:
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider", "--no-header"]
    argv += ["-o", "addopts=--import-mode=importlib", "--verbosity=-1", "--origins=opened"]
    files = sorted(str(file.relative_to(ROOT)) for file in HERE.glob("test_*_attacks.py"))
    done = subprocess.run([*argv, *files], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if "::" in line]
    return {line.removeprefix(f"{HERE.relative_to(ROOT)}/") for line in lines}


@pytest.mark.long
@pytest.mark.timeout(200)
def test_every_attack_names_its_guard_or_why_it_has_none() -> None:
    attacks = collected()
    named = {attack for guard in GUARDS for attack in guard.attacks} | set(NO_GUARD)
    assert len(attacks) > 400
    assert sorted(case for case in attacks if not any(is_case(case, name) for name in named)) == []
    assert sorted(name for name in named if not any(is_case(case, name) for case in attacks)) == []


def test_no_attack_is_both_guarded_and_said_to_have_no_guard() -> None:
    guarded = {attack for guard in GUARDS for attack in guard.attacks}
    assert sorted(guarded & set(NO_GUARD)) == []
    assert [name for name, reason in NO_GUARD.items() if len(reason) < 10] == []


def test_every_removal_matches_the_source_once_and_leaves_a_program(tmp_path: Path) -> None:
    named: dict[str, str] = {}
    for guard in GUARDS:
        for file, text in take_out(guard, ROOT / "src").items():
            if file.suffix == ".py":
                compile(text, f"{guard.name}: {file}", "exec")
                mutant = tmp_path / f"mutant_{len(named)}.py"
                mutant.write_text(text)
                named[mutant.name] = guard.name
    assert [f"{named[Path(file).name]}: {what}" for file, what in find_undefined(tmp_path)] == []


def find_undefined(folder: Path) -> list[tuple[str, str]]:
    """Return each use of a name that is defined nowhere, as the file and what ruff says."""
    argv = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "F821,F823"]
    argv += ["--output-format", "json", str(folder)]
    done = subprocess.run(argv, capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return [(each["filename"], each["message"]) for each in json.loads(done.stdout)]


def test_names_that_do_not_exist_are_found(tmp_path: Path) -> None:
    (tmp_path / "mutant.py").write_text("def work() -> None:\n    missing()\n")
    assert find_undefined(tmp_path) == [(str(tmp_path / "mutant.py"), "Undefined name `missing`")]


@pytest.mark.parametrize(
    ("message", "how"),
    [
        ("assert 1 == 2", "failed"),
        ("AssertionError: no AttributeError: here", "failed"),
        ("Failed: DID NOT RAISE <class 'OSError'>", "failed"),
        ("hotdesk.errors.DeskError: NameError", "failed"),
        ("NameError: name 'Run' is not defined", "broken"),
        ("AttributeError: 'NoneType' object has no attribute 'x'", "broken"),
        ("ExceptionGroup: errors (1 sub-exception)\n  | NameError: name 'Run' is not defined", "broken"),
        ("ExceptionGroup: errors (1 sub-exception)\n  | AssertionError: it got out", "failed"),
    ],
)
def test_an_attack_that_a_broken_program_ended_did_not_succeed(tmp_path: Path, message: str, how: str) -> None:
    case = ElementTree.Element("testcase", classname="tests.security.test_x_attacks", name="test_it")
    ElementTree.SubElement(case, "failure", message=message)
    ElementTree.ElementTree(case).write(tmp_path / "report.xml")
    assert read_report(tmp_path / "report.xml") == {"test_x_attacks.py::test_it": how}
