"""The check of a patch: tests fail without it and pass with it, and it changes only allowed files."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from typing import Annotated, ClassVar

from hotdesk.brief.brief import locate_input
from hotdesk.checks import execution
from hotdesk.checks.count_range import format_count
from hotdesk.checks.evidence import limit_faults, make_unreadable_verdict
from hotdesk.checks.execution import Execution, quote_output, show_output
from hotdesk.checks.expectations import ImageName, Place, Places, Seconds, SomeTexts, Texts, read_expectations
from hotdesk.checks.malformed import MalformedReportError
from hotdesk.checks.seam import Evidence, Fault, Value, Verdict
from hotdesk.checks.sentences import list_words, show
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.errors import make_printable
from hotdesk.strict import Alias, Otherwise

EXAMPLE = '{repository = "repo", tests = ["python3", "-m", "unittest"], allowed = ["src/*"]}'
LOOKED_FOR = ("applies", "red before", "green after", "allowed", "tests unchanged", "plain files")
REMEDIES: Mapping[str, str] = {
    "applies": "Make the patch with `git diff` inside the repository; test it with `git apply --check` in a new copy.",
    "red before": "Run the tests on the repository as it was given: the patch must fix a test that fails there.",
    "green after": "Run the same tests with the patch, and correct the program until they pass.",
    "allowed": "Do not change or add this file.",
    "tests unchanged": "Do not change or add this file: correct the program, not its tests.",
    "plain files": "Change regular files only, no symbolic links.",
}
_TEST_PATHS = ("test*", "*/test*", "tests/*", "*/tests/*", "*_test.*", "conftest.py", "*/conftest.py", "*.pth",
              "sitecustomize.py", "usercustomize.py", "pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml",
              "unittest.py", "unittest/*", "pytest.py", "pytest/*", "_pytest/*", "Makefile")  # fmt: skip
"""Files that are tests or control how tests run: a change to one of them could make any test pass."""
STEPS = ("copies", "applies", "changed", "before", "after")
BEFORE, AFTER = "before", "after"
CHANGE = re.compile(r":([0-7]{6}) ([0-7]{6}) \S+ \S+ ([A-Z])\d*\0([^\0]+)\0")
PLAIN = ("000000", "100644", "100755")
FAILED = re.compile(r"fail|error", re.I)
COPY = 'cp -a "$1" before && cp -a "$1" after && rm -rf before/.git after/.git'
_NOT_STARTED = (126, 127)
_MARKERS = re.compile(r"^[ \t]*[~^][ \t~^]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PatchCheck:
    """A repository, its tests, and the files that a patch may change."""

    alone: ClassVar[bool] = True
    repository: Annotated[Place, re.compile("(?s).+"), Otherwise("expected a folder next to the brief")]
    tests: SomeTexts
    red: Texts = ()
    """Names of tests that must fail without the patch."""
    allowed: Texts = ()
    """Patterns of paths that it may change; empty for all."""
    test_paths: Annotated[Texts, lambda paths: paths or _TEST_PATHS] = _TEST_PATHS
    may_change_tests: bool = False
    seconds: Seconds = execution.RUN_TIMEOUT_S
    more: Annotated[Places, Alias("beside")] = ()
    image: ImageName = "base"

    @classmethod
    def from_expect(cls, expect: Mapping[str, object]) -> PatchCheck:
        return read_expectations(cls, "patch", expect, EXAMPLE)

    @property
    def beside(self) -> tuple[str, ...]:
        return (self.repository, *self.more)

    @property
    def not_checked(self) -> tuple[str, ...]:
        honest = "whether the changed code passes its tests honestly: it runs in the same process as the tests"
        return ("behaviour that no test covers", honest)

    @property
    def requirements(self) -> tuple[str, ...]:
        return tuple(self.list_requirements())

    def list_requirements(self) -> Iterator[str]:
        repository, tests = show(self.repository), show(" ".join(self.tests))
        yield f"`git apply` must accept it in {repository} as it was given: write paths relative to {repository}."
        failing = f": {list_words(self.red)}" if self.red else ""
        yield f"`{tests}` in {repository} must fail without the patch{failing}."
        yield f"With the patch every test must pass within {self.seconds:g} seconds: exit code 0."
        if self.allowed:
            yield f"It may change {list_words(self.allowed)} and nothing else."
        if not self.may_change_tests:
            yield (
                "It must not change, add or remove tests, nor test configuration (such as conftest.py or setup.cfg), "
                "and must not add a file that shadows a module of the standard library."
            )
        yield "It must change regular files only: no symbolic links."

    async def gather(self, desk: Desk, path: str) -> Evidence:
        """Apply the patch to a copy and list the changes before any test runs; then test without it, and with it."""
        source, place = f"beside/{locate_input(self.repository)}", f"{desk.home}/{path}"
        runs = {"copies": await execution.run(desk, ["sh", "-c", COPY, "copy", source])}
        apply = ["git", "apply", "--whitespace=nowarn", place]
        runs["applies"] = await execution.run(desk, apply, cwd=f"{desk.home}/{AFTER}")
        listed = ["git", "diff", "--no-index", "--no-renames", "--raw", "-z", BEFORE, AFTER]
        runs["changed"] = await execution.run(desk, listed)
        for state in (BEFORE, AFTER):
            runs[state] = await execution.run(desk, self.tests, cwd=f"{desk.home}/{state}", seconds=self.seconds)
        return execution.to_evidence(runs)

    def judge(self, evidence: Evidence) -> Verdict:
        try:
            runs, _ = execution.read_runs(evidence, STEPS)
            changed = _read_changes(runs["changed"])
        except (ValueError, RecursionError) as e:
            return make_unreadable_verdict(LOOKED_FOR, "a patch that can be applied", e, REMEDIES["applies"])
        faults, more = limit_faults(
            chain(
                _check_patch_applies(runs, changed),
                self.find_forbidden_changes(changed),
                self.check_tests(runs[BEFORE], runs[AFTER]),
            ),
            REMEDIES,
        )
        values: dict[str, Value] = {
            "exit code before": runs[BEFORE].exit_code,
            "exit code after": runs[AFTER].exit_code,
            "output before": _quote_tail(runs[BEFORE]),
            "output after": _quote_tail(runs[AFTER]),
            "changed": make_printable(", ".join(f"{how} {path}" for how, path, _ in changed)[:500]),
        }
        count = f"{format_count(len(changed), 'file')} changed"
        facts = (count, "tests fail without the change", "tests pass with the change")
        return Verdict(LOOKED_FOR, faults, facts, values, more=more)

    def find_forbidden_changes(self, changed: Sequence[tuple[str, str, str]]) -> Iterator[Fault]:
        for how, path, mode in changed:
            where = make_printable(path[:200])
            if mode not in PLAIN:
                yield Fault("plain files", where, "a regular file", "a symbolic link or another special file")
            if self.allowed and not is_any(path, self.allowed):
                yield Fault("allowed", where, f"changes to {', '.join(self.allowed)} only", "a change to this file")
            if not self.may_change_tests and (
                is_any(path, self.test_paths) or (how == "A" and _is_shadowing_stdlib(path))
            ):
                yield Fault("tests unchanged", where, "unchanged tests and test configuration", "a change to this file")

    def check_tests(self, before: Execution, after: Execution) -> Iterator[Fault]:
        if before.exit_code == 0 or before.exit_code in _NOT_STARTED or before.trouble:
            found = before.trouble or f"exit code {before.exit_code}: {_show_tail(before)}"
            yield Fault("red before", "", "tests that fail without the change", found)
        for name in self.red:
            if not _has_failed(before, name):
                yield Fault(
                    "red before", make_printable(name[:200]), "a test that fails without the change", _show_tail(before)
                )
        failed = [name for name in self.red if _has_failed(after, name)]
        for name in failed:
            yield Fault(
                "green after", make_printable(name[:200]), "a test that passes with the change", _show_tail(after)
            )
        if after.exit_code != 0 or after.trouble:
            output = "" if failed else f": {_show_tail(after)}"
            yield Fault(
                "green after", "", "tests that pass with the change",
                after.trouble or f"exit code {after.exit_code}{output}",
            )  # fmt: skip


def _check_patch_applies(runs: Mapping[str, Execution], changed: Sequence[object]) -> Iterator[Fault]:
    for step in ("copies", "applies"):
        if runs[step].exit_code or runs[step].trouble:
            found = f"exit code {runs[step].exit_code}: {_show_tail(runs[step])}"
            yield Fault("applies", "", "a patch that git can apply", found)
    if not changed:
        yield Fault("applies", "", "a patch that changes at least one file", "no change")


def _read_changes(listed: Execution) -> list[tuple[str, str, str]]:
    """Parse git's list: how each path was changed, the path, and its new mode."""
    if listed.exit_code not in (0, 1) or listed.trouble:
        raise ValueError(f"the changes of the patch cannot be listed: {show_output(listed.stderr)}")
    found = CHANGE.findall(listed.stdout)
    if CHANGE.sub("", listed.stdout):
        raise MalformedReportError("invalid list of changes")
    return [(how, path.partition("/")[2], new) for _, new, how, path in found]


def is_any(path: str, patterns: Sequence[str]) -> bool:
    """Return whether a path matches a pattern, or is below a folder that does."""
    return any(fnmatchcase(path, each) or fnmatchcase(path, f"{each.rstrip('/')}/*") for each in patterns)


def _is_shadowing_stdlib(path: str) -> bool:
    """Return whether a file shadows a module of the standard library for tests that run in its folder."""
    name, dot, _ = path.replace("/__init__.", ".").partition(".")
    return bool(dot) and name in sys.stdlib_module_names


def _has_failed(run: Execution, name: str) -> bool:
    """Return whether a test is reported as failed: its name is on a line that says so."""
    lines = f"{run.stdout}\n{run.stderr}".splitlines()
    return any(name in line and FAILED.search(line.replace(name, "")) for line in lines)


def _quote_tail(run: Execution) -> str:
    return quote_output(f"{run.stdout}\n{run.stderr}")


def _show_tail(run: Execution) -> str:
    """Quote the end of a run's output without lines that only mark a place in the line above them."""
    return show_output(_MARKERS.sub("", f"{run.stdout}\n{run.stderr}"))
