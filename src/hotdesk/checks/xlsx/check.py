"""The full check of a workbook: opened and recalculated by an office suite, its inputs changed, judged rule by rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice

from hotdesk.brief.brief import locate_input
from hotdesk.checks import active
from hotdesk.checks.count_range import format_count
from hotdesk.checks.evidence import OFFICE_PROCESSES, limit_faults, look, make_unreadable_verdict
from hotdesk.checks.seam import Evidence, Fault, Value, Verdict
from hotdesk.checks.xlsx import audit, values, whole_workbook
from hotdesk.checks.xlsx.expect import Expected, read_expected
from hotdesk.checks.xlsx.faults import format_value, list_names, make_fault, shorten_text
from hotdesk.checks.xlsx.place import Area
from hotdesk.checks.xlsx.requirements import REMEDIES, describe_workbook
from hotdesk.checks.xlsx.table import Table
from hotdesk.checks.xlsx.workbook import Shown, Workbook, read_book
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk

LOOK_TIMEOUT_S = 120.0
NEEDS = ("active_look", *active.NEEDS, *active.OFFICE_NEEDS)
ALWAYS = ("opens", "errors", "calculated", "fresh", "circular", "families", "wrong-sheet", "unused", "text-numbers")
NOT_CHECKED = (
    "macros, which were not run",
    "data from outside the workbook, which was not fetched",
    "how Excel itself calculates and displays it; LibreOffice was used",
    "the effect of number formats and text colours on a cell",
    "whether typed numbers are true, where no source is named",
)
MOST_VALUES = 20
"""Maximum sums and changes in a certificate."""


@dataclass(frozen=True, slots=True)
class XlsxCheck:
    """Expectations of a workbook. Any workbook must open, have no errors and be calculated."""

    want: Expected

    @classmethod
    def from_expect(cls, expect: Mapping[str, object]) -> XlsxCheck:
        return cls(read_expected(expect))

    @property
    def image(self) -> str:
        return "office"

    @property
    def alone(self) -> bool:
        """Whether it needs a desk of its own: no, the office suite stays for other files of the job."""
        return False

    @property
    def stays(self) -> int:
        return OFFICE_PROCESSES

    @property
    def beside(self) -> tuple[str, ...]:
        named = [each.source for each in self.want.reconcile if each.source]
        return tuple(dict.fromkeys([*named, *([self.want.like] if self.want.like else [])]))

    @property
    def not_checked(self) -> tuple[str, ...]:
        return NOT_CHECKED

    @property
    def requirements(self) -> tuple[str, ...]:
        return describe_workbook(self.want)

    async def gather(self, desk: Desk, path: str) -> Evidence:
        request = self.request(path)
        return await look(desk, "xlsx_look", request, seconds=LOOK_TIMEOUT_S, needs=NEEDS, stays=active.STAYS)

    def request(self, path: str) -> Mapping[str, object]:
        named = [each for each in self.want.reconcile if each.source]
        return {
            "path": path,
            "like": f"beside/{locate_input(self.want.like)}" if self.want.like else "",
            "sources": [{"path": f"beside/{locate_input(each.source)}", "column": each.column} for each in named],
            "colours": bool(self.want.red_where or self.want.coloured),
            "mutate": [
                {"set": split(each.cell), "to": each.to, "outputs": [split(output) for output in each.outputs]}
                for each in self.want.mutate
            ],
        }

    def judge(self, evidence: Evidence) -> Verdict:
        looked_for = (*ALWAYS, *self.list_requested_rules())
        try:
            book = read_book(evidence.report)
            faults, more = limit_faults(self.find_faults(book), REMEDIES)
        except (ValueError, RecursionError) as e:
            return make_unreadable_verdict(looked_for, "a workbook", e, REMEDIES["opens"])
        if audit.is_far(book):
            looked_for = tuple(rule for rule in looked_for if rule != "unused")
        facts = self.describe_facts(book) if not faults else ()
        return Verdict(looked_for, faults, facts, self.collect_values(book), book.tools, evidence.pages, more)

    def list_requested_rules(self) -> Iterator[str]:
        want = self.want
        rules = {
            "sheets": want.sheets or want.sheet,
            "columns": want.columns,
            "shown": want.of_a_table,
            "rows": want.rows,
            "colours": want.red_where or want.coloured,
            "total": want.total,
            "formulas": want.formulas,
            "reconcile": want.reconcile,
            "mutation": want.mutate,
            "kept": want.like,
        }
        return (rule for rule, expectation in rules.items() if expectation)

    def find_faults(self, book: Workbook) -> Iterator[Fault]:
        """Find faults; those of the brief's own expectations first."""
        sheet = book.find_sheet(self.want.sheet) if self.want.sheet else book.sheets[0]
        if sheet is None:
            there = list_names(each.name for each in book.sheets)
            return iter([make_fault("sheets", "", f"a sheet {self.want.sheet}", f"the sheets {there}")])
        table = Table(self.want, sheet)
        if wrong := [*whole_workbook.find_missing_sheets(self.want, book), *table.check_columns()]:
            return iter(wrong)
        return chain(
            table.find_hidden_parts(),
            table.count(),
            whole_workbook.find_missing_formulas(self.want, book, table),
            table.check_red_rows(),
            table.check_colours(),
            table.check_total(),
            whole_workbook.check_reconciliations(self.want, book),
            whole_workbook.check_mutations(self.want, book),
            whole_workbook.find_losses(self.want, book),
            values.find_errors(book),
            values.find_uncalculated(book),
            values.find_circular_formulas(book),
            values.find_stale_values(book),
            audit.find_odd_formulas(book),
            audit.find_unused_inputs(book, self.want.assumptions),
            audit.find_text_numbers(book),
        )

    def describe_facts(self, book: Workbook) -> tuple[str, ...]:
        formulas = sum(1 for _ in values.iterate_formulas(book))
        facts = [f"{format_count(formulas, 'formula')}, recalculated without an error"]
        if self.want.columns:
            facts.append(f"{len(self.want.columns)} columns")
        if self.want.rows:
            facts.append(f"{self.want.rows} rows")
        if self.want.red_where:
            facts.append(f"rows are red where {self.want.red_where} is not 0, and only there")
        facts += [f"{each.cell} agrees with {each.other or each.source}" for each in self.want.reconcile]
        facts += [f"{each.cell} set to {each.to} changes the expected cells" for each in self.want.mutate]
        return tuple(map(shorten_text, facts))

    def collect_values(self, book: Workbook) -> Mapping[str, Value]:
        formulas = [cell for _, _, cell in values.iterate_formulas(book)]
        found: dict[str, Value] = {
            "sheets": len(book.sheets),
            "hidden sheets": ", ".join(shorten_text(each.name) for each in book.sheets if each.hidden),
            "hidden rows": sum(each.hidden_rows for each in book.sheets),
            "hidden columns": sum(each.hidden_columns for each in book.sheets),
            "cells": sum(len(each.cells) for each in book.sheets),
            "formulas": len(formulas),
            "recalculated": sum(1 for cell in formulas if cell.fresh_kind != "e"),
            "depend on time or chance": len(values.find_unsteady_cells(book)),
            **{kind: sum(each.counts[kind] for each in book.sheets) for kind in book.sheets[0].counts},
            "names": len(book.names),
        }
        return found | dict(islice(chain(self.iterate_sums(book), self.iterate_moves(book)), MOST_VALUES))

    def iterate_sums(self, book: Workbook) -> Iterator[tuple[str, Value]]:
        for each in self.want.reconcile:
            cell = book.find_cell(each.cell)
            yield shorten_text(f"{each.cell}"), cell.number if cell else None

    def iterate_moves(self, book: Workbook) -> Iterator[tuple[str, Value]]:
        for each, done in zip(self.want.mutate, book.mutations, strict=False):
            for output, before, after in zip(each.outputs, done.before, done.after, strict=False):
                yield shorten_text(f"{output} when {each.cell} is {each.to}"), _measure_change(before, after)


def _measure_change(before: Shown, after: Shown) -> Value:
    if isinstance(before, float) and isinstance(after, float):
        return after - before
    return shorten_text(f"{format_value(before)} → {format_value(after)}")


def split(cell: Area) -> tuple[str, str]:
    sheet, _, at = str(cell).rpartition("!")
    return sheet, at
