"""Makes the filing and the analyst's workbook, in a desk that is not the worker's.

python3 prepare.py    reads books.json, writes filing.pdf and model.xlsx
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import xlsxwriter  # type: ignore[import-not-found]
from reportlab.lib import colors  # type: ignore[import-untyped]
from reportlab.lib.pagesizes import A4  # type: ignore[import-untyped]
from reportlab.lib.styles import getSampleStyleSheet  # type: ignore[import-untyped]
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table  # type: ignore[import-untyped]

HEAD, FIRST = 3, 4
"""Rows of the workbook's sheets, counted from 0: the names of quarters, and the first item."""
NAVY, PALE = "#1F3A5F", "#FFF8E1"
NUMBER = "#,##0;(#,##0)"
INCOME_ROWS = (
    ("Product revenue", ""), ("Service revenue", ""), ("Total revenue", "={c}5+{c}6"), ("Cost of revenue", ""),
    ("Gross profit", "={c}7+{c}8"), ("Research and development", ""), ("Sales and marketing", ""),
    ("General and administrative", ""), ("Operating income", "={c}9+SUM({c}10:{c}12)"), ("Interest expense", ""),
    ("Income taxes", ""), ("Net income", "={c}13+{c}14+{c}15"),
)  # fmt: skip
BALANCE_ROWS = (
    ("Cash", ""), ("Receivables", ""), ("Inventories", ""), ("Property and equipment", ""),
    ("Total assets", "=SUM({c}5:{c}8)"), ("Payables", ""), ("Long-term debt", ""), ("Shareholders' equity", ""),
    ("Total liabilities and equity", "=SUM({c}10:{c}12)"),
)  # fmt: skip


def main() -> None:
    """Make both."""
    books = json.loads(Path("books.json").read_text())
    Filing(books).write()
    Model(books).write()


class Filing:
    """A quarterly report in the form of a filing."""

    def __init__(self, books: dict[str, Any]) -> None:
        self.books = books
        self.styles = getSampleStyleSheet()

    def write(self) -> None:
        """Write the PDF."""
        company, (before, new) = self.books["company"], self.books["quarters"][-2:]
        margins = dict.fromkeys(("leftMargin", "rightMargin", "topMargin", "bottomMargin"), 62)
        file = SimpleDocTemplate(
            "filing.pdf", pagesize=A4, title=f"{company}, {new}", author=company, invariant=1, **margins
        )
        notes = [
            f"(1) Restated: {' and '.join(self.books['restated'])}, classified anew in {before}.",
            f"(2) {self.books['one_off']} of {new} includes a one-off item that is not expected to recur.",
        ]
        told = [self.text(f"{company}", "Title"), self.text(f"Quarterly report, {new}", "Heading2")]
        told += [
            self.text("Unaudited. Amounts in thousands of dollars; negative amounts in parentheses."),
            Spacer(1, 12),
        ]
        told += [self.text("Income statement", "Heading3"), self.table(INCOME_ROWS, new, before), Spacer(1, 14)]
        told += [self.text(note) for note in notes]
        told += [PageBreak(), self.text("Balance sheet", "Heading3"), self.table(BALANCE_ROWS, new, before)]
        told += [Spacer(1, 14), *(self.text(note) for note in notes)]
        file.build(told)

    def text(self, words: str, style: str = "BodyText") -> Any:
        """Return a paragraph."""
        return Paragraph(words, self.styles[style])

    def table(self, rows: tuple[tuple[str, str], ...], new: str, before: str) -> Any:
        """Return a table."""
        made = Table([["", new, before], *(self.row(name) for name, _ in rows)], colWidths=(240, 110, 110))
        made.setStyle(
            [("GRID", (0, 0), (-1, -1), 0.4, colors.HexColor("#B8C1CC")), ("ALIGN", (1, 0), (-1, -1), "RIGHT")]
        )
        made.setStyle(
            [("BACKGROUND", (0, 0), (-1, 0), colors.HexColor(NAVY)), ("TEXTCOLOR", (0, 0), (-1, 0), colors.white)]
        )
        sums = [place for place, (_, formula) in enumerate(rows, 1) if formula]
        made.setStyle([("FONTNAME", (0, place), (-1, place), "Helvetica-Bold") for place in (0, *sums)])
        return made

    def row(self, name: str) -> list[str]:
        """Return an item's row, with marks of footnotes."""
        new, before = self.books["filed"].get(name) or self.books["sums"][name]
        marks = "(2)" if name == self.books["one_off"] else "", "(1)" if name in self.books["restated"] else ""
        return [name, amount(new) + marks[0], amount(before) + marks[1]]


