"""Writes small workbooks, a good one and others with one fault each. Runs in a desk of the office image."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-not-found,import-untyped,unused-ignore]
import xlsxwriter  # type: ignore[import-not-found,import-untyped,unused-ignore]

COLUMNS = ["Invoice", "Invoiced", "Ordered", "Difference"]
ROWS = [("I-1", 10, 10), ("I-2", 30, 20), ("I-3", 7, 7), ("I-4", 5, 5), ("I-5", 9, 9), ("I-6", 4, 5)]
Change = Callable[[Any, dict[str, Any]], object]


def write(name: str, change: Change = lambda book, sheets: None, *, fill: bool = True, charted: bool = True) -> None:
    """Write a workbook: data, a summary of it and of assumptions, with a chart, a choice, a condition and a name."""
    book = xlsxwriter.Workbook(f"{name}.xlsx")
    sheets = {each: book.add_worksheet(each) for each in ("Data", "Summary", "Assumptions")}
    red = book.add_format({"bg_color": "#FF9999"})
    sheets["Data"].write_row(0, 0, COLUMNS)
    for place, (invoice, invoiced, ordered) in enumerate(ROWS):
        style = red if fill and invoiced != ordered else None
        for column, held in enumerate((invoice, invoiced, ordered)):
            sheets["Data"].write(place + 1, column, held, style)
        sheets["Data"].write_formula(place + 1, 3, f"=B{place + 2}-C{place + 2}", style, invoiced - ordered)
    sheets["Data"].write("A8", "Total")
    sheets["Data"].write_formula("D8", "=SUM(D2:D7)", None, 9)
    sheets["Summary"].write("A1", "Found")
    sheets["Summary"].write_formula("B1", "=Data!D8", None, 9)
    sheets["Summary"].write("A2", "With tax")
    sheets["Summary"].write_formula("B2", "=B1*(1+Tax)", None, 10.8)
    for letter, saved in zip("BCDEFG", (20, 20, 0, 0, 0, 0), strict=True):
        sheets["Summary"].write_formula(f"{letter}4", f"=Data!{letter}2*2", None, saved)
    sheets["Assumptions"].write_row(0, 0, ["Assumption", "Value"])
    sheets["Assumptions"].write_row(1, 0, ["Tax", 0.2])
    book.define_name("Tax", "=Assumptions!$B$2")
    furnish(book, sheets, charted)
    change(book, sheets)
    book.close()


def furnish(book: Any, sheets: dict[str, Any], charted: bool) -> None:
    sheets["Assumptions"].data_validation(
        "B2", {"validate": "decimal", "criteria": "between", "minimum": 0, "maximum": 1}
    )
    if charted:
        chart = book.add_chart({"type": "column"})
        chart.add_series({"values": "=Data!$D$2:$D$7"})
        sheets["Summary"].insert_chart("D6", chart)


def put(sheet: str, at: str, *what: object) -> Change:
    """Return a change that puts something else into a cell: a value, or a formula with its cached value."""

    def change(book: Any, sheets: dict[str, Any]) -> None:
        if len(what) == 2:
            sheets[sheet].write_formula(at, what[0], None, what[1])
        elif isinstance(what[0], str):
            sheets[sheet].write_string(at, what[0])
        else:
            sheets[sheet].write(at, what[0])

    return change


def painted(column: str) -> Change:
    def change(book: Any, sheets: dict[str, Any]) -> None:
        red = book.add_format({"bg_color": "#FFC7CE"})
        rule = {"type": "formula", "criteria": f"=${column}2<>0", "format": red}
        sheets["Data"].conditional_format("A2:D7", rule)

    return change


def rewrite(name: str, change: Callable[[Any], object]) -> None:
    """Write the good workbook again with openpyxl, which keeps neither cached values nor everything else."""
    book = openpyxl.load_workbook("good.xlsx")
    change(book)
    book.save(f"{name}.xlsx")


def patch(name: str, part: str, old: str, new: str) -> None:
    with zipfile.ZipFile("good.xlsx") as source, zipfile.ZipFile(f"{name}.xlsx", "w") as target:
        for each in source.namelist():
            text = source.read(each)
            if each == part:
                assert old.encode() in text, text
                text = text.replace(old.encode(), new.encode())
            target.writestr(each, text)


def share(name: str) -> None:
    """Write the good workbook again as an office does: one shared formula, filled into the rows below."""
    with zipfile.ZipFile("good.xlsx") as source, zipfile.ZipFile(f"{name}.xlsx", "w") as target:
        for each in source.namelist():
            text = source.read(each).decode()
            if each == "xl/worksheets/sheet1.xml":
                text = text.replace("<f>B2-C2</f>", '<f t="shared" ref="D2:D7" si="0">B2-C2</f>')
                text = re.sub(r"<f>B[3-7]-C[3-7]</f>", '<f t="shared" si="0"/>', text)
            target.writestr(each, text)


def remove_name(book: Any) -> None:
    del book.defined_names["Tax"]
    book["Summary"]["B2"] = 10.8


def circle(book: Any, sheets: dict[str, Any]) -> None:
    sheets["Summary"].write_formula("B6", "=B7+1", None, 5)
    sheets["Summary"].write_formula("B7", "=B6-1", None, 4)


def hide(book: Any, sheets: dict[str, Any]) -> None:
    sheets["Assumptions"].hide()
    sheets["Summary"].set_row(20, None, None, {"hidden": True})


def main() -> None:
    write("good")
    write("stale", put("Data", "D3", "=B3-C3", 0))
    write("division", put("Summary", "B6", "=1/0", "#DIV/0!"))
    write("hidden_error", put("Summary", "B6", "=1/(Data!B2-10)", 5))
    write("unknown", put("Summary", "B6", "=NOSUCH(1)", 5))
    write("circle", circle)
    write("caught_circle", put("Summary", "B6", "=IFERROR(SUM(B1:B6),1)", 1))
    write("typed", put("Data", "D5", 0))
    write("unlike", put("Data", "D5", "=B5-C6", -4))
    write("elsewhere", put("Summary", "D4", "=Assumptions!D2*2", 0))
    write("unused", lambda book, sheets: sheets["Assumptions"].write_row(2, 0, ["Growth", 0.03]))
    write("texts", put("Data", "B4", "7"))
    write("heads", put("Data", "A1", "Number"))
    write("short", lambda book, sheets: sheets["Data"].write_row(8, 0, ["I-9", 1, 1]))
    write("pale", fill=False)
    write("condition", painted("D"), fill=False)
    write("other_condition", painted("B"), fill=False)
    write("half", put("Data", "D8", "=SUM(D2:D6)", 10))
    write("dead", put("Summary", "B2", 10.8))
    write("hidden", hide)
    write("hidden_row", lambda book, sheets: sheets["Data"].set_row(2, None, None, {"hidden": True}))
    write("flat_row", lambda book, sheets: sheets["Data"].set_row(2, 0.1))
    write("hidden_column", lambda book, sheets: sheets["Data"].set_column(3, 3, None, None, {"hidden": True}))
    write("hidden_sheet", lambda book, sheets: (sheets["Summary"].activate(), sheets["Data"].hide()))
    write("chance", put("Summary", "B2", "=10.8+RAND()", 11))
    write("no_chart", charted=False)
    patch("ghost_chart", "xl/drawings/drawing1.xml", "<c:chart ", "<c:nothing ")
    rewrite("uncalculated", lambda book: None)
    rewrite("no_validation", lambda book: setattr(book["Assumptions"].data_validations, "dataValidation", []))
    rewrite("no_name", remove_name)
    rewrite("no_sheet", lambda book: book.remove(book["Summary"]))
    patch("theme", "xl/styles.xml", '<fgColor rgb="FFFF9999"/>', '<fgColor theme="5" tint="0.2"/>')
    patch("blue", "xl/styles.xml", '<fgColor rgb="FFFF9999"/>', '<fgColor theme="4"/>')
    patch("indexed", "xl/styles.xml", '<fgColor rgb="FFFF9999"/>', '<fgColor indexed="10"/>')
    patch("beside", "_rels/.rels", "xl/workbook.xml", "xl/other.xml")
    share("shared")
    Path("truncated.xlsx").write_bytes(Path("good.xlsx").read_bytes()[:-2000])
    folder = Path("beside")
    folder.mkdir()
    (folder / "erp.csv").write_text("Order,Difference\nP1,10\nP2,-1\n")
    (folder / "erp.json").write_text(json.dumps([{"Difference": 10}, {"Difference": -1}]))
    (folder / "wrong.csv").write_text("Order,Difference\nP1,10\n")
    (folder / "model.xlsx").write_bytes(Path("good.xlsx").read_bytes())


if __name__ == "__main__":
    main()
