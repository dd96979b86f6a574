"""Tests of the example of twenty invoices: its script makes an error and corrects it, and is deterministic."""

from __future__ import annotations

import re
import shutil
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples.twenty import pdfs
from examples.twenty.supplier import HOST, Supplier, serve_supplier
from tests.unit.brain.loop import Loop

from hotdesk.brain.models.scripted import ScriptedModel
from hotdesk.brain.seam import PlanningTask
from hotdesk.checks import find
from hotdesk.desk.seam import Desk, Spec
from hotdesk.desk.wall.local.runtime import local_runtime

FOLDER = Path(pdfs.__file__).parent
BOOK = "Reconciliation.xlsx"
TASK = PlanningTask("", (), (), (), (), (), "")
AGREED = pdfs.COUNT - len(pdfs.WRONG)
USES = 19
"""Tool uses of the whole job."""
SOON = (2, 16)
"""Uses that are forgotten in every run, the confirmation among them; the others in the long one."""


@pytest.fixture
def supplier(tmp_path: Path) -> Iterator[Supplier]:
    with serve_supplier(tmp_path, "the-token") as made:
        yield made


async def work(supplier: Supplier, forget: int = -1) -> tuple[Loop, dict[str, str]]:
    """Carry the example out, each reply by another process; return the loop and the workbook's cells."""
    source, path = (FOLDER / "brain.py").read_bytes(), FOLDER / "brain.py"

    def door(desk: Desk) -> None:
        """Act as the door: admit only the supplier, with the token."""
        (Path(desk.home) / ".curlrc").write_text(
            f'cacert = "{supplier.ca}"\nconnect-to = "{HOST}:443:127.0.0.1:{supplier.port}"\n'
            f'header = "Authorization: Bearer {supplier.token}"\nconnect-to = "::127.0.0.1:1"\nnoproxy = "*"\n'
        )

    async with local_runtime() as runtime:
        desk = await runtime.open(Spec())
        shutil.copytree(FOLDER / "invoices", Path(desk.home) / "invoices")
        loop = Loop(runtime, desk, lambda: ScriptedModel(source, path), door, forget)
        assert await loop.carry_out(ScriptedModel(source, path).provide_plan(TASK)), loop.told
        [wanted] = tomllib.loads((FOLDER / "brief.toml").read_text())["deliverables"]
        check = find(wanted["check"], wanted["expect"])
        verdict = check.judge(await check.gather(desk, BOOK))
        assert verdict.passed, verdict.findings
        return loop, cells(Path(desk.home) / BOOK)


def cells(book: Path) -> dict[str, str]:
    with zipfile.ZipFile(book) as file:
        sheet = file.read("xl/worksheets/sheet1.xml").decode()
    return dict(re.findall(r'<c r="([A-Z]+\d+)"[^>]*>(.*?)</c>', sheet))


@pytest.mark.slow
async def test_the_script_corrects_its_error_and_the_workbook_passes(supplier: Supplier) -> None:
    loop, book = await work(supplier)
    assert [each.split("{")[0].strip() for each in loop.told] == [
        "read finish",
        "ask finish",
        "book give_up",
        "book finish",
        "confirm finish",
    ]
    assert "nobody knows where the others are" in loop.told[2]
    assert [call.tool for call in loop.used].count("file_replace") == 1
    assert len(loop.used) == USES
    [made] = supplier.confirmations
    assert len(made["orders"]) == AGREED  # type: ignore[arg-type]
    assert [status for _, _, status in supplier.requests] == [200, 200, 201, 200]
    assert book["A2"] == "<is><t>INV-3001</t></is>"
    assert len([place for place in book if place.startswith("F")]) == pdfs.COUNT + 2


@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "forget", [pytest.param(use, marks=() if use in SOON else pytest.mark.long) for use in range(USES)]
)
async def test_an_unknown_outcome_does_not_change_the_result(supplier: Supplier, forget: int) -> None:
    _, book = await work(supplier)
    supplier.confirmations.clear()
    _, again = await work(supplier, forget)
    assert again == book
    assert [len(made["orders"]) for made in supplier.confirmations] == [AGREED]  # type: ignore[arg-type]


def test_the_invoices_here_are_those_of_the_first_seed(tmp_path: Path) -> None:
    pdfs.write(tmp_path / "invoices")
    made, here = (
        {path.name: path.read_bytes() for path in (each / "invoices").iterdir()} for each in (tmp_path, FOLDER)
    )
    assert made == here
    assert len(here) == pdfs.COUNT