class Model:
    """An analyst's workbook with an empty column for the next quarter."""

    def __init__(self, books: dict[str, Any]) -> None:
        self.books = books
        self.file = xlsxwriter.Workbook("model.xlsx")
        self.file.set_properties({"title": f"{books['company']}, model", "created": datetime(2025, 7, 1, tzinfo=UTC)})
        forms: dict[str, dict[str, Any]] = {
            "title": {"bold": True, "font_size": 16, "font_color": NAVY},
            "note": {"font_color": "#6B7780"},
        }
        forms |= {"head": {"bold": True, "font_color": "white", "bg_color": NAVY, "align": "right"}}
        forms |= {"item": {}, "number": {"num_format": NUMBER}, "wait": {"num_format": NUMBER, "bg_color": PALE}}
        forms |= {"sum": {"num_format": NUMBER, "bold": True, "top": 1}, "strong": {"bold": True, "top": 1}}
        forms |= {
            "share": {"num_format": "0.0%"},
            "input": {"bg_color": PALE, "num_format": "0.0%"},
            "words": {"bg_color": PALE, "indent": 1},
        }
        forms |= {"left": {**forms["head"], "align": "left", "indent": 1}, "right": {"align": "right"}}
        forms |= {"choice": {"bg_color": PALE, "align": "right"}}
        self.form = {
            name: self.file.add_format({"font_name": "Liberation Sans", **told}) for name, told in forms.items()
        }

    def write(self) -> None:
        """Write the workbook: a summary with charts, two statements, and a reconciliation."""
        summary = self.sheet("Summary", "Summary", 34)
        self.statement("Income", "Income statement", INCOME_ROWS)
        self.statement("Balance", "Balance sheet", BALANCE_ROWS)
        self.reconciliation()
        self.summary(summary)
        names = {"Total_Revenue": "Income!$B$7:$F$7", "Net_Income": "Income!$B$16:$F$16", "Growth": "Summary!$B$13"}
        for name, place in {**names, "Scenario": "Summary!$B$12"}.items():
            self.file.define_name(name, f"={place}")
        self.file.close()

    def sheet(self, name: str, title: str, first: float) -> Any:
        """Add a sheet that prints on one page."""
        sheet = self.file.add_worksheet(name)
        sheet.hide_gridlines(2)
        sheet.set_landscape()
        sheet.set_paper(9)
        sheet.fit_to_pages(1, 1)
        sheet.set_footer(f"&L{self.books['company']}&C&A&RPage &P of &N")
        sheet.set_column(0, 0, first)
        sheet.set_column(1, 5, 15)
        sheet.write(0, 0, f"{self.books['company']}: {title}", self.form["title"])
        sheet.write(1, 0, "In thousands of dollars", self.form["note"])
        return sheet

    def heads(self, sheet: Any, *names: str) -> None:
        """Write the header row."""
        for place, name in enumerate(("", *names)):
            sheet.write(HEAD, place, name, self.form["head"])

    def statement(self, name: str, title: str, rows: tuple[tuple[str, str], ...]) -> None:
        """Write a statement: known quarters, an empty column, and sums as formulas."""
        sheet = self.sheet(name, title, 34)
        self.heads(sheet, *self.books["quarters"])
        for row, (item, formula) in enumerate(rows, FIRST):
            sheet.write(row, 0, item, self.form["strong" if formula else "item"])
            for place in range(5):
                if formula:
                    sheet.write_formula(row, 1 + place, formula.format(c="BCDEF"[place]), self.form["sum"])
                elif place < 4:
                    sheet.write_number(row, 1 + place, self.books["model"][item][place], self.form["number"])
                else:
                    sheet.write_blank(row, 5, None, self.form["wait"])

    def reconciliation(self) -> None:
        """Write the model's values of the last quarter, with space for those of the filing."""
        sheet = self.sheet("Reconciliation", "Last quarter, as the filing has it now", 34)
        sheet.set_column(4, 4, 92)
        self.heads(sheet, "In the model", "As filed", "Difference")
        sheet.write(HEAD, 4, "Explained by", self.form["left"])
        items = [("Income", row, item) for row, (item, formula) in enumerate(INCOME_ROWS, FIRST + 1) if not formula]
        items += [("Balance", row, item) for row, (item, formula) in enumerate(BALANCE_ROWS, FIRST + 1) if not formula]
        for row, (source, at, item) in enumerate(items, FIRST):
            sheet.write(row, 0, item, self.form["item"])
            sheet.write_formula(row, 1, f"={source}!E{at}", self.form["number"])
            sheet.write_blank(row, 2, None, self.form["wait"])
            sheet.write_formula(row, 3, f"=C{row + 1}-B{row + 1}", self.form["number"])
            sheet.write_blank(row, 4, None, self.form["words"])
        last = FIRST + len(items)
        sheet.write(last, 0, "Items that differ", self.form["strong"])
        sheet.write_formula(last, 3, f'=COUNTIF(D5:D{last},"<>0")', self.form["sum"])

    def summary(self, sheet: Any) -> None:
        """Write the key figures as formulas, with two charts and a choice of scenario."""
        self.heads(sheet, *self.books["quarters"])
        shares = {"Gross margin": "9", "Operating margin": "13", "Net margin": "16"}
        for row, (name, at) in enumerate({"Total revenue": "7", "Net income": "16"}.items(), FIRST):
            sheet.write(row, 0, name, self.form["item"])
            for column in "BCDEF":
                sheet.write_formula(f"{column}{row + 1}", f"=Income!{column}{at}", self.form["number"])
        for row, (name, at) in enumerate(shares.items(), FIRST + 2):
            sheet.write(row, 0, name, self.form["item"])
            for column in "BCDEF":
                formula = f'=IF(Income!{column}7=0,"",Income!{column}{at}/Income!{column}7)'
                sheet.write_formula(f"{column}{row + 1}", formula, self.form["share"])
        sheet.write("A10", "Balance sheet balances", self.form["item"])
        for column in "BCDEF":
            sheet.write_formula(
                f"{column}10", f'=IF(Balance!{column}9=Balance!{column}13,"yes","NO")', self.form["right"]
            )
        sheet.write("A12", "Scenario", self.form["item"])
        sheet.write("B12", "Base", self.form["choice"])
        sheet.data_validation("B12", {"validate": "list", "source": ["Low", "Base", "High"]})
        sheet.write("A13", "Growth of revenue a quarter", self.form["item"])
        sheet.write("B13", 0.03, self.form["input"])
        sheet.write("A14", "Revenue expected next quarter", self.form["item"])
        step = 'IF(Scenario="High",0.02,IF(Scenario="Low",-0.02,0))'
        sheet.write_formula("B14", f"=F5*(1+Growth+{step})", self.form["number"])
        self.chart(sheet, "column", "Total revenue", 5, "A16")
        self.chart(sheet, "line", "Net income", 6, "D16")

    def chart(self, sheet: Any, kind: str, name: str, row: int, place: str) -> None:
        """Draw a row of the summary as a chart."""
        chart = self.file.add_chart({"type": kind})
        look = {"fill": {"color": NAVY}} if kind == "column" else {"line": {"color": "#C4622D", "width": 2.5}}
        chart.add_series(
            {
                "name": f"=Summary!$A${row}",
                "categories": "=Summary!$B$4:$F$4",
                "values": f"=Summary!$B${row}:$F${row}",
                **look,
            }
        )
        chart.set_title({"name": name, "name_font": {"size": 12}})
        chart.set_legend({"none": True})
        chart.set_y_axis(
            {"min": 0, "num_format": "#,##0", "major_gridlines": {"visible": True, "line": {"color": "#E3E3E3"}}}
        )
        chart.set_size({"width": 430, "height": 250})
        sheet.insert_chart(place, chart)


def amount(value: int) -> str:
    """Format an amount as filings do."""
    return f"({-value:,})" if value < 0 else f"{value:,}"


if __name__ == "__main__":
    main()
