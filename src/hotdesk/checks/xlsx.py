"""Is it a working workbook: its columns, how many rows, formulas that hold, red where something differs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hotdesk.checks.seam import Verdict
from hotdesk.desk.seam import Desk
from hotdesk.errors import BriefError, printable

PROGRAM = Path(__file__).with_name("xlsx_inside.py")
SECONDS = 60.0
LARGEST = 8 << 20
"""Bytes of the largest evidence."""
MOST_CELLS = 20_000
LONGEST = 500
MOST_FINDINGS = 20
CELL_SHAPE = re.compile(r"([A-Z]{1,3})([1-9][0-9]{0,6})", re.ASCII)
SUM_SHAPE = re.compile(r"=?SUM\(([A-Z]{1,3})([1-9][0-9]{0,6}):\1([1-9][0-9]{0,6})\)", re.ASCII)
DIFFERENCE_SHAPE = re.compile(r"=?([A-Z]{1,3}[1-9][0-9]{0,6})-([A-Z]{1,3}[1-9][0-9]{0,6})", re.ASCII)
CENT = 0.005
EXAMPLE = 'expect = {columns = ["Invoice", "Difference"], rows = 5, red_where = "Difference", total = "Difference"}'


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell, as it was seen."""

    value: str | float | None
    formula: str = ""
    fill: str = ""
    error: bool = False


Sheet = Mapping[tuple[int, str], Cell]
"""Cells by row and column's letters."""


