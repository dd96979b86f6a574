"""Compares the last quarter in the model with the filing, at the worker's desk.

python3 reconcile.py    reads model.xlsx, figures.csv and footnotes.json, writes reconciliation.csv
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]


def main() -> None:
    """Compare item by item; a difference that no footnote explains is an error."""
    figures = pd.read_csv("figures.csv", dtype={"Note": str}, keep_default_na=False)
    notes = json.loads(Path("footnotes.json").read_text())
    sheets = pd.read_excel("model.xlsx", sheet_name=["Income", "Balance"], header=3, index_col=0)
    model = pd.concat(sheets.values())
    last = model.columns[-2]
    filed = figures[figures["Quarter"] == last].set_index("Item")
    inputs = model.index[model[model.columns[-1]].isna()]  # the empty cells of the new quarter, without sums
    table = pd.DataFrame({"Model": model.loc[inputs, last], "Filed": filed["Amount"].reindex(inputs)})
    table["Difference"] = table["Filed"] - table["Model"]
    table["Explained"] = [notes.get(note, "") for note in filed["Note"].reindex(inputs)]
    if not (open_ones := table[(table["Difference"] != 0) & (table["Explained"] == "")]).empty:
        sys.exit(f"nothing explains why these differ from {last}: {', '.join(open_ones.index)}")
    table.astype({"Model": int, "Filed": int, "Difference": int}).to_csv("reconciliation.csv", index_label="Item")


if __name__ == "__main__":
    main()
