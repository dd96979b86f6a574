"""Tests of every small check at a real clean desk: a good file passes, a wrong one does not, and each is recorded."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from PIL import Image

from hotdesk.checks.active import LOOKED_FOR
from hotdesk.config import Config
from hotdesk.job.verify import UNDISTURBED
from tests.unit.checks.test_patch import CODE, MENDED, TESTS
from tests.verifying import Verifier, verifier

pytestmark = [pytest.mark.container, pytest.mark.timeout(100)]
CUSTOM = """import json, sys
text = open(sys.argv[1]).read()
faults = [] if "total" in text else [{"where": "", "expected": "a total", "found": text[:20]}]
print(json.dumps({"faults": faults, "held": ["it has a total"], "values": {"letters": len(text)}}))
"""


@pytest.fixture(scope="module")
async def machine(settings: Config, home: Path) -> AsyncIterator[Verifier]:
    folder = home / "small-brief"
    for name, text in {"src/__init__.py": "", "src/code.py": CODE, "test_code.py": TESTS}.items():
        (folder / "repo" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "repo" / name).write_text(text)
    (folder / "check.py").write_text(CUSTOM)
    (folder / "orders.csv").write_text("Total\n5\n7\n")
    (folder / "secret.txt").write_text("no check names this")
    async with verifier(settings, home / "small", folder, "office") as opened:
        yield opened


def archive(**members: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, text in members.items():
            file.writestr(name, text)
    return made.getvalue()


def picture(spot: str) -> bytes:
    made, drawn = io.BytesIO(), Image.new("RGB", (60, 40), "white")
    drawn.paste(spot, (0, 0, 10, 10))
    drawn.save(made, "PNG")
    return made.getvalue()


PATCH: dict[str, object] = {"repository": "repo", "tests": ["python3", "-m", "unittest"], "allowed": ["src/*"]}
FILES: dict[str, tuple[str, bytes, bytes, dict[str, object]]] = {
    "csv": ("a.csv", b"A\n12\n", b"A\n13\n", {"source": "orders.csv", "sums": {"A": "Total"}}),
    "json": ("a.json", b'{"a": 1}', b'{"a": 1, "a": 2}', {"required": ["a"]}),
    "png": ("a.png", picture("red"), picture("white"), {"width": 60}),
    "zip": ("a.zip", archive(a="x"), archive(b="x"), {"members": ["a"], "only": True}),
    "patch": ("a.patch", MENDED.encode(), MENDED.replace("a + b", "a * b").encode(), PATCH),
    "program": ("a.py", b"print(6 * 7)", b"print(6 * 8)", {"output": "42"}),
    "command": ("a.json", b'{"a": 1}', b"{", {"run": ["python3", "-m", "json.tool", "{file}"]}),
    "custom": ("a.txt", b"the total is 5", b"nothing", {"file": "check.py"}),
    "active-content": ("a.txt", b"words", b"#!/bin/sh\n", {}),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("check", FILES)
async def test_a_good_file_passes_and_a_wrong_one_fails(machine: Verifier, check: str) -> None:
    path, good, wrong, expect = FILES[check]
    before = len(machine.verdicts())
    passed = await machine.look(path, good, check, **expect)
    assert passed.faults == []
    assert passed.passed
    assert UNDISTURBED in passed.verdicts[-1].looked_for
    assert passed.verdicts[0].check == "active-content"
    assert set(LOOKED_FOR) < set(passed.verdicts[0].looked_for)
    failed = await machine.look(path, wrong, check, **expect)
    assert not failed.passed
    assert failed.faults
    told = machine.verdicts()[before:]
    assert told[-1].outcome == "failed"
    assert {each.sha256 for each in told} == {passed.sha256, failed.sha256}


async def test_a_picture_is_rendered_again_and_stored(machine: Verifier) -> None:
    made = await machine.look("a.png", picture("red"), "png")
    (drawn,) = made.verdicts[-1].pictures
    assert (drawn.width, drawn.height) == (60, 40)
    assert drawn.png.startswith(b"\x89PNG")


async def test_active_content_that_the_brief_allows_passes_and_is_reported(machine: Verifier) -> None:
    data = b"A\n=1+1\n"
    assert not (await machine.look("a.csv", data, "csv")).passed
    assert not (await machine.look("a.csv", data, "csv", "formulas")).passed  # its check does not expect them
    named = await machine.look("a.csv", data, "csv", "formulas", formulas=True)
    for allowed in (named, await machine.look("a.csv", data, "csv", formulas=True)):
        assert allowed.passed
        assert allowed.verdicts[0].values["allowed and found"] == "formulas"
        assert allowed.verdicts[0].expect == {"allow": ["formulas"], "code": False}


async def test_files_that_are_only_opened_share_a_desk_and_programs_have_their_own(machine: Verifier) -> None:
    await machine.look("a.json", b"{}", "json")
    await machine.look("a.csv", b"a\n1\n", "csv")
    await machine.look("a.py", b"print(1)", "program")
    told = machine.verdicts()[-6:]
    assert [each.check for each in told if each.desk != told[0].desk] == ["program"]
    assert json.loads(machine.verifying.log.papers.read(told[-1].paper))["values"]["output"] == r"1\n"
