"""Tests that every attack can succeed: each guard is taken out of a copy of the source, and its attacks must fail."""

from __future__ import annotations

import os
import py_compile
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


@pytest.mark.long
@pytest.mark.container
@pytest.mark.timeout(300)
@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_without_its_guard_an_attack_succeeds(guard: Guard, tmp_path: Path) -> None:
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source)
    for removal in guard.removals:
        take_out(removal.find(source), removal.old, removal.new)
    try:
        found, said = outcomes(source, guard.attacks, tmp_path / "report.xml")
    finally:
        bury()
    reached = {attack: [how for name, how in found.items() if is_case(name, attack)] for attack in guard.attacks}
    unmoved = {attack: hows for attack, hows in reached.items() if set(hows) != {"failed"}}
    assert unmoved == {}, said[-6000:]


def take_out(file: Path, old: str, new: str) -> None:
    """Replace a guard's text, which must occur exactly once, so that no removal becomes stale."""
    text = file.read_text()
    assert text.count(old) == 1, f"{file.name} holds {text.count(old)} times: {old}"
    file.write_text(text.replace(old, new))
    if file.suffix == ".py":
        py_compile.compile(str(file), doraise=True)


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
    """Read how each attack ended; one that failed, and whose clean-up then failed too, counts as failed."""
    found: dict[str, str] = {}
    if not report.exists():
        return found
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - our own
        name = f"{case.get('classname', '').rpartition('.')[2]}.py::{case.get('name')}"
        how = "failed" if case.find("failure") is not None else "error" if case.find("error") is not None else "passed"
        if found.get(name) != "failed":
            found[name] = how
    return found


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
@pytest.mark.timeout(60)
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


def test_every_removal_matches_the_source_once() -> None:
    for guard in GUARDS:
        for removal in guard.removals:
            text = removal.find(ROOT / "src").read_text()
            assert text.count(removal.old) == 1, f"{guard.name}: {removal.file} must hold once: {removal.old}"
