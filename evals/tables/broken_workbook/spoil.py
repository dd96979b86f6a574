"""Write wrong but plausible deliveries: in each, one place stays broken."""

from __future__ import annotations

import json
from pathlib import Path

import openpyxl  # type: ignore[import-untyped]


def main() -> None:
    """Write a variant for every broken cell."""
    truth = json.loads(Path("hidden/truth.json").read_text())
    typed, short, neighbour, missing, overhead, loss, text, percent = truth["damaged"]
    column = short.partition("!")[2][:-1]
    values = openpyxl.load_workbook("delivered/Repaired.xlsx", data_only=True)
    write("number-typed", typed, values["Sales"][typed.partition("!")[2]].value)
    write("sum-one-row-short", short, f"=SUM({column}2:{column}5)")
    row = int(neighbour[-1])
    wrong = f"=Units!{neighbour.partition('!')[2]}*Inputs!$B${7 + (row - 1) % 5}*(1-Inputs!$B$4)"
    write("price-of-the-neighbour", neighbour, wrong)
    write("reference-replaced-by-nothing", missing, "=0")
    write("overhead-for-total", overhead, f"=Costs!{overhead.partition('!')[2][:-1]}7")
    write("loss-is-taxed", loss, "=B4*Inputs!$B$2")
    write("text-kept", text, "55 ")
    write("percent-kept", percent, round(truth["rate"] * 100))


def write(name: str, place: str, value: object) -> None:
    """Write a variant with one other cell."""
    book = openpyxl.load_workbook("delivered/Repaired.xlsx")
    sheet, cell = place.split("!")
    book[sheet][cell] = value
    folder = Path("spoilt", name)
    folder.mkdir(parents=True)
    book.save(folder / "Repaired.xlsx")


if __name__ == "__main__":
    main()
