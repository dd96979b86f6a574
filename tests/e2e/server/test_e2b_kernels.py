"""Tests of TypeScript, R and Java in E2B's code interpreter, with the image that has them, built here."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2b_code_interpreter import Sandbox

from tests.e2e.conftest import PROGRAM
from tests.e2e.server.conftest import Served, served

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(1200)]
IMAGE = "code-interpreter-full"
CELLS = {
    "typescript": [
        ("const x: number = 41; interface A { n: number }", None),
        ("x + 1", "42"),
        ("let y: = 3", "SyntaxError"),
        ("import fs from 'fs'; fs.existsSync('/tmp') as boolean", "true"),
    ],
    "r": [("x <- 41", None), ("x + 1", "[1] 42"), ("stop('bad')", "Error"), ("data.frame(a = 1:2)", "  a\n1 1\n2 2")],
    "java": [
        ("int x = 41;", None),
        ("x + 1", "42"),
        ("int[] a = {1}; a[3]", "java.lang.ArrayIndexOutOfBoundsException"),
        ('String f(int n) { return "n" + n; } f(2)', "n2"),
    ],
}
PRINTS = {"typescript": "console.log('hi')", "r": "cat('hi\\n')", "java": 'System.out.println("hi");'}


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    subprocess.run([PROGRAM, "setup", "--image", IMAGE], check=True, timeout=900, env=os.environ)
    with served(home / f"kernels-{time.monotonic_ns()}") as found:
        yield found


@pytest.fixture(scope="module")
def sandbox(server: Served) -> Iterator[Sandbox]:
    with Sandbox.create(template=IMAGE, timeout=900, **server.e2b) as found:
        yield found


@pytest.mark.parametrize("language", CELLS)
def test_a_language_keeps_state_shows_values_and_reports_errors(sandbox: Sandbox, language: str) -> None:
    context = sandbox.create_code_context(language=language)
    for code, expected in CELLS[language]:
        done = sandbox.run_code(code, context=context, timeout=120)
        assert (done.error.name if done.error else done.text) == expected
    printed = sandbox.run_code(PRINTS[language], context=context, timeout=120)
    assert printed.logs.stdout == ["hi\n"]


def test_a_plot_of_r_is_a_picture(sandbox: Sandbox) -> None:
    done = sandbox.run_code("plot(1:3)", language="r", timeout=120)
    assert [str(each.png)[:6] for each in done.results] == ["iVBORw"]


def test_code_that_never_ends_is_interrupted_and_nothing_is_lost(sandbox: Sandbox) -> None:
    loops = {"typescript": "while (true) {}", "r": "while (TRUE) {}", "java": "while (true) {}"}
    for language, code in loops.items():
        context = sandbox.create_code_context(language=language)
        sandbox.run_code({"typescript": "var z = 7", "r": "z <- 7", "java": "int z = 7;"}[language], context=context)
        with pytest.raises(Exception, match=r"(?i)time"):
            sandbox.run_code(code, context=context, timeout=2)
        assert str(sandbox.run_code("z", context=context, timeout=60).text).endswith("7")