@dataclass(frozen=True, slots=True)
class XlsxCheck:
    """What the first sheet of a workbook shall be. Below its head are rows, and below them perhaps a total."""

    columns: tuple[str, ...]
    rows: int
    red_where: str = ""
    """A column: rows are red where it is not 0, and only there."""
    total: str = ""
    """A column whose sum stands below the rows, as a formula."""

    @classmethod
    def expecting(cls, expect: Mapping[str, object]) -> XlsxCheck:
        """Read what a brief expects."""
        if unknown := sorted(set(expect) - set(cls.__dataclass_fields__)):
            raise BriefError(f"xlsx cannot expect {printable(unknown[0][:80])!r}; write {EXAMPLE}")
        columns, rows = expect.get("columns"), expect.get("rows")
        if not isinstance(columns, list) or not columns or not all(isinstance(each, str) for each in columns):
            raise BriefError(f"xlsx expects columns, a list of their heads; write {EXAMPLE}")
        if type(rows) is not int or not 0 <= rows <= MOST_CELLS:
            raise BriefError(f"xlsx expects rows, a number; write {EXAMPLE}")
        for key in ("red_where", "total"):
            if expect.get(key, columns[0]) not in columns:
                raise BriefError(f"xlsx expects {key} to be one of its columns; write {EXAMPLE}")
        return cls(tuple(columns), rows, str(expect.get("red_where", "")), str(expect.get("total", "")))

    @property
    def image(self) -> str:
        """Look in a desk of the smallest image: Python reads a workbook without help."""
        return "base"

    async def gather(self, desk: Desk, path: str) -> bytes:
        """Have the desk's own Python open the file."""
        done = await desk.run(["python3", "-I", "-c", PROGRAM.read_text(), path], timeout=SECONDS, output_limit=LARGEST)
        return done.stdout

    def judge(self, evidence: bytes) -> Verdict:
        """Judge what was seen."""
        try:
            sheet = read_evidence(evidence)
        except (ValueError, RecursionError) as e:
            return Verdict(False, (printable(str(e)[:LONGEST]),))
        wrong = Judgement(self, sheet).faults()
        return Verdict(not wrong, tuple(wrong[:MOST_FINDINGS]) or self.held(sheet))

    def held(self, sheet: Sheet) -> tuple[str, ...]:
        """Say what holds, of a workbook in which everything does."""
        formulas = sum(1 for cell in sheet.values() if cell.formula)
        told = [
            f"{len(self.columns)} columns, {self.rows} rows",
            f"{formulas} formula{'s' if formulas != 1 else ''}, calculated again",
        ]
        return (*told, f"red where {self.red_where} is not 0, and only there") if self.red_where else tuple(told)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One sheet against what is expected of it."""

    want: XlsxCheck
    sheet: Sheet
    letters: Mapping[str, str] = field(init=False)
    """Which column has which head."""

    def __post_init__(self) -> None:
        heads = {str(cell.value): letters for (row, letters), cell in self.sheet.items() if row == 1}
        object.__setattr__(self, "letters", heads)

    def faults(self) -> list[str]:
        """List what is wrong; heads first, since all else is said in them."""
        heads = [str(cell.value) for (row, _), cell in self.sheet.items() if row == 1]
        if heads != list(self.want.columns):
            return [f"the columns are {printable(', '.join(heads)[:LONGEST])}, not {', '.join(self.want.columns)}"]
        return [*self.count(), *self.formulas(), *self.colours(), *self.sums()]

    def last(self) -> int:
        """Give the last row that is no total."""
        return max(row for row, _ in self.sheet) - bool(self.want.total)

    def count(self) -> list[str]:
        """Count the rows, and find gaps in them."""
        found = self.last() - 1
        first = self.letters[self.want.columns[0]]
        gaps = [row for row in range(2, self.last() + 1) if (row, first) not in self.sheet]
        wrong = [f"there are {found} rows, not {self.want.rows}"] if found != self.want.rows else []
        return wrong + [f"row {row} has no {self.want.columns[0]}" for row in gaps]

    def formulas(self) -> list[str]:
        """Calculate every formula again; one that cannot be, or shows an error, does not hold."""
        wrong = []
        for (row, letters), cell in self.sheet.items():
            if cell.error:
                wrong.append(f"{letters}{row} shows {printable(str(cell.value))}")
            elif cell.formula and cell.value is None:
                wrong.append(f"{letters}{row} holds {printable(cell.formula)} and no value: it was never calculated")
            elif cell.formula and not agrees(cell.value, calculated(cell.formula, self.sheet)):
                shown = printable(cell.formula)
                wrong.append(f"{letters}{row} shows {printable(str(cell.value))}, which is not what {shown} gives")
        return wrong

    def colours(self) -> list[str]:
        """Compare what is red with what differs."""
        if not self.want.red_where:
            return []
        column, wrong = self.letters[self.want.red_where], []
        for row in range(2, self.last() + 1):
            value = self.sheet.get((row, column), Cell(None)).value
            red = all(is_red(cell.fill) for (at, _), cell in self.sheet.items() if at == row)
            if not isinstance(value, float):
                wrong.append(f"row {row} has no number in {self.want.red_where}")
            elif red != (abs(value) > CENT):
                wrong.append(f"row {row} is {'' if red else 'not '}red, and its {self.want.red_where} is {value:g}")
        return wrong

    def sums(self) -> list[str]:
        """Find the total."""
        if not self.want.total:
            return []
        column, row = self.letters[self.want.total], self.last() + 1
        found = SUM_SHAPE.fullmatch(self.sheet.get((row, column), Cell(None)).formula)
        if found is None or (found[1], int(found[2]), int(found[3])) != (column, 2, self.last()):
            return [f"{column}{row} is not the sum of {self.want.total}"]
        return []


def calculated(formula: str, sheet: Sheet) -> float | None:
    """Calculate a sum or a difference; None for every other formula."""
    if found := SUM_SHAPE.fullmatch(formula):
        first, last = int(found[2]), int(found[3])
        cells = [cell.value for (row, letters), cell in sheet.items() if letters == found[1] and first <= row <= last]
        return math.fsum(value for value in cells if isinstance(value, float))
    if found := DIFFERENCE_SHAPE.fullmatch(formula):
        left, right = (sheet.get(place(found[side]), Cell(None)).value for side in (1, 2))
        return left - right if isinstance(left, float) and isinstance(right, float) else None
    return None


def agrees(value: str | float | None, calculated: float | None) -> bool:
    """Say whether a cell shows what its formula gives."""
    return isinstance(value, float) and calculated is not None and abs(value - calculated) < CENT


def is_red(fill: str) -> bool:
    """Say whether a colour such as `FFFF9999` is red to the eye."""
    if not re.fullmatch(r"[0-9A-Fa-f]{8}", fill, re.ASCII):
        return False
    red, green, blue = (int(fill[at : at + 2], 16) for at in (2, 4, 6))
    return red >= 0x99 and red - max(green, blue) >= 0x30


def place(text: str) -> tuple[int, str]:
    """Read where a cell is."""
    found = CELL_SHAPE.fullmatch(text)
    if found is None:
        raise ValueError("a cell is nowhere")
    return int(found[2]), found[1]


def read_evidence(evidence: bytes) -> Sheet:
    """Read what the desk told of the first sheet; `ValueError` for anything it was not asked for."""
    if not evidence or len(evidence) >= LARGEST:
        raise ValueError("nothing could be seen of it, or too much")
    try:
        told = json.loads(evidence, parse_constant=float)
    except ValueError:
        raise ValueError("what was seen of it is no JSON") from None
    match told:
        case {"unreadable": str(why)}:
            raise ValueError(f"it cannot be opened as a workbook: {why}")
        case {"sheets": [{"cells": list(cells)}, *_]} if 0 < len(cells) <= MOST_CELLS:
            found = dict(map(read_cell, cells))
        case _:
            raise ValueError("it has no sheet, an empty one, or too large a one")
    if len(found) != len(cells) or not any(row == 1 for row, _ in found):
        raise ValueError("it has no first row, or two cells in one place")
    return dict(sorted(found.items(), key=lambda each: (each[0][0], len(each[0][1]), each[0][1])))


def read_cell(told: object) -> tuple[tuple[int, str], Cell]:
    """Read one cell strictly."""
    match told:
        case {
            "at": str(at),
            "value": (str() | float() | None) as value,
            "formula": str(formula),
            "fill": str(fill),
            "error": bool(error),
        } if max(len(at), len(formula), len(fill), len(value) if isinstance(value, str) else 0) <= LONGEST:
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError("a cell holds no number that can be")
            return place(at), Cell(value, formula, fill, error)
    raise ValueError("a cell is not what a cell is")
