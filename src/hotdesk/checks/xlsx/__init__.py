"""The check of a workbook: recalculated and changed by an office suite in the desk, judged here.

`check.py` is the check. `expect.py` reads a brief's options, `workbook.py` the desk's report; `formula.py` parses
formulas; `values.py`, `table.py`, `audit.py` and `whole_workbook.py` have the rules.
"""
