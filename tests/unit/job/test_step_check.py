"""Tests of a step's own check: it does not use the worker's modules, and a check that cannot run is no failure."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hotdesk.desk.seam import Desk, Spec
from hotdesk.desk.wall.local.runtime import local_runtime
from hotdesk.job.step_check import REMEDY, find_modules, find_program, probe_check, run_check

IMPORTS = "python3 -c 'import nosuchmodule; nosuchmodule.check()'"


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with local_runtime() as runtime:
        yield await runtime.open(Spec())


async def test_a_check_that_holds_says_nothing(desk: Desk) -> None:
    await desk.write("a.csv", b"x")
    assert await run_check(desk, "test -s a.csv && python3 -c 'import csv'") == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "why"),
    [
        (IMPORTS, "No module named 'nosuchmodule'"),
        ("no-such-program --check", "no-such-program: command not found"),
        ("touch plain; ./plain", "Permission denied"),
        ("python3 -c 'import ('", "SyntaxError"),
        ("if true; then", "syntax error"),
    ],
)
async def test_a_check_that_cannot_run_is_reported_as_such(check: str, why: str, desk: Desk) -> None:
    said = await run_check(desk, check)
    assert "The step's check cannot run here: " in said
    assert why in said.splitlines()[0]
    assert REMEDY in said


async def test_a_check_that_fails_is_reported_with_its_lines(desk: Desk) -> None:
    said = await run_check(desk, "printf 'one\\n\\033[31mtwo\\033[0m\\n'; echo three >&2; exit 3")
    assert said == (
        "the step's check `printf 'one\\n\\033[31mtwo\\033[0m\\n'; echo three >&2; exit 3` ended with exit code 3:\n"
        "one\ntwo\nthree"
    )
    long = await run_check(desk, "seq 100000; exit 1")
    assert len(long) < 2200
    assert long.endswith("\n100000")


async def test_an_error_in_a_file_of_the_workers_is_a_failure_of_the_step(desk: Desk) -> None:
    await desk.write("made.py", b"import (\n")
    assert "cannot run" not in await run_check(desk, "python3 -m py_compile made.py")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["nosuchmodule.py", ".local/lib/{python}/site-packages/nosuchmodule.py"])
async def test_a_module_that_the_worker_brings_passes_no_check(place: str, desk: Desk) -> None:
    python = (await desk.run(["python3", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])"])).text.strip()
    await desk.write(place.format(python=python), b"def check(): pass\n")
    assert "cannot run" in await run_check(desk, IMPORTS)
    assert "nosuchmodule" in await probe_check(desk, IMPORTS)
    assert await run_check(desk, f"PYTHONPATH=.:.local/lib/{python}/site-packages {IMPORTS}") == ""


@pytest.mark.slow
async def test_a_check_is_tried_before_anybody_works_towards_it(desk: Desk) -> None:
    assert "Python has no module named nosuchmodule." in await probe_check(desk, IMPORTS)
    assert "the program `no-such-program` does not exist" in await probe_check(desk, "no-such-program a.csv")
    assert "syntax error" in await probe_check(desk, "if true; then")
    for right in ("test -s a.csv", "[ -s a.csv ]", "X=1 python3 -c 'import csv, json as j'", "./made.sh", "cd a && b"):
        assert await probe_check(desk, right) == ""
    assert (await desk.list("")) == []


@pytest.mark.parametrize(
    ("check", "program", "modules"),
    [
        ("python3 -c \"import pandas as pd, openpyxl; from a.b import c\"", "python3", ("pandas", "openpyxl", "a")),
        ("A=1 B=2 grep -q import x.txt", "grep", ()),
        ("! grep -q x a", "grep", ()),
        ("PYTHONPATH=. python3 -c 'import made'", "python3", ()),
        ("python3 -c 'import sys; sys.path.append(\".\"); import made'", "python3", ()),
        ("./check.sh", "", ()),
        ("out/check.sh", "", ()),
        ("$(which python3) x", "", ()),
        ("'unclosed", "", ()),
        ("", "", ()),
    ],
)  # fmt: skip
def test_what_a_check_needs_is_found_where_that_is_sure(check: str, program: str, modules: tuple[str, ...]) -> None:
    assert find_program(check) == program
    assert tuple(find_modules(check)) == modules
