"""Is it a working workbook: recalculated, changed and compared, in an office of the desk's; judged here.

`check.py` is the check. `expect.py` reads what a brief expects, `workbook.py` what the desk reported; `formula.py`
knows what a formula refers to; `values.py`, `table.py`, `audit.py` and `sources.py` hold the rules.
"""
